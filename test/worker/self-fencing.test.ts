import { expect, test } from 'vitest';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { defineHandler } from '../../lib/worker/handler.ts';
import { LEASE_MS, type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const payload = new TextEncoder().encode('{}');

function start(fence: number, key = 'k', dispatchId = 'd1'): SentCommand {
  return { op: 'start', key, dispatchId, fingerprint: fingerprintOf(key, payload), payload, fence, attempt: 1 };
}

async function withJob(...options: Parameters<typeof WorkerStage.registered>): Promise<WorkerStage> {
  const stage = await WorkerStage.registered(...options);
  await stage.send(start(5));
  return stage;
}

test("lost fires, and the stop begins, before the lease ends on anybody else's timer, however long answers take", async () => {
  for (const delayMs of [0, 100, 2_000, 6_000]) {
    const stage = await withJob();
    const raised: number[] = [];
    let seen = -1;
    stage.fate = ({ service }) => (service === 'registry' ? { delayMs } : undefined);
    let lostAt: number | undefined;
    stage.handler.jobs[0]?.lost.addEventListener('abort', () => {
      lostAt = stage.scheduler.now();
    });
    for (let passed = 0; passed < 60_000; passed += 100) {
      if (passed === 45_000) stage.cutOff = new Set(['registry']);
      await stage.advance(100);
      const beat = stage.services.workers.peek('w1')?.beat ?? 0;
      if (beat !== seen) raised.push(stage.scheduler.now());
      seen = beat;
    }
    await stage.until(() => lostAt !== undefined, LEASE_MS);
    const lastRaise = raised.at(-1) as number;
    expect(lostAt, `answers that take ${delayMs} ms`).toBeLessThanOrEqual(lastRaise + (2 / 3) * LEASE_MS);
  }
});

test('one failed heartbeat, and a hung one, cost nothing: the next is sent a twelfth of the lease later', async () => {
  for (const bad of [{ delayMs: 0, fault: 'failed' as const }, { delayMs: 25_000 }]) {
    const stage = await withJob();
    let first = true;
    stage.fate = ({ method }) => {
      if (method !== 'heartbeat' || !first) return undefined;
      first = false;
      return bad;
    };
    await stage.advance(3 * LEASE_MS);
    expect(stage.eventsOf('lease-lost')).toEqual([]);
    expect(stage.worker.health).toMatchObject({ live: true, ready: true, jobs: 1 });
  }
});

test('a row that was put back to an earlier moment takes the next heartbeat, and its worker answers the next round (G6)', async () => {
  const stage = await WorkerStage.registered();
  const { workers } = stage.services;
  const ask = (round: string) => stage.send({ op: 'resync', round, beat: workers.peek('w1')?.beat ?? 0, page: 1, pages: 1, jobs: [] });
  await stage.advance(LEASE_MS);
  const putBack = workers.backup();
  await stage.advance(10 * LEASE_MS);
  await ask('before');
  const shown = workers.peek('w1')?.beat ?? 0;
  putBack();
  await stage.advance(LEASE_MS / 3);
  expect(workers.peek('w1')?.beat).toBeGreaterThan(shown);
  await ask('after');
  expect(stage.of('resync').map(({ round }) => round)).toEqual(['before', 'after']);
  expect(stage.eventsOf('lease-lost')).toEqual([]);
});

test('heartbeats go out every third of the lease while they succeed', async () => {
  const stage = await WorkerStage.registered();
  await stage.advance(10 * LEASE_MS);
  expect(stage.calls.filter(({ method }) => method === 'heartbeat')).toHaveLength(30);
  expect(stage.eventsOf('renewed')).toHaveLength(30);
});

test('a heartbeat tells how many jobs are up', async () => {
  const stage = await withJob();
  await stage.advance(LEASE_MS / 3);
  expect(stage.services.workers.peek('w1')).toMatchObject({ running: 1, capacity: 10, leaseMs: LEASE_MS });
});

test('a worker that was stopped for three leases (SIGSTOP) ends what it runs before it reads another command (F36)', async () => {
  const stage = await withJob();
  stage.process.freeze();
  await stage.advance(3 * LEASE_MS);
  await stage.send(start(6, 'other', 'd2'), { op: 'notify', key: 'k', fence: 5, id: 'n1', payload });
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(false);
  stage.process.resume();
  await stage.settle();
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(true);
  expect(stage.story.filter((line) => line.startsWith('start'))).toEqual(['start d1 5']);
  expect(stage.handler.notified).toEqual([]);
  expect(stage.eventsOf('lease-lost')).toMatchObject([{ reason: 'expired', jobs: 1 }]);
});

test('the inbox of a session that is over is not read: what is in it stays there', async () => {
  const stage = await withJob();
  const inbox = stage.services.inboxes.queue(stage.session);
  stage.process.freeze();
  await stage.send(start(6, 'other', 'd2'));
  await stage.advance(3 * LEASE_MS);
  stage.process.resume();
  await stage.advance(10 * LEASE_MS);
  expect(inbox?.size).toBe(1);
});

test('no heartbeat is sent for a lease that has run out unseen', async () => {
  const stage = await WorkerStage.registered({ leaseMs: 31_000 });
  stage.fate = ({ method }) => (method === 'receive' ? { delayMs: 1_000_000 } : undefined);
  await stage.advance(10_100);
  stage.process.freeze({ suspended: true });
  await stage.advance(5 * LEASE_MS);
  stage.process.resume();
  await stage.advance(400);
  expect(stage.calls.filter(({ method }) => method === 'heartbeat')).toEqual([]);
  expect(stage.eventsOf('lease-lost')).toHaveLength(1);
});

test('a machine suspended for longer than the lease is noticed by the wall clock, within a second of going on', async () => {
  // Nothing but the worker's own timers notices: a long poll may hang after a suspend.
  const stage = await withJob();
  stage.fate = ({ method }) => (method === 'receive' ? { delayMs: 1_000_000 } : undefined);
  await stage.advance(5_500);
  stage.process.freeze({ suspended: true });
  await stage.advance(5 * LEASE_MS);
  stage.process.resume();
  await stage.advance(1_000);
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(true);
  expect(stage.eventsOf('overrun')).toMatchObject([{ keys: ['k'] }]);
});

test('a wall clock set back by a day does not make the lease longer', async () => {
  const stage = await withJob();
  stage.process.setClock(-86_400_000);
  stage.cutOff = new Set(['registry']);
  await stage.advance((2 / 3) * LEASE_MS - 1);
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(false);
  await stage.advance(1_000);
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(true);
});

test('an answer that comes after the lease was given up changes nothing: the session is over for good', async () => {
  const stage = await withJob();
  stage.handler.way.stop = 'hangs';
  stage.fate = ({ method }) => (method === 'heartbeat' ? { delayMs: 10_500 } : undefined);
  await stage.advance(21_000);
  expect(stage.eventsOf('lease-lost')).toHaveLength(1);
  expect(stage.worker.state).toBe('registering');
  stage.fate = () => undefined;
  await stage.advance(LEASE_MS - 20_999);
  expect(stage.worker.health).toMatchObject({ live: false, ready: false, jobs: 1 });
});

test('a job that still lives when the lease ends is an overrun: told once, and the worker is not live any more', async () => {
  const stage = await withJob();
  stage.handler.way.stop = 'hangs';
  stage.cutOff = new Set(['registry']);
  await stage.advance(LEASE_MS - 1_000);
  expect(stage.worker.health.live).toBe(true);
  await stage.advance(10 * LEASE_MS);
  expect(stage.eventsOf('overrun')).toMatchObject([{ keys: ['k'] }]);
  expect(stage.worker.health.live).toBe(false);
});

test('no new session is begun before every handler of the old one has stopped', async () => {
  const stage = await withJob();
  stage.handler.way.stop = 'hangs';
  const old = stage.session;
  stage.end('revoked');
  await stage.advance(10 * LEASE_MS);
  expect(stage.services.workers.all().map(({ session }) => session)).toEqual([old]);
  stage.handler.settle('stop');
  await stage.settle();
  expect(stage.session).not.toBe(old);
  expect(stage.worker.state).toBe('active');
});

test('a refused heartbeat says why: evicted, replaced by another session of the same id, declared lost, row deleted', async () => {
  const evicted = await withJob();
  evicted.end('revoked');
  await evicted.advance(LEASE_MS / 3);
  expect(evicted.eventsOf('lease-lost')).toMatchObject([{ reason: 'evicted' }]);
  expect(evicted.handler.stoppings).toMatchObject([{ reason: 'evicted', mayWrite: false }]);

  const ways: ((stage: WorkerStage) => unknown)[] = [
    ({ services }) =>
      services.workers.register({
        workerId: 'w1',
        session: 'another',
        leaseMs: LEASE_MS,
        capacity: 1,
        registeredAt: services.workers.peek('w1')?.registeredAt ?? 0,
      }),
    (stage) => stage.end('lost'),
    ({ services }) => services.workers.delete('w1'),
  ];
  for (const way of ways) {
    const stage = await withJob();
    await way(stage);
    await stage.advance(LEASE_MS / 3);
    expect(stage.eventsOf('lease-lost')).toMatchObject([{ reason: 'replaced' }]);
    expect(stage.handler.stoppings).toMatchObject([{ reason: 'lease-lost', mayWrite: false }]);
    expect(stage.worker.state).toBe('active');
  }
});

test('a start that waits behind another call of its key is not made once the lease is lost: the lock is got, then the lease is looked at (P11)', async () => {
  const stage = await withJob();
  stage.handler.way.notify = 'hangs';
  await stage.send({ op: 'notify', key: 'k', fence: 5, id: 'n1', payload }, start(6, 'k', 'd2'));
  stage.end('revoked');
  await stage.advance(LEASE_MS / 3);
  stage.handler.settle('notify');
  await stage.advance(LEASE_MS);
  expect(stage.story.filter((line) => line.startsWith('start'))).toEqual(['start d1 5']);
  expect(stage.eventsOf('command-dropped')).toMatchObject([{ why: 'other-session', op: 'start' }]);
});

test('commands for another session of this worker are dropped', async () => {
  const stage = await withJob();
  const queue = stage.services.inboxes.queue(stage.session);
  const { encodeCommand } = await import('../../lib/wire/index.ts');
  queue?.send({ body: encodeCommand({ ...start(9, 'other', 'd2'), session: 'older' } as never), group: 'any', deduplicationId: '1' });
  await stage.settle();
  expect(stage.eventsOf('command-dropped')).toMatchObject([{ why: 'other-session', op: 'start' }]);
  expect(stage.handler.jobs).toHaveLength(1);
});

test("what `lost` brings about is not the job's own end, also where the stop has to wait", async () => {
  const notified = Promise.withResolvers<void>();
  const handler = defineHandler({
    start: (job) => ({
      done: new Promise((resolve) => {
        job.lost.addEventListener('abort', () => resolve('closed'));
      }),
      notify: () => notified.promise,
      stop() {},
    }),
  });
  const stage = await withJob({ handler });
  await stage.send({ op: 'notify', key: 'k', fence: 5, id: 'n1', payload });
  stage.end('revoked');
  await stage.advance(LEASE_MS / 2);
  notified.resolve();
  await stage.settle();
  expect(stage.of('finished')).toEqual([]);
  expect(stage.of('released')).toMatchObject([{ key: 'k', fence: 5 }]);
});

test('an outage of the inbox, the report queue or both ends nothing, and what was said is said when it is over', async () => {
  const stage = await withJob();
  stage.cutOff = new Set(['inbox', 'reports']);
  stage.handler.finish('k', { lines: 3 });
  await stage.advance(10 * 60_000);
  expect(stage.worker.health).toMatchObject({ live: true, ready: true });
  expect(stage.of('finished')).toEqual([]);
  stage.cutOff = new Set();
  await stage.advance(30_000);
  expect(stage.of('finished')).toMatchObject([{ dispatchId: 'd1', result: { lines: 3 } }]);
  await stage.send(start(9, 'later', 'd2'));
  expect(stage.of('started').map(({ dispatchId }) => dispatchId)).toContain('d2');
});

test('an end keeps the time at which it came, however late it is said (R6, R7)', async () => {
  const stage = await withJob();
  stage.cutOff = new Set(['reports']);
  const at = stage.scheduler.now();
  stage.handler.fail('k', new Error('broken pipe'));
  await stage.advance(120_000);
  stage.cutOff = new Set();
  await stage.advance(30_000);
  expect(stage.of('finished')).toMatchObject([{ at, error: { code: 'Error', message: 'broken pipe', retryable: false } }]);
});

test('a registration that cannot succeed is told, one that may is tried again', async () => {
  const { PoolError } = await import('../../lib/pool/errors.ts');
  const denied = new WorkerStage();
  const create = denied.services.inboxes.create.bind(denied.services.inboxes);
  denied.services.inboxes.create = async () => {
    throw new PoolError('not-permitted', 'create the inbox: needs grantWork', { retryable: false });
  };
  const refused = denied.worker.start();
  void denied.settle();
  await expect(refused).rejects.toMatchObject({ code: 'not-permitted' });
  expect(denied.worker.state).toBe('registering');
  denied.services.inboxes.create = create;

  const outage = new WorkerStage({ fate: () => ({ delayMs: 0, fault: 'throttled' }) });
  const started = outage.worker.start();
  await outage.advance(60_000);
  outage.fate = () => undefined;
  await outage.advance(10_000);
  await started;
  expect(outage.worker.state).toBe('active');
});
