import { describe, expect, test } from 'vitest';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Job } from '../../lib/pool/job.ts';
import { passIntervalMs } from '../../lib/resync/sweep.ts';
import { SequentialIds } from '../../lib/testing/memory-ids.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { ControlPlane, type ControlPlaneOptions, LEASE_MS } from '../support/control-plane.ts';
import { PlayedWorker } from '../support/played-worker.ts';

/** The sweep on tables and queues in memory, and the state machine that it starts. G, P, R and F name guarantee, requirement and field report. */
async function setup(options: ControlPlaneOptions = {}) {
  const plane = new ControlPlane({ startsAt: STARTS_AT, ...options });
  const { jobs, dispatches, workers, inboxes, rounds } = plane.services;
  const ids = new SequentialIds(plane.scheduler);
  return {
    ...{ plane, jobs, dispatches, workers, inboxes, rounds, ids },
    join: (worker: string, more: Parameters<ControlPlane['addWorker']>[2] = {}) => PlayedWorker.registered(plane, worker, ids.next(), more),
    /** A run as deployed: passes every few seconds of one minute, or only the first where there is nothing to watch. */
    async run(...alive: readonly PlayedWorker[]): Promise<number> {
      const until = plane.now() + MINUTE_MS;
      const sweep = plane.newSweep();
      let passes = 0;
      for (let isIdle: boolean | undefined = false; !isIdle && plane.now() < until - 6_000; passes++) {
        for (const worker of alive) await worker.beat();
        isIdle = (await sweep.pass())?.isIdle;
        await plane.advance(passIntervalMs(LEASE_MS));
      }
      await plane.advance(Math.max(0, until - plane.now()));
      return passes;
    },
    /** A job that is up at the worker. */
    async put(key: string, owner: PlayedWorker, more: Partial<Job> = {}): Promise<void> {
      const named = { key, dispatchId: `d-${key}`, fingerprint: fingerprintOf(key, PAYLOAD), fence: 1 };
      const { worker, session } = owner;
      const running = { status: 'running', owner: { worker, session }, assignedAt: 1, startedAt: 2 } as const;
      await plane.putJob({ ...named, attempt: 1, admittedAt: 1, ...running, ...more } as Job);
      await plane.putDispatch({ ...named, requestedAt: 1, status: 'started', outcome: { outcome: 'started', at: 2 } }, PAYLOAD);
    },
    async waits(key: string, dueAt: number): Promise<void> {
      const named = { key, dispatchId: `d-${key}`, fingerprint: fingerprintOf(key, PAYLOAD), fence: 0 };
      await plane.putJob({ ...named, attempt: 1, admittedAt: 1, status: 'pending', because: 'admitted', dueAt });
      await plane.putDispatch({ ...named, requestedAt: 1, status: 'admitted' }, PAYLOAD);
    },
    names: () => new Set(plane.executions.map(({ name }) => name)),
    owner: (key: string) => {
      const job = jobs.peek(key);
      return job && 'owner' in job ? job.owner.worker : job?.status;
    },
  };
}

const PAYLOAD = new TextEncoder().encode('p');
const MINUTE_MS = 60_000;
/** A whole minute, when runs of the sweep begin. */
const STARTS_AT = 31_666_666 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;

