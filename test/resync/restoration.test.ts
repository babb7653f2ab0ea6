import { describe, expect, onTestFinished, test } from 'vitest';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import { executionName } from '../../lib/resync/run-round.ts';
import type { Call, CallFault } from '../../lib/testing/calls.ts';
import { MemoryPool } from '../../lib/testing/memory-pool.ts';
import { recordingHandler } from '../../lib/testing/recording-handler.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { encodeRequest } from '../../lib/wire/index.ts';
import type { Handler } from '../../lib/worker/handler.ts';

// The real worker, client and functions, and the records under them deleted. Nobody tells the pool: what a worker really runs is found
// out by asking it.

interface Stage {
  /** What becomes of a call of a function. */
  readonly fate?: (call: Call) => CallFault | undefined;
  /** Around the one that records. */
  readonly handler?: (recording: Handler) => Handler;
}

/** A job at key `k`, of dispatch `d1` with payload `one`, that is up at `w1`. */
async function running({ fate, handler = (recording) => recording }: Stage = {}) {
  const scheduler = new Scheduler();
  const recording = recordingHandler();
  const pool = new MemoryPool({ scheduler, leaseMs: 30_000, network: { fate: (call) => ({ delayMs: 1, fault: fate?.(call) }) } });
  const worker = pool.startWorker({ workerId: 'w1', handler: handler(recording), capacity: 10 });
  const { pool: client } = pool.connect('client');
  onTestFinished(() => {
    pool.end();
    worker.process.kill();
  });
  const { jobs, dispatches, workers, machine, requests } = pool.services;
  const start = async (dispatchId: string, payload: string) => {
    await Promise.all([client.start('k', payload, { dispatchId }), scheduler.advance(5_000)]);
  };
  await Promise.all([worker.runtime.start(), scheduler.advance(1_000)]);
  await start('d1', 'one');
  const before = jobs.peek('k');
  expect(before).toMatchObject({ status: 'running', dispatchId: 'd1' });
  return {
    ...{ scheduler, jobs, dispatches, workers, worker, recording, start, before },
    startedOf: (dispatchId: string): Dispatch | undefined => dispatches.peek(dispatchId),
    /** As an operator does, and an audit every hour. */
    ask: async () => {
      const row = workers.peek('w1');
      if (!row) throw new Error('w1 has no row');
      await machine.start(executionName(row, scheduler.now()), { worker: 'w1', session: row.session });
      await scheduler.advance(10_000);
    },
    move: () =>
      requests.send({ body: encodeRequest({ op: 'move', key: 'k', fence: before?.fence ?? 0 }), group: 'k', deduplicationId: 'move' }),
    stop: async () => {
      await Promise.all([client.stop('k'), scheduler.advance(10_000)]);
    },
  };
}

