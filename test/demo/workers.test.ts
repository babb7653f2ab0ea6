import { EventEmitter } from 'node:events';
import type { WorkerEvent } from 'holdfast/worker';
import { expect, test, vi } from 'vitest';
import { type WorkerProcess, Workers } from '../../demo/workers.ts';

async function setup(count: number) {
  const made: WorkerProcess[] = [];
  const endings: PromiseWithResolvers<number>[] = [];
  const overran = vi.fn();
  const workers = new Workers(async (name) => {
    const ending = Promise.withResolvers<number>();
    const worker = { name, workerId: name, process: new EventEmitter(), ended: ending.promise, mayEnd: false } as unknown as WorkerProcess;
    made.push(worker);
    endings.push(ending);
    return worker;
  }, overran);
  for (let i = 0; i < count; i += 1) await workers.add();
  /** A worker says something, of a job by its key alone. */
  function say({ workerId, process }: WorkerProcess | undefined = made[0] as WorkerProcess, event: Partial<WorkerEvent>): void {
    const key = 'key' in event ? { dispatchId: `first ${event.key}`, fence: 1 } : {};
    process.emit('message', { workerId, ...key, ...event } as never);
  }
  return { workers, made, endings, overran, say };
}

test('a lost job that another worker starts was taken over, once, and how long that took is counted in leases', async () => {
  vi.useFakeTimers();
  const { workers, made, say } = await setup(2);
  const [victim, other] = made;
  for (const key of ['a', 'b']) say(victim, { type: 'job-started', key });
  say(other, { type: 'job-started', key: 'c' });
  expect(workers.busiest).toBe(victim);
  expect(workers.lose(victim as WorkerProcess, 'killed')).toBe(2);
  expect([...workers.running]).toEqual(['c']);
  vi.advanceTimersByTime(6_000);
  say(other, { type: 'job-started', key: 'a' });
  expect(workers.hasRecoveredFrom('killed')).toBe(false);
  vi.advanceTimersByTime(3_000);
  say(other, { type: 'job-started', key: 'b' });
  say(other, { type: 'job-started', key: 'd' });
  expect(workers.hasRecoveredFrom('killed')).toBe(true);
  expect(workers.reowned).toBe(2);
  expect(workers.recovery(6_000)).toEqual({ killed: { min: 1, median: 1, max: 1.5 } });
  vi.useRealTimers();
});

test('what a worker lost with its lease is not handed back, and counts as taken over although nothing was done to it', async () => {
  const { workers, made, say } = await setup(2);
  const [loser, other] = made;
  say(loser, { type: 'job-started', key: 'a' });
  say(loser, { type: 'lease-lost', session: 's', reason: 'expired', jobs: 1 });
  say(loser, { type: 'job-released', key: 'a', reason: 'lease-lost' });
  say(other, { type: 'job-started', key: 'a' });
  expect([workers.handedBack, workers.reowned, workers.recovery(1)]).toEqual([[], 1, {}]);
});

test('neither a job that was handed back nor another dispatch at the key of a lost one was taken over', async () => {
  const { workers, made, say } = await setup(2);
  const [leaver, other] = made;
  for (const key of ['a', 'b']) say(leaver, { type: 'job-started', key });
  say(leaver, { type: 'job-released', key: 'a', reason: 'worker-draining' });
  workers.lose(leaver as WorkerProcess, 'killed');
  say(other, { type: 'job-started', key: 'a' });
  say(other, { type: 'job-started', key: 'b', dispatchId: 'next' });
  expect([workers.handedBack, workers.reowned]).toEqual([['a'], 0]);
});

test('a worker that ends itself because its jobs outlived its lease is told of, and what it ran is taken over', async () => {
  const { workers, made, endings, overran, say } = await setup(2);
  const [starved, other] = made;
  say(starved, { type: 'job-started', key: 'a' });
  endings[0]?.resolve(70);
  await vi.waitFor(() => expect(overran).toHaveBeenCalledExactlyOnceWith(starved));
  expect(workers.processes).toEqual([other]);
  say(other, { type: 'job-started', key: 'a' });
  expect([workers.reowned, workers.recovery(1)]).toEqual([1, {}]);
});

test('a process that is started in the place of another has to register itself', async () => {
  const { workers, made, say } = await setup(1);
  say(made[0], { type: 'registered', session: 's', leaseMs: 1 });
  expect(workers.areAmong(['worker-1'])).toBe(true);
  workers.bury(made[0] as WorkerProcess);
  await workers.restart(made[0] as WorkerProcess);
  expect(workers.areAmong(['worker-1'])).toBe(false);
  say(made[1], { type: 'registered', session: 't', leaseMs: 1 });
  expect(workers.areAmong(['worker-1'])).toBe(true);
});