describe('a worker whose beat stands still', () => {
  test('for half a lease between two looks is asked at once, by one execution a minute however often it is looked at', async () => {
    const { plane, join, run, names, workers } = await setup({ executions: () => ({ lateMs: 0, dies: true }) });
    const silent = await join('silent');
    const beats = await join('beats');
    for (let minutes = 1; minutes <= 3; minutes++) {
      await run(beats);
      expect(names().size).toBe(minutes);
      expect(plane.executions.length).toBeGreaterThan(minutes);
    }
    expect(plane.executions.every(({ worker, session }) => worker === 'silent' && session === silent.session)).toBe(true);
    expect([...names()][0]).toBe(`${silent.session}-0-${STARTS_AT / MINUTE_MS}`);
    expect(workers.peek('silent')?.state).toBe('active');
  });

  test('is lost within a lease and a half of its last beat, and a round takes its jobs elsewhere (G6)', async () => {
    const { plane, join, run, put, owner, workers } = await setup();
    const silent = await join('silent');
    const beats = await join('beats');
    await put('k', silent);
    const from = plane.now();
    await run(beats);
    expect(workers.peek('silent')?.state).toBe('lost');
    expect(owner('k')).toBe('beats');
    expect(plane.now() - from).toBe(MINUTE_MS);
  });

  test('is left alone where it beat, registered anew, or was not yet looked at for half a lease', async () => {
    const { plane, join } = await setup();
    const [slow, again] = [await join('slow'), await join('again')];
    const sweep = plane.newSweep();
    await sweep.pass();
    await plane.advance(LEASE_MS / 2 - 201);
    await sweep.pass();
    await slow.beat();
    await join('again');
    await plane.advance(201);
    await sweep.pass();
    expect(plane.executions).toEqual([]);
    void again;
  });

  test('is asked in the first pass of a run where the last pass of the run before saw the same beat: no look is lost in between', async () => {
    const { plane, join } = await setup();
    await join('silent');
    const sweep = plane.newSweep();
    await sweep.pass();
    await plane.advance(LEASE_MS / 2);
    sweep.begin();
    await sweep.pass();
    expect(plane.executions).toHaveLength(1);
  });

  test('is asked as well where two sweeps look at once, and is lost once', async () => {
    const { plane, join, put, owner, workers } = await setup();
    await put('k', await join('silent'));
    const beats = await join('beats');
    const sweeps = [plane.newSweep(), plane.newSweep()];
    for (let passes = 0; passes < 12; passes++) {
      await beats.beat();
      for (const sweep of sweeps) await sweep.pass();
      await plane.advance(passIntervalMs(LEASE_MS));
    }
    expect([workers.peek('silent')?.state, owner('k'), plane.counts.get('worker-lost')]).toEqual(['lost', 'beats', 1]);
  });

  test('is not asked over a round that is not overdue: its timer would begin anew, and it would never be lost', async () => {
    const { plane, join, run, rounds, workers } = await setup();
    const silent = await join('silent', { leaseMs: 90_000 });
    const beats = await join('beats');
    for (let minutes = 0; minutes < 4; minutes++) await run(beats);
    expect(rounds.all().map(({ worker }) => worker)).toEqual(['silent', 'silent', 'silent']);
    expect(workers.peek('silent')?.state).toBe('lost');
    expect(silent.inbox).toHaveLength(3);
    expect(plane.executions.length).toBeGreaterThan(0);
  });

  test('is asked by another execution where the first one died (its name has the minute)', async () => {
    let died = 0;
    const { join, run, workers, names } = await setup({ executions: (at) => ({ lateMs: 0, dies: at === 'step' && died++ < 1 }) });
    await join('silent');
    const beats = await join('beats');
    for (let minutes = 0; minutes < 3; minutes++) await run(beats);
    expect(names().size).toBe(2);
    expect(workers.peek('silent')?.state).toBe('lost');
  });
});

