import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createTestPool, recordingHandler, type TestPool } from '../../lib/testing/index.ts';
import { MemoryWorkers } from '../../lib/testing/memory-workers.ts';
import { defineHandler } from '../../lib/worker/handler.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('the examples of the manual', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('my follower stops when its lease is lost', async () => {
    const written: string[] = [];
    const follower = defineHandler({
      async run(job) {
        while (!job.signal.aborted) {
          written.push(`${job.key} ${job.fence}`);
          await new Promise((resolve) => setTimeout(resolve, 1_000));
        }
      },
    });
    await using pool = await createTestPool({ handler: follower, workers: 1, timers: vi });
    await (await pool.client.start('tenant:17', { url: 'https://feeds.example/17' })).outcome();
    const first = pool.ownerOf('tenant:17');
    first?.disconnect();
    await pool.advance(pool.lease);
    expect(first?.jobs).toEqual([]);
    const second = await pool.addWorker();
    await pool.until(() => pool.ownerOf('tenant:17') === second, { withinMs: 3 * pool.lease });
    // A line a second, from its own timers, until two thirds of the lease were over, and none after it.
    const lines = written.filter((line) => line === written[0]).length;
    expect(lines).toBeGreaterThan(18);
    expect(lines).toBeLessThan(22);
  });

  test("a crashed worker's job starts again under a higher fence", async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    pool.ownerOf('k')?.crash();
    await pool.until(() => handler.starts.length === 2, { withinMs: 3 * pool.lease });
    expect(handler.starts[1]?.fence).toBeGreaterThan(handler.starts[0]?.fence ?? Number.NaN);
  });

  test('a start delivered twice runs once', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    pool.deliver.twice({ op: 'start' });
    await pool.client.start('k', 'p', { dispatchId: 'd1' });
    await pool.settle();
    expect(handler.starts).toHaveLength(1);
  });
});

async function setup(options: { readonly workers?: number } = {}) {
  const handler = recordingHandler();
  const pool = await createTestPool({ handler, ...options });
  return { handler, pool };
}

async function running(pool: TestPool, key = 'k') {
  const dispatch = await pool.client.start(key, 'p');
  expect(await dispatch.outcome()).toMatchObject({ outcome: 'started' });
  return dispatch;
}

