import { createServer, type Server } from 'node:http';
import type { Health } from './runtime.ts';

export interface HealthAnswer {
  readonly status: 200 | 404 | 503;
  readonly body: string;
}

/**
 * What a probe gets. `/livez` fails where only a restart helps, so neither for an outage of a service nor for a slow job; `/readyz` while the
 * worker may not run jobs. Both answer with the health object, which names no keys.
 */
export function answerProbe(path: string | undefined, health: Health): HealthAnswer {
  const body = JSON.stringify(health);
  switch (path?.replace(/\?.*$/, '')) {
    case '/livez':
      return { status: health.live ? 200 : 503, body };
    case '/readyz':
      return { status: health.ready ? 200 : 503, body };
    default:
      return { status: 404, body: JSON.stringify({ error: 'there are /livez and /readyz' }) };
  }
}

/** Answers probes on all interfaces, because a kubelet comes to the pod's own address. Port 0: any free one. */
export function serveHealth(port: number, health: () => Health): Promise<Server> {
  const server = createServer((request, response) => {
    const { status, body } = answerProbe(request.url, health());
    response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(body);
  });
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  server.once('error', reject);
  server.listen(port, () => resolve(server));
  return promise;
}