describe('the record of a running job is deleted', () => {
  test('alone: it is restored as it was, and the handler notices nothing of it (G5, P6)', async () => {
    const { jobs, recording, before, ask } = await running();
    jobs.delete('k');
    await ask();
    const { assignedAt: _, ...restored } = { assignedAt: 0, ...jobs.peek('k') };
    expect(before).toMatchObject({ ...restored, admittedAt: expect.any(Number) });
    expect(recording.starts).toHaveLength(1);
    expect(recording.stops).toEqual([]);
  });

  test('with its dispatch and payload: all three are restored (G5, P6)', async () => {
    const { jobs, dispatches, startedOf, before, recording, ask } = await running();
    const started = startedOf('d1');
    jobs.delete('k');
    dispatches.delete('d1');
    await ask();
    expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', fence: before?.fence, startedAt: before?.startedAt });
    expect(startedOf('d1')).toMatchObject({ status: 'started', fingerprint: started?.fingerprint, outcome: { at: before?.startedAt } });
    expect(await dispatches.payload('d1')).toEqual(new TextEncoder().encode('one'));
    expect(recording.starts).toHaveLength(1);
    expect(recording.stops).toEqual([]);
  });

  test('and it goes on as if nothing had been: a stop reaches it, and its end is recorded', async () => {
    const { jobs, startedOf, recording, ask, stop } = await running();
    jobs.delete('k');
    await ask();
    await stop();
    expect(recording.stops).toEqual([{ key: 'k', reason: 'stop-requested' }]);
    expect(jobs.peek('k')).toMatchObject({ status: 'ended', settled: { end: { status: 'stopped' } } });
    expect(startedOf('d1')).toMatchObject({ status: 'ended', end: { status: 'stopped' } });
  });

  test('and the key is wanted by another dispatch at once: what runs there comes back, and the other one is refused (P8)', async () => {
    const { jobs, startedOf, recording, before, start } = await running();
    jobs.delete('k');
    await start('d2', 'two');
    expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', fence: before?.fence });
    expect(startedOf('d2')).toMatchObject({ outcome: { outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd1' } } });
    expect(recording.starts).toHaveLength(1);
    expect(recording.stops).toEqual([]);
  });

  test('and the same dispatch is sent again: it keeps its handler, and nobody is started (P1, P6)', async () => {
    const { jobs, recording, before, start, ask } = await running();
    jobs.delete('k');
    await start('d1', 'one');
    await ask();
    expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', fence: before?.fence });
    expect(recording.starts).toHaveLength(1);
  });

  test('and it ends before anybody asks: its dispatch is settled with that end', async () => {
    const { jobs, startedOf, recording, scheduler } = await running();
    jobs.delete('k');
    recording.finish('k', { rows: 7 });
    await scheduler.advance(5_000);
    expect(startedOf('d1')).toMatchObject({ status: 'ended', end: { status: 'succeeded', result: { rows: 7 } } });
    expect(jobs.peek('k')).toBeUndefined();
  });
});

describe('the repair fails (P9)', () => {
  test.for<CallFault>(['failed', 'throttled', 'answer-lost', 'conflict', 'died-before', 'died-after'])(
    'again and again, %s: the handler and what its worker knows stay as they are, and the report comes again until it is through',
    async (fault) => {
      let left = 0;
      const seen: unknown[] = [];
      const given = await running({
        fate: ({ method }) => {
          if (method !== 'restore' || left === 0) return undefined;
          left -= 1;
          seen.push(given.worker.runtime.lives.map(({ key, fence }) => ({ key, fence })));
          return fault;
        },
      });
      const { jobs, recording, before, ask, scheduler } = given;
      // One whose answer alone was lost is through.
      const tries = fault === 'answer-lost' || fault === 'died-after' ? 1 : 3;
      left = tries;
      jobs.delete('k');
      await ask();
      await scheduler.advance(10 * 60_000);
      expect(left).toBe(0);
      expect(seen).toEqual(Array(tries).fill([{ key: 'k', fence: before?.fence }]));
      expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', fence: before?.fence });
      expect(recording.starts).toHaveLength(1);
      expect(recording.stops).toEqual([]);
    },
  );
});

describe('a move fails, and the record is lost with it (P12)', () => {
  test('the handler does not let go: its job is restored where it runs', async () => {
    const { jobs, recording, before, move, scheduler } = await running({
      handler: (recording) => ({
        ...recording,
        start: async (...given) => ({ ...(await recording.start(...given)), stop: () => Promise.reject(new Error('not now')) }),
      }),
    });
    move();
    await scheduler.advance(2);
    jobs.delete('k');
    await scheduler.advance(10_000);
    expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', fence: before?.fence, owner: { worker: 'w1' } });
    expect(recording.starts).toHaveLength(1);
  });

  test('the release cannot be sent: its job is restored where it runs, and moves once it can', async () => {
    let isOut = false;
    const given = await running({
      fate: ({ service, args }) => {
        const [command] = args as readonly { readonly op?: string }[];
        return isOut && service === 'commands' && command?.op === 'release' ? 'failed' : undefined;
      },
    });
    const { jobs, recording, before, move, ask, scheduler } = given;
    isOut = true;
    move();
    await scheduler.advance(5_000);
    expect(jobs.peek('k')?.status).toBe('releasing');
    jobs.delete('k');
    await ask();
    // The move comes again and again, and finds the record as it is now.
    expect(jobs.peek('k')).toMatchObject({ dispatchId: 'd1', fence: before?.fence, owner: { worker: 'w1' } });
    expect(recording.stops).toEqual([]);
    isOut = false;
    await scheduler.advance(2 * 60_000);
    // Nobody else is there, so it comes back under a higher fence.
    expect(jobs.peek('k')).toMatchObject({ status: 'running', dispatchId: 'd1', owner: { worker: 'w1' } });
    expect(jobs.peek('k')?.fence).toBeGreaterThan(before?.fence ?? 0);
    expect(recording.stops).toEqual([{ key: 'k', reason: 'moved' }]);
    expect(recording.starts).toHaveLength(2);
  });
});
