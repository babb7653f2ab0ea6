import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { Relay } from '../../demo/relay.ts';

let open = new AsyncDisposableStack();
afterEach(async () => {
  await open.disposeAsync();
  open = new AsyncDisposableStack();
});

/** An endpoint that sends back what it gets, a way to it, and how to take that way. */
async function setup() {
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay = await Relay.to(`http://localhost:${(server.address() as AddressInfo).port}`);
  open.defer(() => void server.close());
  open.use(relay);
  async function call(): Promise<Socket> {
    const socket = connect({ port: Number(new URL(relay.url).port), host: '127.0.0.1', allowHalfOpen: true });
    await once(socket, 'connect');
    return socket;
  }
  return { relay, call };
}

test('a way that is not cut passes everything, up to the end', async () => {
  const { call } = await setup();
  const socket = await call();
  socket.end('there and back');
  expect(await text(socket)).toBe('there and back');
});

test('a way that is cut keeps silent, on connections old and new, and delivers late once it is mended', async () => {
  const { relay, call } = await setup();
  const old = await call();
  old.write('before ');
  await once(old, 'readable');
  relay.cut();
  const young = await call();
  let heard = false;
  young.once('readable', () => {
    heard = true;
  });
  young.end('cut');
  old.end('after');
  // The one way that is open tells when the other's bytes would have been here.
  const other = await setup();
  const probe = await other.call();
  probe.end('probe');
  await text(probe);
  expect([heard, old.read()?.toString(), old.read()]).toEqual([false, 'before ', null]);
  relay.mend();
  expect(await Promise.all([text(old), text(young)])).toEqual(['after', 'cut']);
});

test('who gave up meanwhile is not in the way of others', async () => {
  const { relay, call } = await setup();
  relay.cut();
  const impatient = await call();
  impatient.resetAndDestroy();
  relay.mend();
  const socket = await call();
  socket.end('hello');
  expect(await text(socket)).toBe('hello');
});

test('only an endpoint on this machine can be stood in for', () => {
  expect(['https://localhost:4566', 'http://127.0.0.1:4566', 'https://sqs.example'].map(Relay.fits)).toEqual([true, true, false]);
});
