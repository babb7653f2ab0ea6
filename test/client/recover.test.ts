import { describe, expect, test } from 'vitest';
import { createTestPool, recordingHandler, type TestPool } from '../../lib/testing/index.ts';
import { RetryableError } from '../../lib/worker/handler.ts';

const WAIT = { timeoutMs: 10 * 60_000 };

async function up(pool: TestPool, key: string, dispatchId: string, options: { readonly ifBusy?: 'replace' } = {}): Promise<void> {
  await (await pool.client.start(key, `payload of ${dispatchId}`, { dispatchId, ...options })).outcome();
  await pool.until(() => pool.ownerOf(key) !== undefined, { withinMs: pool.lease });
}

/** Where each key really runs, every handler of it. */
function running(pool: TestPool, workers: readonly { readonly workerId: string; readonly jobs: readonly string[] }[]) {
  const all = workers.flatMap(({ workerId, jobs }) => jobs.map((key) => ({ key, workerId })));
  const twice = all.filter(({ key }, index) => all.findIndex((other) => other.key === key) !== index);
  expect(twice).toEqual([]);
  for (const { key, workerId } of all) expect(pool.ownerOf(key)?.workerId).toBe(workerId);
  return new Set(all.map(({ key }) => key));
}

async function aPool(workers = 2) {
  const handler = recordingHandler();
  const pool = await createTestPool({ handler, workers: 0 });
  const all = [];
  for (let i = 0; i < workers; i++) all.push(await pool.addWorker());
  return { handler, pool, workers: all };
}

/** Starts a job at a key of that name which is then up there. */
async function upAt(pool: TestPool, workerId: string | undefined, name: string): Promise<string> {
  for (let i = 1; ; i++) {
    const key = `${name}-${i}`;
    await up(pool, key, `${key}-first`);
    if (workerId === undefined || pool.ownerOf(key)?.workerId === workerId) return key;
    await pool.client.stop(key);
    await pool.client.dispatch(`${key}-first`).ended(WAIT);
  }
}

describe('after the Jobs table was restored to an earlier moment', () => {
  test('what really runs has its records again, nothing is doubled or started, no fence is below one in use, and what is lost is named (G5)', async () => {
    const { handler, pool, workers } = await aPool();
    await using _ = pool;
    const [crashing, staying] = workers.map(({ workerId }) => workerId);
    const kept = await upAt(pool, staying, 'kept');
    const moved = await upAt(pool, crashing, 'moved');
    const gone = await upAt(pool, crashing, 'gone');
    const finished = await upAt(pool, staying, 'finished');
    const stopped = await upAt(pool, staying, 'stopped');
    const replaced = await upAt(pool, staying, 'replaced');
    const restore = pool.backup('jobs');

    workers[0]?.crash();
    const isElsewhere = (key: string) => pool.ownerOf(key)?.workerId === staying;
    await pool.until(() => isElsewhere(moved) && isElsewhere(gone), { withinMs: 4 * pool.lease });
    workers.push(await pool.addWorker());
    handler.finish(finished, 'well');
    handler.finish(gone, 'well');
    await pool.client.stop(stopped);
    const [endedAt] = await Promise.all([finished, gone, stopped].map((key) => pool.client.dispatch(`${key}-first`).ended(WAIT)));
    await up(pool, replaced, 'second', { ifBusy: 'replace' });
    const fresh = await upAt(pool, undefined, 'fresh');
    const live = [kept, moved, replaced, fresh];
    const before = await Promise.all(live.map((key) => pool.client.describe(key)));
    await pool.advance(1_000);
    const starts = handler.starts.length;
    restore();

    const report = await pool.client.recover(WAIT);
    const after = await Promise.all(live.map((key) => pool.client.describe(key)));
    for (const [index, job] of before.entries()) {
      if (job?.status !== 'running') throw new Error(`${JSON.stringify(job)} did not run`);
      const { dispatchId, fence, owner, startedAt } = job;
      expect(after[index]).toMatchObject({ status: 'running', dispatchId, fence, owner, startedAt });
    }
    expect(report).toMatchObject({ generation: 2, workers: 2, undecided: [] });
    expect(Object.fromEntries(report.restored.map(({ key, how }) => [key, how]))).toEqual({
      ...{ [fresh]: 'restored', [replaced]: 'replaced', [moved]: 'raised' },
    });
    expect(report.lost).toEqual([{ key: replaced, dispatchId: `${replaced}-first` }]);
    const { end } = await pool.client.dispatch(`${replaced}-first`).peek();
    expect(end).toMatchObject({ status: 'failed', error: { code: 'lost-in-restore' } });
    // A worker remembers for an hour what ended there; not that somebody had asked for it, and what ended elsewhere nobody asks it about.
    expect(await pool.client.dispatch(`${finished}-first`).ended(WAIT)).toEqual(endedAt);
    expect(report.again).toEqual([gone, stopped].map((key) => ({ key, dispatchId: `${key}-first` })));
    await pool.until(() => handler.live.has(gone) && handler.live.has(stopped), { withinMs: pool.lease });
    expect(handler.starts.slice(starts).map(({ key }) => key)).toHaveLength(2);
    expect(running(pool, workers)).toEqual(new Set([...live, gone, stopped]));
  });
});