describe('a row', () => {
  test('that is revoked and that nobody waits for is waited for, once a run, and then lost', async () => {
    const { plane, join, run, put, owner, workers, names } = await setup();
    const evicted = await join('evicted');
    const beats = await join('beats');
    await put('k', evicted);
    await workers.change('evicted', { session: evicted.session, states: ['active'] }, { state: 'revoked' });
    const sweep = plane.newSweep();
    await sweep.pass();
    await sweep.pass();
    expect(plane.executions).toHaveLength(1);
    expect([...names()][0]).toMatch(/-revoked$/);
    await plane.advance(LEASE_MS - 1);
    expect([workers.peek('evicted')?.state, owner('k')]).toEqual(['revoked', 'evicted']);
    await run(beats);
    expect([workers.peek('evicted')?.state, owner('k')]).toEqual(['lost', 'beats']);
  });

  test.each(['lost', 'left'] as const)('that is %s, however long ago, has its jobs seen to as long as any names it (G6)', async (state) => {
    const { plane, join, run, put, owner, workers } = await setup();
    const gone = await join('gone');
    await workers.change('gone', { session: gone.session, states: ['active'] }, { state });
    for (let minutes = 0; minutes < 2; minutes++) await run();
    // Long after, an index shows at last what names it, while the row has been looked at all the time.
    await plane.advance(50 * MINUTE_MS);
    for (let index = 0; index < 130; index++) await put(`k-${index}`, gone);
    const beats = await join('beats', { capacity: 1_000 });
    for (let minutes = 0; minutes < 3; minutes++) await run(beats);
    expect(new Set(Array.from({ length: 130 }, (_, index) => owner(`k-${index}`)))).toEqual(new Set(['beats']));
    expect(workers.peek('gone')).toBeDefined();
  });

  test('of a worker that is gone, and its inbox, are kept for an hour after a job last named it, then removed', async () => {
    const { plane, join, run, put, workers, inboxes, jobs } = await setup();
    const gone = await join('gone');
    await workers.change('gone', { session: gone.session, states: ['active'] }, { state: 'lost' });
    for (let minutes = 0; minutes < 30; minutes++) await run();
    await put('k', gone);
    await run();
    expect(jobs.peek('k')?.status).toBe('pending');
    const from = plane.now();
    while (workers.peek('gone') && plane.now() - from < 3 * HOUR_MS) {
      expect(inboxes.queue(gone.session)).toBeDefined();
      await run();
    }
    expect(plane.now() - from).toBeGreaterThan(HOUR_MS - 7 * MINUTE_MS);
    expect(plane.now() - from).toBeLessThan(HOUR_MS + 2 * MINUTE_MS);
    expect(inboxes.queue(gone.session)).toBeUndefined();
  });

  test('of another generation is stamped, where its worker is there', async () => {
    const { plane, join, workers } = await setup();
    for (const [worker, state] of [['active'], ['drains', 'draining'], ['gone', 'left'], ['evicted', 'revoked']] as const) {
      const { session } = await join(worker);
      if (state) await workers.change(worker, { session, states: ['active'] }, { state });
    }
    workers.setPool({ state: 'open', generation: 7 });
    await plane.newSweep().pass();
    expect(workers.all().map(({ workerId, generation }) => [workerId, generation])).toEqual([
      ['active', 7],
      ['drains', 7],
      ['gone', 1],
      ['evicted', 1],
    ]);
  });

  test('that cannot be seen to hides none of those after it, nor the jobs that wait, and is told of', async () => {
    const { plane, join, put, waits, owner, workers } = await setup();
    const [broken, gone] = [await join('broken'), await join('gone')];
    await workers.change('broken', { session: broken.session, states: ['active'] }, { state: 'lost' });
    await workers.change('gone', { session: gone.session, states: ['active'] }, { state: 'lost' });
    await put('k', gone);
    await waits('waits', plane.now());
    await join('beats');
    const { ownedBy } = plane.services.jobs;
    plane.services.jobs.ownedBy = async (worker, cursor) => {
      if (worker === 'broken') throw new PoolError('unavailable', 'the index is out of reach', { retryable: true });
      return ownedBy.call(plane.services.jobs, worker, cursor);
    };
    await plane.newSweep().pass();
    expect(plane.failures).toEqual(['the index is out of reach']);
    expect([owner('k'), owner('waits')]).toEqual(['beats', 'beats']);
  });
});

describe('an inbox', () => {
  test('of a session that no row names is removed an hour after that session began; one that a row names never is', async () => {
    const { plane, join, run, inboxes } = await setup();
    const old = await join('w');
    await plane.advance(30 * MINUTE_MS);
    const again = await join('w');
    for (let minutes = 0; minutes < 29; minutes++) await run(again);
    expect([inboxes.queue(old.session), inboxes.queue(again.session)]).not.toContain(undefined);
    for (let minutes = 0; minutes < 65; minutes++) await run(again);
    expect(inboxes.queue(old.session)).toBeUndefined();
    expect(inboxes.queue(again.session)).toBeDefined();
  });
});

