import { describe, expect, test } from 'vitest';
import { createPool } from '../../lib/client/pool.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Round } from '../../lib/resync/round.ts';
import { createTestPool, recordingHandler } from '../../lib/testing/index.ts';
import { NOW, setup } from '../support/client.ts';

const MINUTE = { timeoutMs: 60_000 };

/** A worker's row, and nobody behind it; what is started is noted. */
async function aWorker() {
  const world = setup();
  const { services } = world;
  const { workers } = services;
  const started: { readonly name: string; readonly worker: string; readonly session: string }[] = [];
  services.machine = { start: async (name, input) => void started.push({ name, ...input }), wake: async () => undefined };
  const pool = createPool(services.clientPorts({ clock: world.clock }));
  const register = (session: string) => workers.register({ workerId: 'w', session, leaseMs: 30_000, capacity: 10, registeredAt: NOW });
  await register('s1');
  const change = (set: Parameters<typeof workers.change>[2]) =>
    workers.change('w', { session: workers.peek('w')?.session ?? '', states: ['active', 'draining', 'revoked', 'lost', 'left'] }, set);
  return {
    ...{ world, services, started, register, change },
    pool,
    worker: pool.worker('w'),
    row: () => workers.peek('w'),
    beat: (running = 0) => {
      const { session = '', beat = 0 } = workers.peek('w') ?? {};
      return workers.heartbeat({ workerId: 'w', session, beat: beat + 1, running });
    },
    async asks(token: string, more: Partial<Round> = {}): Promise<void> {
      const session = workers.peek('w')?.session ?? '';
      const times = { openedAt: NOW, deadline: NOW + 30_000 };
      const nothing = { asked: 1, applied: new Set<number>(), skipped: 0, counts: {} };
      await services.rounds.open({ token, worker: 'w', session, state: 'armed', beat: 3, ...times, ...nothing, ...more });
      await change({ round: token });
    },
  };
}

describe('drain', () => {
  test('hands every job of the worker to another one and waits until it has left, and no handler lives twice', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    for (const key of ['a', 'b', 'c', 'd']) await (await pool.client.start(key, 'p')).outcome();
    const here = ['a', 'b', 'c', 'd'].filter((key) => pool.ownerOf(key)?.workerId === 'worker-1');
    expect(here.length).toBeGreaterThan(0);
    await pool.advance(pool.lease);
    const report = await pool.client.worker('worker-1').drain(MINUTE);
    expect(report).toEqual({ workerId: 'worker-1', session: expect.any(String), outcome: 'left', jobs: here.length });
    await pool.until(() => handler.starts.length === 4 + here.length, { withinMs: pool.lease });
    for (const key of here) expect(pool.ownerOf(key)?.workerId).toBe('worker-2');
  });

  test('that is no longer watched goes on', async () => {
    const { worker, row, world } = await aWorker();
    const giveUp = new AbortController();
    const drain = worker.drain({ ...MINUTE, signal: giveUp.signal });
    await world.scheduler.advance(1_000);
    giveUp.abort(new Error('Ctrl-C'));
    await expect(drain).rejects.toThrow('Ctrl-C');
    expect(row()?.state).toBe('draining');
    expect(world.scheduler.nextAt).toBeUndefined();
  });

  test('says at its deadline how many jobs are still up, and that it goes on', async () => {
    const { worker, world, beat } = await aWorker();
    await beat(3);
    const drain = world.reached(worker.drain({ timeoutMs: 5_000 }));
    await expect(drain).rejects.toMatchObject({ code: 'deadline-exceeded', retryable: true });
    await expect(drain).rejects.toThrow(
      'drain() of worker "w" is not over after 5000 ms: at its last heartbeat 3 jobs were still up; it goes on draining',
    );
  });

  test.each(['lost', 'left', 'revoked'] as const)('of a worker that is %s says so, and changes nothing', async (state) => {
    const { worker, change, row } = await aWorker();
    await change({ state });
    expect(await worker.drain(MINUTE)).toEqual({ workerId: 'w', session: 's1', outcome: state, jobs: 0 });
    expect(row()?.state).toBe(state);
  });

  test('ends where another process registers under the id, which is not drained', async () => {
    const { worker, world, register, row } = await aWorker();
    const drain = worker.drain(MINUTE);
    await world.scheduler.advance(1_000);
    await register('s2');
    expect(await world.reached(drain)).toMatchObject({ session: 's1', outcome: 'replaced' });
    expect(row()).toMatchObject({ session: 's2', state: 'active' });
  });
});

