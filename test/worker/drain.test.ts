import { expect, test } from 'vitest';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { LEASE_MS, type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const payload = new TextEncoder().encode('{}');

function start(key: string, fence = 5): SentCommand {
  return { op: 'start', key, dispatchId: `d-${key}`, fingerprint: fingerprintOf(key, payload), payload, fence, attempt: 1 };
}

async function withJobs(...keys: string[]): Promise<WorkerStage> {
  const stage = await WorkerStage.registered();
  await stage.send(...keys.map((key) => start(key)));
  return stage;
}

function rowOf(stage: WorkerStage) {
  return stage.services.workers.peek('w1')?.state;
}

test('`left` is never written while a handler lives, also not at the deadline; what would not stop is told by `lost` and counted', async () => {
  const stage = await withJobs('stuck', 'other');
  stage.handler.way.stop = 'hangs';
  const drained = stage.worker.drain({ deadlineMs: 10_000 });
  await stage.advance(1_000);
  stage.handler.settle('stop', undefined, 'other');
  await stage.advance(8_900);
  expect(rowOf(stage)).toBe('draining');
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(false);
  await stage.advance(200);
  expect(await drained).toEqual({ released: 1, abandoned: 1 });
  expect(stage.handler.jobs.map(({ key, lost }) => [key, lost.aborted])).toEqual([
    ['stuck', true],
    ['other', false],
  ]);
  expect(rowOf(stage)).toBe('draining');
  expect(stage.of('left')).toEqual([]);
  expect(stage.worker.state).toBe('left');
});

test('what a guest abandons and still lives when its lease ends is an overrun', async () => {
  const stage = await withJobs('stuck');
  stage.handler.way.stop = 'hangs';
  void stage.worker.drain({ deadlineMs: 5_000 });
  await stage.advance(6_000);
  expect(stage.worker.health.live).toBe(true);
  await stage.advance(LEASE_MS);
  expect(stage.eventsOf('overrun')).toMatchObject([{ keys: ['stuck'] }]);
  expect(stage.worker.health.live).toBe(false);
});

test('the row is draining before the first handler is stopped', async () => {
  const stage = await withJobs('a');
  stage.fate = ({ method }) => (method === 'drain' ? { delayMs: 700 } : undefined);
  void stage.worker.drain();
  await stage.advance(699);
  expect(stage.handler.stoppings).toEqual([]);
  expect(rowOf(stage)).toBe('active');
  await stage.advance(1);
  expect(rowOf(stage)).toBe('draining');
  expect(stage.handler.stoppings).toMatchObject([{ reason: 'worker-draining', mayWrite: true }]);
});

test('a row that cannot be written does not take the time of the stops; `left` is written once it can be', async () => {
  const stage = await withJobs('a');
  stage.cutOff = new Set(['registry']);
  const drained = stage.worker.drain();
  await stage.advance(3_000);
  expect(stage.of('released')).toMatchObject([{ key: 'a' }]);
  stage.cutOff = new Set();
  await stage.advance(10_000);
  expect(await drained).toEqual({ released: 1, abandoned: 0 });
  expect(rowOf(stage)).toBe('left');
});

test('jobs are stopped side by side', async () => {
  const stage = await withJobs('a', 'b', 'c');
  stage.handler.way.stop = 'hangs';
  void stage.worker.drain();
  await stage.settle();
  expect(stage.handler.stoppings).toHaveLength(3);
});

test('heartbeats go on to the end, and no longer', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  void stage.worker.drain({ deadlineMs: 120_000 });
  await stage.advance(100_000);
  expect(stage.worker.health).toMatchObject({ live: true, ready: false, jobs: 1 });
  expect(stage.eventsOf('lease-lost')).toEqual([]);
  stage.handler.settle('stop');
  await stage.advance(2_000);
  expect(rowOf(stage)).toBe('left');
  const beats = () => stage.calls.filter(({ method }) => method === 'heartbeat').length;
  const before = beats();
  await stage.advance(10 * LEASE_MS);
  expect(beats()).toBe(before);
});