describe('an audit: a worker that beats', () => {
  test('is asked once its session has settled, and then once an hour', async () => {
    const { plane, join, run, rounds } = await setup();
    for (const name of ['a', 'b', 'c']) (await join(name, { isAudited: true })).lives();
    const asked = (worker: string) => plane.executions.filter((execution) => execution.worker === worker).length;
    await run();
    expect(plane.executions).toEqual([]);
    for (let minutes = 1; minutes < 3; minutes++) await run();
    expect(['a', 'b', 'c'].map(asked)).toEqual([1, 1, 1]);
    for (let minutes = 3; minutes < 5 * 60; minutes++) await run();
    for (const worker of ['a', 'b', 'c']) {
      expect(asked(worker)).toBeGreaterThanOrEqual(5);
      expect(asked(worker)).toBeLessThanOrEqual(6);
    }
    expect(rounds.all().map(({ state }) => state)).toEqual(plane.executions.map(() => 'resolved'));
  });

  test('is asked again where the execution died, until it has answered', async () => {
    let died = 0;
    const { plane, join, run, rounds } = await setup({ executions: (at) => ({ lateMs: 0, dies: at === 'step' && died++ < 2 }) });
    (await join('w', { isAudited: true })).lives();
    for (let minutes = 0; minutes < 10; minutes++) await run();
    expect(plane.executions).toHaveLength(3);
    expect(rounds.all().at(-1)?.state).toBe('resolved');
  });

  test('is asked what the last session of its id was given at its end, which no index showed when it registered (G6)', async () => {
    const { plane, join, run, put, jobs, rounds } = await setup();
    const old = await join('w', { isAudited: true });
    await put('seen', old, { status: 'assigned' });
    await plane.unlisted(() => put('k', old, { status: 'assigned' }));
    const again = await join('w', { isAudited: true });
    again.lives();
    plane.report({ type: 'registered', worker: 'w', session: again.session, at: plane.now() });
    await plane.advance(10_000);
    expect([rounds.all().map(({ state }) => state), again.told('seen').op]).toEqual([['resolved'], 'start']);
    expect(jobs.peek('k')).toMatchObject({ owner: { session: old.session } });
    // By now the index shows it.
    await put('k', old, { status: 'assigned' });
    for (let minutes = 0; minutes < 3; minutes++) await run();
    expect(jobs.peek('k')).toMatchObject({ status: 'assigned', owner: { session: again.session } });
    expect(again.told('k').op).toBe('start');
  });
});

