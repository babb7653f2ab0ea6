import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * A way to an endpoint that can be cut. It passes bytes and understands none, so TLS goes through it from end to end.
 *
 * Cut, it is a network that lost its middle: nothing passes either way, on no connection, and nobody is told. Mended, it delivers what
 * was sent meanwhile by those who still hold on to their connection, however late that is.
 */
export class Relay implements Disposable {
  /** What to reach instead of the endpoint. */
  readonly url: string;
  readonly #endpoint: URL;
  readonly #server: Server;
  /** Accepted connections, and what each is passed on to: nothing yet, where it came while the way was cut. */
  readonly #connections = new Map<Socket, Socket | undefined>();
  #isCut = false;

  /** Where nobody else's name and certificate are needed: for an endpoint on this machine. */
  static fits(endpoint: string): boolean {
    return ['localhost', '127.0.0.1'].includes(new URL(endpoint).hostname);
  }

  static async to(endpoint: string): Promise<Relay> {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Relay(new URL(endpoint), server);
  }

  private constructor(endpoint: URL, server: Server) {
    const { port } = server.address() as AddressInfo;
    // A certificate is for the name.
    this.url = `${endpoint.protocol}//${endpoint.hostname}:${port}`;
    this.#endpoint = endpoint;
    this.#server = server.on('connection', (socket) => this.#accept(socket));
  }

  cut(): void {
    this.#isCut = true;
    for (const [near, far] of this.#connections) {
      near.unpipe();
      far?.unpipe();
    }
  }

  mend(): void {
    this.#isCut = false;
    for (const [near, far] of this.#connections) this.#pass(near, far);
  }

  [Symbol.dispose](): void {
    this.#server.close();
    for (const near of this.#connections.keys()) near.destroy();
  }

  #accept(near: Socket): void {
    this.#connections.set(near, undefined);
    near
      .on('error', () => undefined)
      .on('close', () => {
        this.#connections.get(near)?.destroySoon();
        this.#connections.delete(near);
      });
    if (!this.#isCut) this.#pass(near);
  }

  #pass(near: Socket, far = this.#reach(near)): void {
    this.#connections.set(near, far);
    near.pipe(far).pipe(near);
  }

  #reach(near: Socket): Socket {
    const { protocol, hostname: host, port } = this.#endpoint;
    const far = connect({ host, port: Number(port || (protocol === 'https:' ? 443 : 80)), allowHalfOpen: true });
    return far.on('error', () => undefined).on('close', () => near.destroySoon());
  }
}
