import { expect, test } from 'vitest';
import { z } from 'zod';
import { PoolError } from '../../lib/pool/errors.ts';
import type { StartRequest } from '../../lib/wire/index.ts';
import { NOW, setup } from '../support/client.ts';

const entries = (count: number) => Array.from({ length: count }, (_, index) => ({ key: `k${index}`, payload: `p${index}` }));

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test('an entry that is wrong stops no other, and each has a result of its own, in order', async () => {
  const { pool, reached, sent } = setup({ payload: z.object({ url: z.url() }) });
  const good = { url: 'https://feeds.example' };
  const given = [
    { key: 'a', payload: good, dispatchId: 'da' },
    { key: '', payload: good, dispatchId: 'empty' },
    { key: 'b', payload: { url: 'nowhere' } },
    null as unknown as { key: string; payload: { url: string } },
    'not an entry' as unknown as { key: string; payload: { url: string } },
    { key: 17 as unknown as string, payload: good },
    { key: 'c', payload: good },
  ];
  const results = await reached(collected(pool.startMany(given)));
  expect(results.map(({ sent, key }) => [sent, key])).toEqual([
    [true, 'a'],
    [false, ''],
    [false, 'b'],
    [false, ''],
    [false, ''],
    [false, '17'],
    [true, 'c'],
  ]);
  for (const result of results) if (!result.sent) expect(result.error).toMatchObject({ code: 'invalid-request' });
  expect(results[1]).toMatchObject({ dispatchId: 'empty' });
  expect(sent().map(({ key }) => key)).toEqual(['a', 'c']);
});

test('entries go in batches of ten, in the order of the source', async () => {
  const { pool, reached, callsOf, sent } = setup();
  const results = await reached(collected(pool.startMany(entries(25))));
  expect(callsOf('send').map(({ names }) => names.length)).toEqual([10, 10, 5]);
  expect(sent().map(({ key }) => key)).toEqual(entries(25).map(({ key }) => key));
  expect(results.every(({ sent }) => sent)).toBe(true);
});

test('a handle from a batch knows what it asked for (P3)', async () => {
  const { pool, reached, recordJob } = setup();
  const [sent] = await reached(collected(pool.startMany([{ key: 'k', payload: 'p', dispatchId: 'd1' }])));
  await recordJob({
    ...{ status: 'running', key: 'k', dispatchId: 'd1', fingerprint: 'another', fence: 1, attempt: 1 },
    ...{ admittedAt: NOW, assignedAt: NOW, startedAt: NOW, owner: { worker: 'w', session: 's' } },
  });
  if (!sent?.sent) throw new Error('not sent');
  expect(await reached(sent.dispatch.outcome())).toEqual({ outcome: 'refused', reason: 'fingerprint-mismatch' });
});

test('a slow source delays nothing that it already gave', async () => {
  const { pool, scheduler, sent } = setup();
  async function* slow() {
    yield* entries(3);
    await new Promise<void>((resolve) => scheduler.after(60_000, resolve));
    yield { key: 'late', payload: 'p' };
  }
  const all = collected(pool.startMany(slow()));
  await scheduler.advance(100);
  expect(sent()).toHaveLength(3);
  await scheduler.advance(61_000);
  expect(sent().map(({ key }) => key)).toEqual(['k0', 'k1', 'k2', 'late']);
  expect(await all).toHaveLength(4);
  expect(scheduler.nextAt).toBeUndefined();
});

test('a source is read no faster than the results are', async () => {
  const { pool, reached } = setup();
  let read = 0;
  function* endless() {
    for (;;) yield { key: `k${read++}`, payload: 'p' };
  }
  const results = pool.startMany(endless())[Symbol.asyncIterator]();
  for (let i = 0; i < 15; i++) await reached(results.next());
  expect(read).toBe(20);
  await results.return?.();
  expect(read).toBe(20);
});

test('whoever leaves early closes the source', async () => {
  const { pool, reached } = setup();
  let isClosed = false;
  function* source() {
    try {
      yield* entries(100);
    } finally {
      isClosed = true;
    }
  }
  await reached(
    (async () => {
      for await (const _ of pool.startMany(source())) break;
    })(),
  );
  expect(isClosed).toBe(true);
});

test('whoever leaves early does not wait for a source that is slow', async () => {
  const { pool, reached, scheduler } = setup();
  async function* stuck() {
    yield { key: 'k', payload: 'p' };
    await new Promise(() => {});
  }
  await reached(
    (async () => {
      for await (const _ of pool.startMany(stuck())) break;
    })(),
  );
  expect(scheduler.now()).toBeLessThan(NOW + 1_000);
});

test('an abort does not wait for a source that is slow', async () => {
  const { pool, scheduler } = setup();
  const abort = new AbortController();
  async function* stuck() {
    yield { key: 'k', payload: 'p' };
    await new Promise(() => {});
  }
  const all = collected(pool.startMany(stuck(), { signal: abort.signal }));
  await scheduler.advance(1_000);
  abort.abort(new Error('enough'));
  await expect(all).rejects.toThrow('enough');
});

test('what a source gave before it failed is sent, and then its error thrown', async () => {
  const { pool, reached, sent } = setup();
  function* broken() {
    yield* entries(13);
    throw new Error('line 14 is not JSON');
  }
  const seen: string[] = [];
  const run = (async () => {
    for await (const { key } of pool.startMany(broken())) seen.push(key);
  })();
  await expect(reached(run)).rejects.toThrow('line 14 is not JSON');
  expect(seen).toHaveLength(13);
  expect(sent()).toHaveLength(13);
});

test('entries that the queue did not take say why, beside those that it took', async () => {
  const { pool, reached, intercepts } = setup();
  const throttled = new PoolError('throttled', 'slow down', { retryable: true });
  const denied = new PoolError('not-permitted', 'AccessDenied', { retryable: false });
  intercepts.send = (starts: readonly StartRequest[]) =>
    Promise.resolve(starts.map(({ key }) => (key === 'k1' ? throttled : key === 'k2' ? denied : undefined)));
  const results = await reached(collected(pool.startMany(entries(4))));
  expect(results).toMatchObject([
    { sent: true, key: 'k0' },
    { sent: false, key: 'k1', dispatchId: expect.any(String), error: throttled },
    { sent: false, key: 'k2', error: { message: 'startMany() needs grantProduce; AccessDenied', cause: denied } },
    { sent: true, key: 'k3' },
  ]);
});

test('a batch that failed as a whole does not stop the next one', async () => {
  const { pool, reached, intercepts } = setup();
  intercepts.send = (starts: readonly StartRequest[]) =>
    starts[0]?.key === 'k0' ? Promise.reject(new PoolError('unavailable', 'no route', { retryable: true })) : undefined;
  const results = await reached(collected(pool.startMany(entries(12))));
  expect(results.map(({ sent }) => sent)).toEqual([...Array(10).fill(false), true, true]);
  expect(results[3]).toMatchObject({ dispatchId: expect.any(String), error: { code: 'unavailable', retryable: true } });
});

test('nothing is sent where nothing is given', async () => {
  const { pool, reached, calls } = setup();
  expect(await reached(collected(pool.startMany([])))).toEqual([]);
  expect(calls).toEqual([]);
});