describe('a table is put back in the course of the recovery', () => {
  test.for([1, 2, 3, 4])(
    'to a moment at which a start was out that has moved on since: nobody is sent it again (G2, seed %i)',
    async (seed) => {
      const recording = recordingHandler();
      let failing = Promise.withResolvers<void>();
      const pool = await createTestPool({ workers: 0, seed });
      await using _ = pool;
      const first = await pool.addWorker({
        handler: { ...recording, start: (...given) => failing.promise.then(() => recording.start(...given)) },
      });
      await pool.client.start('k', 'payload', { dispatchId: 'd' });
      await pool.until(() => pool.ownerOf('k') !== undefined, { withinMs: pool.lease });
      const restore = pool.backup('jobs');
      const second = await pool.addWorker({ handler: recording });
      failing.reject(new RetryableError('not now'));
      await pool.until(() => pool.ownerOf('k') === second && second.jobs.length > 0, { withinMs: pool.lease });
      // Nobody asks the first one about the key any more, and it forgets what became of it.
      failing = Promise.withResolvers<void>();
      failing.resolve();
      await pool.advance(4 * 3_600_000);
      expect(first.jobs).toEqual([]);
      const report = await pool.client.recover({ ...WAIT, putBack: async () => restore({ leavesPool: true }) });
      expect(report.restored).toMatchObject([{ key: 'k', how: 'raised', workerId: second.workerId }]);
      await pool.advance(10 * 60_000);
      expect(recording.starts).toHaveLength(1);
      expect(running(pool, [first, second])).toEqual(new Set(['k']));
    },
  );

  test('to a moment at which a start was out that is over since: it is named, and started again under a fence above all that came after (G1, G5)', async () => {
    const recording = recordingHandler();
    const first = Promise.withResolvers<void>();
    let starts = 0;
    const pool = await createTestPool({ workers: 0 });
    await using _ = pool;
    const worker = await pool.addWorker({
      handler: {
        ...recording,
        start: (...given) => (starts++ === 0 ? first.promise : Promise.resolve()).then(() => recording.start(...given)),
      },
    });
    await pool.client.start('k', 'payload', { dispatchId: 'first' });
    await pool.until(() => starts > 0, { withinMs: pool.lease });
    const restore = pool.backup('jobs');
    first.reject(new Error('not here'));
    expect(await pool.client.dispatch('first').outcome(WAIT)).toMatchObject({ outcome: 'start-failed' });
    await up(pool, 'k', 'second');
    recording.finish('k', 'well');
    await pool.client.dispatch('second').ended(WAIT);
    const fence = recording.starts.at(-1)?.fence ?? 0;
    // Nobody asks the worker about the key any more, and it forgets what became of both.
    await pool.advance(4 * 3_600_000);
    const report = await pool.client.recover({ ...WAIT, putBack: async () => restore({ leavesPool: true }) });
    expect(report).toMatchObject({ again: [], waiting: [{ key: 'k', dispatchId: 'first' }] });
    await pool.until(() => recording.live.has('k'), { withinMs: pool.lease });
    expect(recording.live.get('k')?.fence).toBeGreaterThan(fence);
    expect(running(pool, [worker])).toEqual(new Set(['k']));
  });

  test.for([
    ['that really runs', true],
    ['that nobody runs', false],
  ] as const)(
    'behind more requests than a function takes at once, of a key %s and that has no record: it waits for no more than their next try',
    async ([, runs]) => {
      const { handler, pool, workers } = await aPool();
      await using _ = pool;
      const restore = pool.backup('jobs');
      const key = runs ? await upAt(pool, undefined, 'runs') : 'nobody';
      // Each worker was asked once since it came, and is again in an hour.
      await pool.advance(5 * 60_000);
      const putBack = async () => {
        restore({ leavesPool: true });
        await pool.client.stop(key);
        for (let i = 0; i < 20; i++) await pool.client.notify(key, `notification ${i}`);
      };
      const from = pool.now;
      const report = await pool.client.recover({ ...WAIT, putBack });
      expect(pool.now - from).toBeLessThan(4 * 60_000);
      expect(report.restored.map((restored) => restored.key)).toEqual(runs ? [key] : []);
      await pool.advance(2 * 60_000);
      expect([handler.live.size, running(pool, workers).size]).toEqual([0, 0]);
    },
  );

  test('of workers: who has no row, or an older one, stops and comes back, and whoever is gone is found out; no job is doubled or lost (G1, G2, G6)', async () => {
    const { handler, pool, workers } = await aPool();
    await using _ = pool;
    const [leaving, staying] = workers;
    const handedOver = await upAt(pool, leaving?.workerId, 'handed-over');
    const kept = await upAt(pool, staying?.workerId, 'kept');
    const restore = pool.backup('workers');
    await leaving?.drain();
    const coming = await pool.addWorker();
    workers.push(coming);
    const fresh = await upAt(pool, coming.workerId, 'fresh');
    await pool.until(() => pool.ownerOf(handedOver) !== undefined && pool.ownerOf(handedOver) !== leaving, { withinMs: pool.lease });
    const before = new Map(handler.live);

    const report = await pool.client.recover({ ...WAIT, putBack: async () => restore() });
    expect(report).toMatchObject({ lost: [], undecided: [] });
    await pool.until(() => [handedOver, kept, fresh].every((key) => handler.live.has(key)), { withinMs: 2 * pool.lease });
    await pool.advance(2 * 60_000);
    expect(running(pool, workers)).toEqual(new Set([handedOver, kept, fresh]));
    // Its row only went back by some beats.
    expect(handler.live.get(kept)).toBe(before.get(kept));
    // That one had no row, so it stopped what it had, and it is started again under a higher fence.
    expect(report.again).toContainEqual({ key: fresh, dispatchId: `${fresh}-first` });
    expect(handler.live.get(fresh)?.fence).toBeGreaterThan(before.get(fresh)?.fence ?? 0);
  });
});