test('a start that was on its way is refused as draining, and said so before the worker leaves', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  const drained = stage.worker.drain();
  await stage.advance(1_000);
  await stage.send(start('late', 9));
  expect(stage.of('refused')).toMatchObject([{ key: 'late', fence: 9, reason: 'draining' }]);
  stage.handler.settle('stop');
  await stage.advance(2_000);
  expect(await drained).toEqual({ released: 1, abandoned: 0 });
  const order = stage.reports.map(({ type }) => type);
  expect(order.indexOf('refused')).toBeLessThan(order.indexOf('left'));
  expect(stage.handler.jobs).toHaveLength(1);
});

test('what is still in the inbox when the last handler has stopped is answered before the worker leaves', async () => {
  const stage = await withJobs('a');
  stage.fate = ({ service, method }) => (service === 'inbox' && method === 'receive' ? { delayMs: 900 } : undefined);
  await stage.advance(6_000);
  const drained = stage.worker.drain();
  void stage.services.inboxes.send({ session: stage.session, ...start('late', 9) } as never);
  await stage.advance(8_000);
  await drained;
  expect(stage.of('refused')).toMatchObject([{ key: 'late', reason: 'draining' }]);
  expect(rowOf(stage)).toBe('left');
});

test('an idle worker leaves in about a second', async () => {
  const stage = await WorkerStage.registered();
  const drained = stage.worker.drain();
  await stage.advance(1_100);
  expect(await drained).toEqual({ released: 0, abandoned: 0 });
  expect(rowOf(stage)).toBe('left');
  expect(stage.of('left')).toMatchObject([{ worker: 'w1', session: stage.session }]);
});

test('the inbox is polled for five seconds at a time, for one while draining', async () => {
  const stage = await withJobs('slow');
  const waits = () => stage.calls.filter(({ method }) => method === 'receive').map(({ args }) => args[1]);
  await stage.advance(20_000);
  expect(new Set(waits())).toEqual(new Set([5_000]));
  stage.handler.way.stop = 'hangs';
  void stage.worker.drain();
  await stage.advance(6_000);
  expect(waits().at(-1)).toBe(1_000);
});

test("an operator's drain, seen in the heartbeat, is a drain without a deadline; a signal later brings one", async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  await stage.services.workers.drain('w1', stage.session);
  await stage.advance(LEASE_MS / 3);
  expect(stage.eventsOf('draining')).toMatchObject([{ by: 'operator' }]);
  expect(stage.worker.state).toBe('draining');
  await stage.advance(10 * 60_000);
  expect(stage.worker.state).toBe('draining');
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(false);
  const drained = stage.worker.drain({ deadlineMs: 5_000 });
  await stage.advance(6_000);
  expect(await drained).toEqual({ released: 0, abandoned: 1 });
  expect(stage.eventsOf('draining')).toHaveLength(1);
});

test('a second drain joins the first, and the earlier deadline counts', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  const first = stage.worker.drain({ deadlineMs: 60_000 });
  const second = stage.worker.drain({ deadlineMs: 4_000 });
  await stage.advance(5_000);
  expect(await first).toEqual({ released: 0, abandoned: 1 });
  expect(await second).toEqual(await first);
});

test('a stop of a job is not given longer than the drain has', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  await stage.send({
    op: 'stop',
    key: 'slow',
    dispatchId: 'd-slow',
    fingerprint: fingerprintOf('slow', payload),
    fence: 5,
    reason: 'stop-requested',
  });
  void stage.worker.drain({ deadlineMs: 3_000 });
  await stage.advance(3_000);
  expect(stage.handler.stoppings[0]?.deadline.aborted).toBe(true);
});

test('a stop of a job is not given longer than the lease has', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  stage.cutOff = new Set(['registry']);
  await stage.advance((2 / 3) * LEASE_MS);
  expect(stage.handler.stoppings).toMatchObject([{ reason: 'lease-lost' }]);
  expect(stage.handler.stoppings[0]?.deadline.aborted).toBe(false);
  await stage.advance(LEASE_MS / 3);
  expect(stage.handler.stoppings[0]?.deadline.aborted).toBe(true);
});