describe('jobs that wait and are due', () => {
  test('are asked for oldest first, and no more of them than there are free slots', async () => {
    const { plane, join, waits, owner } = await setup();
    for (const [index, dueAt] of [5, 3, 9, 1, 7].entries()) await waits(`k${index}`, dueAt);
    await waits('later', plane.now() + HOUR_MS);
    const busy = await join('busy', { capacity: 2 });
    await busy.beat({ running: 1 });
    await join('full', { capacity: 0 });
    await join('free', { capacity: 2 });
    const asked: string[] = [];
    const { requests } = plane.services;
    const send = requests.send.bind(requests);
    requests.send = (message) => {
      asked.push(message.group ?? '');
      send(message);
    };
    await plane.newSweep().pass();
    expect(asked).toEqual(['k3', 'k1', 'k0']);
    expect([owner('k3'), owner('later')]).toEqual([expect.any(String), 'pending']);
  });

  test('are left alone where nobody has room, and looked at again', async () => {
    const { plane, join, waits } = await setup();
    await waits('k', 1);
    await join('full', { capacity: 0 });
    expect(await plane.newSweep().pass()).toEqual({ isIdle: false });
    expect(plane.rules).toEqual([]);
  });

  test('are not asked for at each pass while the functions are behind, and again after a while', async () => {
    const { plane, join, waits } = await setup();
    await join('free');
    await waits('k', 1);
    const sweep = plane.newSweep();
    const { requests } = plane.services;
    let asked = 0;
    // Nobody consumes what is asked.
    requests.send = () => {
      asked += 1;
    };
    for (let passed = 0; passed < 10_000; passed += 5_000) {
      await sweep.pass();
      await plane.advance(5_000);
    }
    expect(asked).toBe(1);
    await plane.advance(5_000);
    await sweep.pass();
    expect(asked).toBe(2);
  });

  test('do not wait for one that can never be assigned, though only one slot is free; that one is told of each time', async () => {
    const { plane, join, waits, owner } = await setup();
    await waits('broken', 1);
    for (let index = 0; index < 5; index++) await waits(`k${index}`, 2 + index);
    const { jobs } = plane.services;
    const { get } = jobs;
    jobs.get = async (key) => {
      if (key === 'broken') throw new PoolError('corrupt-record', 'job "broken" cannot be read', { retryable: false });
      return get.call(jobs, key);
    };
    const free = await join('free', { capacity: 1 });
    const sweep = plane.newSweep();
    for (let passes = 0; passes < 7; passes++) {
      await sweep.pass();
      await plane.advance(passIntervalMs(LEASE_MS));
    }
    expect(['k0', 'k1', 'k2', 'k3', 'k4'].map(owner)).toEqual(Array(5).fill(free.worker));
    expect(new Set(plane.failures)).toEqual(new Set(['job "broken" cannot be read']));
  });
});

test('an idle pool costs one pass a minute; one with a worker, or with work that waits, is watched', async () => {
  const { plane, join, run, waits, workers } = await setup();
  expect(await run()).toBe(1);
  const gone = await join('gone');
  expect(await run(gone)).toBeGreaterThan(5);
  await workers.change('gone', { session: gone.session, states: ['active'] }, { state: 'left' });
  expect(await run()).toBe(1);
  await waits('k', plane.now());
  expect(await run()).toBeGreaterThan(5);
});

describe('the gauges', () => {
  test('tell once a run how many jobs run, how many wait and are due though nobody has room, and for how many seconds the oldest', async () => {
    const { plane, join, waits, workers } = await setup();
    for (const [worker, running] of [
      ['one', 2],
      ['two', 3],
      ['gone', 4],
    ] as const) {
      const { session } = await join(worker, { capacity: running });
      await workers.heartbeat({ workerId: worker, session, beat: 1, running });
      if (worker === 'gone') await workers.change(worker, { session, states: ['active'] }, { state: 'left' });
    }
    const sweep = plane.newSweep();
    await sweep.pass();
    expect(plane.gauges.splice(0)).toEqual(told(5, 0, 0));
    await waits('younger', plane.now() - 1_000);
    await waits('older', plane.now() - 400_000);
    await waits('later', plane.now() + HOUR_MS);
    await sweep.pass();
    expect(plane.gauges).toEqual([]);
    sweep.begin();
    await sweep.pass();
    expect(plane.gauges).toEqual(told(5, 2, 400));
  });

  test('tell nothing of an idle pool, and of jobs that wait though there is no worker', async () => {
    const { plane, waits } = await setup();
    await plane.newSweep().pass();
    expect(plane.gauges).toEqual([]);
    await waits('k', plane.now() - 1_000);
    await plane.newSweep().pass();
    expect(plane.gauges).toEqual(told(0, 1, 1));
  });

  test('tell once a run that the pool is recovering, for as long as it is, though nothing else is to be told; not that it is closed', async () => {
    const { plane, workers } = await setup();
    for (const state of ['closed', 'recovering', 'recovering', 'open'] as const) {
      workers.setPool({ state, generation: 2 });
      const sweep = plane.newSweep();
      await sweep.pass();
      await sweep.pass();
    }
    expect(plane.gauges).toEqual([
      ['recovering', 1],
      ['recovering', 1],
    ]);
  });
});

function told(running: number, pending: number, age: number) {
  return [
    ['running', running],
    ['pending', pending],
    ['pending-age', age],
  ];
}