describe('evict', () => {
  test('takes the right to renew at once, and has somebody wait for the lease', async () => {
    const { worker, beat, row, started } = await aWorker();
    await worker.evict();
    expect(row()?.state).toBe('revoked');
    expect(await beat()).toMatchObject({ outcome: 'refused' });
    expect(started).toEqual([{ name: expect.stringMatching(/^s1-0-\d+-revoked$/), worker: 'w', session: 's1' }]);
  });

  test('once more sees that somebody waits', async () => {
    const { worker, started } = await aWorker();
    await worker.evict();
    await worker.evict();
    expect(started).toHaveLength(2);
  });

  test.each(['lost', 'left'] as const)('does nothing to a worker that is %s', async (state) => {
    const { worker, change, row, started } = await aWorker();
    await change({ state });
    await worker.evict();
    expect(row()?.state).toBe(state);
    expect(started).toEqual([]);
  });

  test('of a worker that hears of it has its jobs run again once it has stopped them', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    await pool.client.worker(pool.ownerOf('k')?.workerId ?? '').evict();
    await pool.until(() => handler.starts.length === 2, { withinMs: pool.lease });
    expect(handler.stops).toMatchObject([{ key: 'k' }]);
  });

  test('of a worker that hears nothing has its jobs run elsewhere after its lease, and not before', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    const owner = pool.ownerOf('k');
    owner?.disconnect();
    await pool.client.worker(owner?.workerId ?? '').evict();
    const evictedAt = pool.now;
    await pool.until(() => handler.starts.length === 2, { withinMs: 3 * pool.lease });
    expect(pool.now - evictedAt).toBeGreaterThanOrEqual(pool.lease);
    expect(pool.ownerOf('k')?.workerId).not.toBe(owner?.workerId);
  });
});