describe('time', () => {
  test('stands still while nobody waits for it', async () => {
    const { pool } = await setup();
    await using _ = pool;
    await running(pool);
    const before = pool.now;
    await pool.client.start('other', 'p');
    await pool.settle();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pool.now).toBe(before);
  });

  test('goes on where the lease divides into no whole milliseconds', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, leaseMs: 10_000, workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    pool.ownerOf('k')?.crash();
    await pool.until(() => handler.starts.length === 2, { withinMs: 5 * pool.lease });
  });

  test('goes on with a wait of the client until its answer, and not beyond its deadline', async () => {
    const { pool } = await setup();
    await using _ = pool;
    const dispatch = await running(pool);
    const before = pool.now;
    await expect(dispatch.ended({ timeoutMs: 7_000 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
    expect(pool.now).toBe(before + 7_000);
  });

  test('of several waits stops at each, so that whoever is told can act before anything else happens', async () => {
    const { pool, handler } = await setup();
    await using _ = pool;
    const dispatch = await running(pool);
    const before = pool.now;
    const end = dispatch.ended({ timeoutMs: 3_600_000 });
    await pool.advance(5_000);
    expect(pool.now).toBe(before + 5_000);
    handler.finish('k', { lines: 3 });
    expect(await end).toMatchObject({ status: 'succeeded', finishedAt: before + 5_000, result: { lines: 3 } });
  });

  test('comes to an end with a condition that does not come true, and the error tells what happened', async () => {
    const { pool } = await setup();
    await using _ = pool;
    await running(pool);
    await expect(pool.until(() => false, { withinMs: 1_000 })).rejects.toThrow(/not so within 1000 ms; seed 1.*job-started/s);
  });
});

describe('what can be done to a worker', () => {
  test('a frozen one keeps its job in its own eyes, loses it in truth, and lets go once it goes on', async () => {
    const { pool, handler } = await setup({ workers: 2 });
    await using _ = pool;
    await running(pool);
    const frozen = pool.ownerOf('k');
    frozen?.freeze();
    await pool.until(() => handler.starts.length === 2, { withinMs: 3 * pool.lease });
    expect(frozen?.jobs).toEqual(['k']);
    frozen?.resume();
    await pool.settle();
    expect(frozen?.jobs).toEqual([]);
    expect(pool.ownerOf('k')).not.toBe(frozen);
  });

  test('one that drains hands its jobs over before its lease is over', async () => {
    const { pool, handler } = await setup({ workers: 2 });
    await using _ = pool;
    await running(pool);
    const first = pool.ownerOf('k');
    await first?.drain();
    await pool.until(() => handler.starts.length === 2, { withinMs: 1_000 });
    expect(handler.stops).toEqual([{ key: 'k', reason: 'worker-draining' }]);
    expect(pool.ownerOf('k')).not.toBe(first);
  });

  test('one that is cut off for less than its lease keeps its job', async () => {
    const { pool, handler } = await setup({ workers: 2 });
    await using _ = pool;
    await running(pool);
    const owner = pool.ownerOf('k');
    owner?.disconnect();
    await pool.advance(pool.lease / 3);
    owner?.reconnect();
    await pool.advance(3 * pool.lease);
    expect(pool.ownerOf('k')).toBe(owner);
    expect(handler.starts).toHaveLength(1);
  });
});

describe('what can be done to messages', () => {
  test('a report whose answer is lost is sent again, and a job ends once', async () => {
    const { pool, handler } = await setup();
    await using _ = pool;
    const dispatch = await running(pool);
    pool.lose.responses({ type: 'finished' }, 2);
    handler.finish('k');
    expect(await dispatch.ended({ timeoutMs: 60_000 })).toMatchObject({ status: 'succeeded' });
  });

  test('a client whose send was answered by nothing is told so, and its dispatch id makes trying again safe', async () => {
    const { pool, handler } = await setup();
    await using _ = pool;
    pool.lose.responses({ op: 'start', dispatchId: 'd1' });
    await expect(pool.client.start('k', 'p', { dispatchId: 'd1' })).rejects.toMatchObject({ code: 'unavailable', retryable: true });
    const dispatch = await pool.client.start('k', 'p', { dispatchId: 'd1' });
    expect(await dispatch.outcome()).toMatchObject({ outcome: 'started' });
    expect(handler.starts).toHaveLength(1);
  });

  test('a late one arrives late', async () => {
    const { pool, handler } = await setup();
    await using _ = pool;
    pool.deliver.late({ op: 'start', key: 'k' }, 4_000);
    const before = pool.now;
    await running(pool);
    // The request is late, and so is the command that follows from it.
    expect(handler.starts).toHaveLength(1);
    expect(pool.now).toBeGreaterThanOrEqual(before + 8_000);
  });

  test('notifications reach the handler in order', async () => {
    const { pool, handler } = await setup();
    await using _ = pool;
    await running(pool);
    await pool.client.notify('k', 'first', { id: 'n1' });
    await pool.client.notify('k', 'second', { id: 'n2' });
    await pool.settle();
    expect(handler.notifications).toEqual([
      { key: 'k', id: 'n1', text: 'first' },
      { key: 'k', id: 'n2', text: 'second' },
    ]);
  });
});

test.each([
  ['by its dispatch id', 'stop-requested', (pool: TestPool) => pool.client.stop('k', { dispatchId: 'd1' })],
  ['by its key', 'stop-requested', (pool: TestPool) => pool.client.stop('k')],
  ['by a start that replaces it', 'replaced', (pool: TestPool) => pool.client.start('k', 'q', { ifBusy: 'replace' })],
] as const)('a job that its client stops %s is stopped, and that is no breach', async (_, reason, stop) => {
  const handler = recordingHandler();
  await using pool = await createTestPool({ handler });
  const dispatch = await pool.client.start('k', 'p', { dispatchId: 'd1' });
  await dispatch.outcome();
  await stop(pool);
  expect(await dispatch.ended({ timeoutMs: 10_000 })).toMatchObject({ status: 'stopped', reason });
  expect(handler.stops).toEqual([{ key: 'k', reason }]);
});

test('the client streams as it does elsewhere', async () => {
  const { pool } = await setup();
  await using _ = pool;
  const entries = ['a', 'b', 'c'].map((key) => ({ key, payload: 'p' }));
  const sent: string[] = [];
  for await (const each of pool.client.startMany(entries)) if (each.sent) sent.push(each.key);
  await pool.settle();
  const listed: string[] = [];
  for await (const { key, status } of pool.client.list()) listed.push(`${key} ${status}`);
  expect(sent).toEqual(['a', 'b', 'c']);
  expect(listed.sort()).toEqual(['a running', 'b running', 'c running']);
});

test('a breach of a guarantee fails what is being waited for, with the story and the seed', async () => {
  await using pool = await createTestPool({ workers: 0, seed: 7 });
  await pool.addWorker({ capacity: 1 });
  await running(pool);
  await pool.addWorker({ capacity: 1 });
  await pool.advance(pool.lease / 2);
  // The function believes for once that the owner's row is gone, and gives its job to the other worker.
  vi.spyOn(MemoryWorkers.prototype, 'get').mockResolvedValueOnce(undefined);
  await pool.client.notify('k', 'n');
  await expect(pool.advance(1_000)).rejects.toThrow(/^G2 one live handler was broken: .*seed 7, and what happened:/s);
});

test('a job whose record was deleted may run twice, as the limits say, but only under a higher fence', async () => {
  const handler = recordingHandler();
  await using pool = await createTestPool({ handler, workers: 0 });
  const first = await pool.addWorker({ capacity: 1 });
  await running(pool);
  await pool.advance(pool.lease / 2);
  const second = await pool.addWorker({ capacity: 1 });
  pool.deleteRecord('k');
  await running(pool);
  expect([first.jobs, second.jobs]).toEqual([['k'], ['k']]);
  expect(handler.starts[1]?.fence).toBeGreaterThan(handler.starts[0]?.fence ?? Number.NaN);
});

test('disposal ends the handlers that are still up', async () => {
  const stops: string[] = [];
  const handler = defineHandler({
    start: ({ key }) => ({
      stop() {
        stops.push(key);
      },
    }),
  });
  {
    await using pool = await createTestPool({ handler });
    await running(pool, 'a');
    await running(pool, 'b');
  }
  expect(stops.sort()).toEqual(['a', 'b']);
});
