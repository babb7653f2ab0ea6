import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { onTestFinished } from 'vitest';
import { type AwsClients, awsClients, type RequestHandler } from '../../lib/aws/clients.ts';
import { eventBridgeClient } from '../../lib/aws/eventbridge-bus.ts';

/** What the endpoint does with a request: answer it, keep silent, or break the connection. */
export type Reaction = { readonly status: number; readonly body: object } | 'silence' | 'reset';

export interface Call {
  /** Such as `SendMessageBatch`. */
  readonly action: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the client sent
  readonly input: any;
}

/** Clients, until the end of the test, of an endpoint that reacts as told. */
export async function endpoint(
  react: (call: Call) => Reaction,
  requestHandler?: RequestHandler,
): Promise<AwsClients & { readonly eventBridge: EventBridgeClient }> {
  const server = createServer(async (request, response) => {
    const action = String(request.headers['x-amz-target']).split('.').at(-1) ?? '';
    const reaction = react({ action, input: JSON.parse(await textOf(request)) });
    if (reaction === 'silence') return;
    if (reaction === 'reset') {
      request.socket.destroy();
      return;
    }
    response.writeHead(reaction.status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(reaction.body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const options = {
    region: 'us-east-1',
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    ...(requestHandler && { requestHandler }),
  };
  const clients = awsClients(options);
  const eventBridge = eventBridgeClient(options);
  onTestFinished(() => {
    clients.destroy();
    eventBridge.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { ...clients, eventBridge };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