describe('resync', () => {
  test('asks a worker what it runs, and says how its answer fits the records', async () => {
    await using pool = await createTestPool();
    for (const key of ['a', 'b', 'c']) await (await pool.client.start(key, 'p')).outcome();
    const report = await pool.client.worker('worker-1').resync(MINUTE);
    expect(report).toEqual({ outcome: 'answered', complete: true, skipped: 0, counts: { 'entry agrees': 3 } });
  });

  test('asks anew each time, also where little has happened since', async () => {
    await using pool = await createTestPool();
    const worker = pool.client.worker('worker-1');
    expect(await worker.resync(MINUTE)).toMatchObject({ outcome: 'answered', counts: {} });
    await (await pool.client.start('k', 'p')).outcome();
    expect(await worker.resync(MINUTE)).toMatchObject({ outcome: 'answered', counts: { 'entry agrees': 1 } });
  });

  test('of a worker that falls silent ends once it is lost', async () => {
    await using pool = await createTestPool({ workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    const owner = pool.ownerOf('k');
    owner?.crash();
    expect(await pool.client.worker(owner?.workerId ?? '').resync({ timeoutMs: 4 * pool.lease })).toEqual({ outcome: 'lost' });
  });

  test('joins the asking that is under way, and has it asked again', async () => {
    const { worker, world, asks, services, started } = await aWorker();
    await asks('R1');
    const resync = worker.resync(MINUTE);
    await world.scheduler.advance(1_000);
    expect(started).toHaveLength(1);
    await services.rounds.apply('R1', { page: 1, pages: 1, skipped: 2, counts: { 'entry agrees': 7 } });
    await services.rounds.close('R1', 'resolved');
    expect(await world.reached(resync)).toEqual({ outcome: 'answered', complete: false, skipped: 2, counts: { 'entry agrees': 7 } });
    expect(started).toHaveLength(1);
  });

  test('takes no answer for its own that was there before it asked', async () => {
    const { worker, world, asks, services, beat, started } = await aWorker();
    await asks('R0', { state: 'resolved', counts: { 'entry agrees': 1 } });
    const resync = worker.resync(MINUTE);
    await world.scheduler.advance(1_000);
    await beat();
    await world.scheduler.advance(4_000);
    // What was started at the first beat had come to nothing, its name being taken.
    expect(started.map(({ name }) => name.slice(0, 5))).toEqual(['s1-0-', 's1-1-']);
    await asks('R1');
    await world.scheduler.advance(4_000);
    await services.rounds.close('R1', 'resolved');
    expect(await world.reached(resync)).toMatchObject({ outcome: 'answered', counts: {} });
    expect(started).toHaveLength(2);
  });

  test('follows to the next asking where the one that it waited for ran out of time', async () => {
    const { worker, world, asks, services } = await aWorker();
    await asks('R1');
    const resync = worker.resync(MINUTE);
    await world.scheduler.advance(1_000);
    await services.rounds.close('R1', 'closed');
    await world.scheduler.advance(3_000);
    await asks('R2', { counts: { 'entry started': 1 } });
    await services.rounds.close('R2', 'resolved');
    expect(await world.reached(resync)).toMatchObject({ outcome: 'answered', counts: { 'entry started': 1 } });
  });

  test.each(['lost', 'left', 'revoked'] as const)('of a worker that is %s says so, and asks nobody', async (state) => {
    const { worker, change, started } = await aWorker();
    await change({ state });
    expect(await worker.resync(MINUTE)).toEqual({ outcome: state });
    expect(started).toEqual([]);
  });

  test.each([
    ['it was not asked', undefined, 'it was not asked yet; its last heartbeat was number 1'],
    ['nothing was answered', {}, 'it was asked, at heartbeat 3, and nothing of its answer came; its last heartbeat was number 1'],
    ['some was', { pages: 3, applied: new Set([1, 3]) }, 'it was asked, at heartbeat 3, and 2 of 3 parts of its answer came'],
  ])('says at its deadline what is known: %s', async (_, round, known) => {
    const { worker, world, asks, beat } = await aWorker();
    await beat();
    if (round) await asks('R1', round);
    const resync = world.reached(worker.resync({ timeoutMs: 5_000 }));
    await expect(resync).rejects.toMatchObject({ code: 'deadline-exceeded' });
    await expect(resync).rejects.toThrow(`resync() of worker "w" is not over after 5000 ms: ${known}`);
  });
});

describe('whatever is done with a worker', () => {
  const deeds = ['drain', 'evict', 'resync'] as const;
  type Setup = Awaited<ReturnType<typeof aWorker>>;
  const does = (deed: (typeof deeds)[number], { pool }: Pick<Setup, 'pool'>, id = 'w') => pool.worker(id)[deed](MINUTE);

  test.each(deeds)('%s: an unknown worker is not-found', async (deed) => {
    const given = await aWorker();
    await expect(does(deed, given, 'x')).rejects.toMatchObject({ code: 'not-found', retryable: false });
    await expect(does(deed, given, 'x')).rejects.toThrow('there is no worker "x"');
  });

  test.each(deeds)('%s: names the grant that is missing', async (deed) => {
    const given = await aWorker();
    given.services.workers.get = async () => {
      throw new PoolError('not-permitted', 'AccessDeniedException', { retryable: false });
    };
    await expect(does(deed, given)).rejects.toThrow(`${deed}() needs grantOperate; AccessDeniedException`);
  });

  test.each(deeds)('%s: begins nothing under a signal that fired, nor after the pool was disposed of', async (deed) => {
    const given = await aWorker();
    const { worker, pool, row, started } = given;
    await expect(worker[deed]({ ...MINUTE, signal: AbortSignal.abort('no') })).rejects.toBe('no');
    pool[Symbol.dispose]();
    await expect(does(deed, given)).rejects.toThrow('the pool was disposed of');
    expect([row()?.state, started]).toEqual(['active', []]);
  });

  test.each(['drain', 'resync'] as const)('%s: goes on through looks that fail for a while, and not through others', async (deed) => {
    const { worker, world, services } = await aWorker();
    const { get } = services.workers;
    const fails = (code: 'throttled' | 'corrupt-record', retryable: boolean) => {
      services.workers.get = async () => {
        throw new PoolError(code, 'told', { retryable });
      };
    };
    fails('throttled', true);
    const slow = world.reached<unknown>(worker[deed]({ timeoutMs: 3_000 }));
    await expect(slow).rejects.toThrow(/is not over after 3000 ms: it was not reached yet; the last look failed: told/);
    fails('corrupt-record', false);
    await expect(worker[deed](MINUTE)).rejects.toMatchObject({ code: 'corrupt-record' });
    services.workers.get = get;
  });

  test.each(['drain', 'resync'] as const)('%s: ends when the pool is disposed of, and leaves no timer', async (deed) => {
    const { worker, world, pool } = await aWorker();
    const watching = worker[deed](MINUTE);
    await world.scheduler.advance(1_000);
    pool[Symbol.dispose]();
    await expect(watching).rejects.toThrow('the pool was disposed of');
    expect(world.scheduler.nextAt).toBeUndefined();
  });

  test('a worker id that cannot be one is refused before anything is asked', async () => {
    const { pool } = await aWorker();
    expect(() => pool.worker('')).toThrow('worker(): field "workerId" is empty');
  });
});