test('evicted while draining: all is stopped, nothing is registered anew, `left` is not written', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  const { session } = stage;
  const drained = stage.worker.drain({ deadlineMs: 60_000 });
  await stage.advance(1_000);
  stage.end('revoked');
  await stage.advance(LEASE_MS / 3);
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(true);
  stage.handler.settle('stop');
  await stage.advance(5_000);
  expect(await drained).toMatchObject({ abandoned: 0 });
  expect(stage.services.workers.all()).toMatchObject([{ session, state: 'draining' }]);
});

test('drained while it registers: it registers no more, or leaves again', async () => {
  const stage = new WorkerStage({ fate: () => ({ delayMs: 3_000 }) });
  const started = stage.worker.start();
  await stage.advance(1_000);
  const drained = stage.worker.drain();
  await stage.advance(24_000);
  await started;
  expect(await drained).toEqual({ released: 0, abandoned: 0 });
  expect(rowOf(stage)).toBe('left');

  const unreachable = new WorkerStage({ fate: () => ({ delayMs: 0, fault: 'failed' }) });
  void unreachable.worker.start();
  await unreachable.advance(10_000);
  const gone = unreachable.worker.drain();
  await unreachable.advance(25_000);
  expect(await gone).toEqual({ released: 0, abandoned: 0 });
  expect(unreachable.services.workers.all()).toEqual([]);
});

test('a registration that succeeds after the worker was given up begins nothing', async () => {
  const stage = new WorkerStage({ fate: ({ method }) => (method === 'register' ? { delayMs: 60_000 } : undefined) });
  void stage.worker.start();
  await stage.advance(1_000);
  const drained = stage.worker.drain({ deadlineMs: 5_000 });
  await stage.advance(10_000);
  expect(await drained).toEqual({ released: 0, abandoned: 0 });
  await stage.advance(10 * LEASE_MS);
  expect(stage.eventsOf('registered')).toEqual([]);
  expect(stage.calls.filter(({ method }) => method === 'heartbeat' || method === 'receive')).toEqual([]);
});

test('a heartbeat that its own leaving overtook is no lost lease', async () => {
  const stage = await withJobs('slow');
  stage.handler.way.stop = 'hangs';
  let hasLeft = 0;
  stage.fate = ({ method }) => {
    if (method === 'heartbeat') return { delayMs: 100 };
    return method === 'leave' && hasLeft++ === 0 ? { delayMs: 0, fault: 'answer-lost' } : undefined;
  };
  const drained = stage.worker.drain();
  await stage.advance(8_950);
  stage.handler.settle('stop');
  await stage.advance(5_000);
  expect(await drained).toEqual({ released: 1, abandoned: 0 });
  expect(stage.eventsOf('lease-lost')).toEqual([]);
  expect(stage.of('left')).toHaveLength(1);
});

test('ends that the report queue does not have hold the worker back, but not beyond its deadline', async () => {
  const stage = await withJobs('a');
  stage.cutOff = new Set(['reports']);
  stage.handler.finish('a');
  const drained = stage.worker.drain();
  await stage.advance(20_000);
  expect(stage.worker.state).toBe('draining');
  await stage.advance(8_000);
  expect(await drained).toEqual({ released: 0, abandoned: 0 });
  expect(rowOf(stage)).toBe('left');
  expect(stage.log).toContainEqual(expect.objectContaining({ level: 'error', message: 'reports were not sent' }));
});

test('disposing of a worker drains it', async () => {
  const stage = await withJobs('a');
  const disposed = stage.worker[Symbol.asyncDispose]();
  await stage.advance(2_000);
  await disposed;
  await stage.worker.closed;
  expect(rowOf(stage)).toBe('left');
});

test('nothing is left to happen once a worker has left, also where it is drained or disposed of again', async () => {
  for (const drain of [
    (stage: WorkerStage) => stage.worker.drain(),
    (stage: WorkerStage) => stage.services.workers.drain('w1', stage.session),
  ]) {
    const stage = await withJobs('a');
    void drain(stage);
    await stage.advance(20_000);
    expect(stage.worker.state).toBe('left');
    await stage.worker.drain();
    await stage.worker[Symbol.asyncDispose]();
    expect(stage.scheduler.nextAt).toBeUndefined();
  }
});
