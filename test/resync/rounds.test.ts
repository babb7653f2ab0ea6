import { describe, expect, test } from 'vitest';
import { decodeDispatch, encodeDispatch } from '../../lib/aws/dispatch-item.ts';
import { toItem } from '../../lib/aws/item.ts';
import { decodeJob, encodeJob } from '../../lib/aws/job-item.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Job, OwnedJob } from '../../lib/pool/job.ts';
import type { WorkerStore } from '../../lib/pool/ports.ts';
import { armRound, expireRound, loseRevoked, openRound, type ReassignStep, reassignStep } from '../../lib/resync/run-round.ts';
import type { Call, Fate, Network } from '../../lib/testing/calls.ts';
import { fingerprintOf, type Report, type ResyncReport } from '../../lib/wire/index.ts';
import { ControlPlane, type ControlPlaneOptions, LEASE_MS } from '../support/control-plane.ts';
import { PlayedWorker } from '../support/played-worker.ts';

/**
 * Rounds on the real functions and the real state machine's steps, over tables and queues in memory. The test plays the workers. R and a
 * number name the requirement, F and a number the field report, P the requirement of the pool.
 */
async function setup({ leaseMs = LEASE_MS, ...options }: ControlPlaneOptions & { readonly leaseMs?: number } = {}) {
  const plane = new ControlPlane(options);
  const { services } = plane;
  const { jobs, dispatches, workers, rounds } = services;
  const w1 = await PlayedWorker.registered(plane, 'w1', 's1', { capacity: 10_000, leaseMs });
  let executions = 0;

  const start = async (key: string, dispatchId = `d-${key}`) => {
    plane.request({ op: 'start', key, payload: PAYLOAD, dispatchId, ifBusy: 'reject' });
    await plane.rest();
  };
  return {
    ...{ plane, services, jobs, dispatches, workers, rounds, w1, start },
    ports: services.poolPorts(),
    /** Another worker, with room, that comes once the jobs of the test are where they are to be. */
    join: (worker: string, session: string) => PlayedWorker.registered(plane, worker, session, { capacity: 10_000 }),
    /** Jobs that are up at the worker, which then is the only one. */
    async runs(...keys: readonly string[]): Promise<void> {
      for (const key of keys) {
        await start(key);
        w1.up(key);
        plane.report(w1.started(key));
      }
      await plane.rest();
    },
    /** So many jobs that are up at the worker, written as they are. */
    async holds(count: number): Promise<void> {
      for (let index = 0; index < count; index++) {
        const key = `k-${index}`;
        const named = { key, dispatchId: `d-${key}`, fingerprint: fingerprintOf(key, PAYLOAD), fence: 1 };
        await plane.putJob({ ...named, attempt: 1, admittedAt: 1, status: 'running', owner: OWNER, assignedAt: 1, startedAt: 2 });
        await plane.putDispatch({ ...named, requestedAt: 1, status: 'started', outcome: { outcome: 'started', at: 2 } }, PAYLOAD);
        w1.holds(key, named.dispatchId, PAYLOAD, 1, 2);
      }
    },
    /** An execution for the worker; rest comes with its question. */
    async begin({ worker, session }: { readonly worker: string; readonly session: string } = w1): Promise<void> {
      await services.machine.start(`by the test ${++executions}`, { worker, session });
      await plane.rest();
    },
    async says(...reports: readonly Report[]): Promise<void> {
      plane.report(...reports);
      await plane.rest();
    },
    /** Time goes by, while these workers beat. */
    async live(ms: number, ...alive: readonly PlayedWorker[]): Promise<void> {
      for (let passed = 0; passed < ms; passed += 5_000) {
        for (const worker of alive) await worker.beat();
        await plane.advance(5_000);
      }
    },
    /** The round that the worker's row points at. */
    round: async (worker = 'w1') => rounds.get(workers.peek(worker)?.round ?? ''),
    row: (worker = 'w1') => workers.peek(worker),
    job: (key = 'k') => jobs.peek(key),
    /** What is stored of a job and its dispatch, as whoever starts anew decodes it. */
    async readBack(key = 'k', dispatchId = `d-${key}`) {
      const job = await jobs.get(key);
      const dispatch = await dispatches.get(dispatchId);
      return {
        job: job && decodeJob(toItem(encodeJob(job.record, job.rev, 1))).record,
        dispatch: dispatch && decodeDispatch(toItem(encodeDispatch(dispatch, 'rev'))),
      };
    },
    revisions: () => jobs.all().map(({ key }) => jobs.versioned(key)?.rev),
    starts: (key = 'k') => plane.sent.filter((command) => command.op === 'start' && command.key === key).map(({ session }) => session),
    deadLetters: () => services.deadReports.size + services.deadRequests.size,
  };
}

const PAYLOAD = new TextEncoder().encode('p');
const OWNER = { worker: 'w1', session: 's1' };
const HEAD = { dispatchId: 'd', fingerprint: 'f', fence: 1, attempt: 1, admittedAt: 1 };
const FAILURE = { code: 'boom', message: 'it broke', retryable: false };
const MINUTE_MS = 60_000;

describe('a question', () => {
  test('is about every job of the worker that has not ended, of whatever session, as running only where it was confirmed (R1)', async () => {
    const { plane, begin, w1, round, row } = await setup();
    const owned = { ...HEAD, owner: OWNER, assignedAt: 1, startedAt: 2 };
    const jobs: readonly Job[] = [
      { ...owned, key: 'assigned', status: 'assigned' },
      { ...owned, key: 'running', status: 'running', startedAt: 2 },
      { ...owned, key: 'running in an older session', status: 'running', startedAt: 2, owner: { worker: 'w1', session: 's0' } },
      { ...owned, key: 'stopping', status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: 3 },
      { ...owned, key: 'releasing', status: 'releasing', releaseReason: 'moved' },
      { ...owned, key: 'elsewhere', status: 'running', startedAt: 2, owner: { worker: 'w2', session: 's2' } },
      { ...HEAD, key: 'pending', status: 'pending', because: 'released', dueAt: 1 },
      { ...HEAD, key: 'ended', status: 'ended', recordedAt: 1, settled: { outcome: { outcome: 'cancelled', by: 'stop' } } },
    ];
    for (const job of jobs) await plane.putJob(job);
    await begin();
    expect(w1.question().flatMap((page) => page.jobs)).toEqual([
      { key: 'assigned', fence: 1, running: false },
      { key: 'releasing', fence: 1, running: false },
      { key: 'running', fence: 1, running: true },
      { key: 'running in an older session', fence: 1, running: true },
      { key: 'stopping', fence: 1, running: false },
    ]);
    expect(row()?.round).toBe(w1.question()[0]?.round);
    expect(await round()).toMatchObject({ state: 'armed', beat: 0, deadline: plane.now() + LEASE_MS });
  });

  test('of thousands of jobs goes in pages, answered in any order and twice; it resolves, and writes no job that is as it was (R5, R12, F34, F39)', async () => {
    const { plane, holds, begin, says, w1, round, revisions, deadLetters } = await setup();
    await holds(3_210);
    await begin();
    const question = w1.question();
    expect(question.map(({ jobs }) => jobs.length)).toEqual([...Array.from({ length: 32 }, () => 100), 10]);

    const before = revisions();
    const pages = w1.answer().toSorted((one, other) => ((one.page * 7) % 33) - ((other.page * 7) % 33));
    const last = pages.at(-1) as ResyncReport;
    await says(...pages.slice(0, -1), ...pages.slice(0, 20));
    expect(await round()).toMatchObject({ state: 'armed', applied: new Set(pages.slice(0, -1).map(({ page }) => page)) });
    expect(plane.woken).toEqual([]);
    await says(last);
    await says(last);
    expect(await round()).toMatchObject({ state: 'resolved', skipped: 0, counts: { 'entry agrees': 3_210 } });
    expect(revisions()).toEqual(before);
    expect(plane.woken).toEqual(['resolved']);
    expect(plane.machine.running).toBe(0);
    expect(deadLetters()).toBe(0);
  });

  test('goes to a worker that owns nothing too: what it runs and nobody knows is asked about (R1)', async () => {
    const { begin, says, w1, plane, round } = await setup();
    w1.holds('forgotten', 'd', PAYLOAD, 7, 2);
    await begin();
    expect(w1.question()).toMatchObject([{ page: 1, pages: 1, jobs: [] }]);
    await says(...w1.answer());
    expect(plane.sent.at(-1)).toEqual({ op: 'confirm', session: 's1', key: 'forgotten', fence: 7 });
    expect((await round())?.state).toBe('resolved');
  });

  test('that is asked again is asked as it was first: an answer from before a job came up does not make it lost (F33)', async () => {
    const { plane, ports, start, join, says, w1, job, starts } = await setup();
    await start('k');
    await join('w2', 's2');
    const commands = {
      send: async (command: (typeof plane.sent)[number]) => ports.commands.send(command).finally(() => plane.sent.push(command)),
    };
    const step = await openRound({ ...ports, commands }, plane.resync, w1, { rounds: 0 });
    if (step.next !== 'arm') throw new Error(step.next);
    await armRound({ ...ports, commands }, plane.resync, step.token, 'first');
    const [question, answer] = [w1.question(), w1.answer()];
    w1.up('k');
    await says(w1.started('k'));

    // The function that asked is run again, because nobody heard that it had.
    await plane.advance(2_000);
    await armRound({ ...ports, commands }, plane.resync, step.token, 'second');
    expect(w1.question()).toEqual(question);
    expect(await plane.services.rounds.get(step.token)).toMatchObject({ taskToken: 'second', deadline: plane.now() + LEASE_MS, asked: 1 });
    await says(...answer);
    expect(job()).toMatchObject({ status: 'running', owner: OWNER });
    expect(starts()).toEqual(['s1']);
    expect((await plane.services.rounds.get(step.token))?.state).toBe('resolved');
  });

  test('is asked of nobody where the worker went between opening and arming; whoever timed it looks at the row anew', async () => {
    for (const goes of ['replaced', 'revoked', 'lost'] as const) {
      const { plane, ports, join, workers, w1 } = await setup();
      const step = await openRound(ports, plane.resync, w1, { rounds: 0 });
      if (step.next !== 'arm') throw new Error(step.next);
      if (goes === 'replaced') await join('w1', 's1 again');
      else await workers.change('w1', { session: 's1', states: ['active'] }, { state: goes });
      await armRound(ports, plane.resync, step.token, 'task');
      expect(plane.woken).toEqual(['gone']);
      expect(w1.inbox).toEqual([]);
      const next = await openRound(ports, plane.resync, w1, { rounds: 0 });
      expect(next.next).toBe({ replaced: 'done', revoked: 'wait', lost: 'reassign' }[goes]);
    }
  });
});

describe('an answer', () => {
  test('that a job succeeded, or failed, is recorded with the time that the worker reported, and read back so (R6, R7, R14)', async () => {
    const { plane, runs, begin, says, start, w1, readBack } = await setup();
    await runs('good', 'bad');
    const upAt = plane.now();
    await plane.advance(5_000);
    w1.over('good', 'finished', { at: upAt + 1_111, result: { lines: 3 } });
    w1.over('bad', 'finished', { at: upAt + 2_222, error: FAILURE });
    await plane.advance(10_000);
    await w1.beat();
    await begin();
    await says(...w1.answer());

    const succeeded = { status: 'succeeded', finishedAt: upAt + 1_111, result: { lines: 3 } };
    const failed = { status: 'failed', finishedAt: upAt + 2_222, error: { code: 'boom', message: 'it broke' } };
    const check = async () => {
      const [good, bad] = [await readBack('good'), await readBack('bad')];
      expect(good.job).toMatchObject({ status: 'ended', settled: { end: succeeded }, recordedAt: upAt + 15_000 });
      expect(bad.job).toMatchObject({ status: 'ended', settled: { end: failed } });
      expect([good.dispatch, bad.dispatch]).toMatchObject([{ end: succeeded }, { end: failed }]);
    };
    await check();
    // Every function is gone by now; others meet the ends again, and the requests that began it all.
    await says({ ...w1.ended('good'), at: 9 } as Report);
    await start('good');
    await start('bad');
    await check();
  });

  test('that a job is unknown there makes it wait, with nothing left of its owner, and another gets it once (R8, R14)', async () => {
    const { plane, runs, begin, says, join, jobs, w1, job, readBack, starts } = await setup();
    await runs('k');
    const was = job() as OwnedJob;
    w1.forget('k');
    await begin();
    const answer = w1.answer();
    // Nobody has room, so it stays as the round leaves it.
    await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { generation: 0 });
    await says(...answer);
    const waiting = (await readBack()).job;
    expect(waiting).toMatchObject({ status: 'pending', because: 'unrecognized', fence: was.fence, startedAt: expect.any(Number) });
    expect(waiting).not.toHaveProperty('owner');
    expect((await jobs.ownedBy('w1')).items).toEqual([]);

    await join('w2', 's2');
    await plane.advance(MINUTE_MS);
    await plane.sweep();
    expect(job()).toMatchObject({ status: 'assigned', owner: { worker: 'w2' } });
    expect((job() as OwnedJob).fence).toBeGreaterThan(was.fence);
    const sent = starts();
    await says(...answer);
    expect([starts(), job()?.status]).toEqual([sent, 'assigned']);
    expect(sent).toEqual(['s1', 's2']);
  });

  test('that a job is unknown there changes nothing where it ended meanwhile, or waits already (R8)', async () => {
    const { runs, begin, says, w1, job, plane } = await setup();
    await runs('ended', 'waits');
    await begin();
    const [ended, waits] = [{ ...w1.started('ended') }, { ...w1.started('waits') }];
    w1.forget('ended');
    w1.forget('waits');
    const answer = w1.answer();
    await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { generation: 0 });
    await says({ ...ended, type: 'finished', at: 77 } as Report, { ...waits, type: 'released' } as Report);
    const before = [job('ended'), job('waits')];
    await says(...answer);
    expect(job('ended')).toEqual(before[0]);
    expect(job('waits')).toMatchObject({ status: 'pending', because: 'released' });
  });

  test('that a job runs which nobody was told of and nobody owns gives it back to that session, with its fence (R9, R14)', async () => {
    const { plane, runs, begin, says, jobs, w1, job, readBack } = await setup();
    await runs('k');
    const was = job() as OwnedJob;
    await plane.putJob({
      ...HEAD,
      key: 'k',
      dispatchId: 'd-k',
      fingerprint: was.fingerprint,
      fence: was.fence,
      status: 'pending',
      because: 'owner-lost',
      dueAt: plane.now() + MINUTE_MS,
    });
    await begin();
    await says(...w1.answer());
    expect((await readBack()).job).toMatchObject({ status: 'running', owner: OWNER, fence: was.fence });
    expect((await readBack()).job).not.toHaveProperty('because');
    expect((await jobs.ownedBy('w1')).items).toEqual(['k']);
    await plane.advance(2 * MINUTE_MS);
    await plane.sweep();
    expect(job()).toMatchObject({ status: 'running', owner: OWNER });
  });

  test('that a job runs neither takes it from another owner nor revives one that ended (R10)', async () => {
    const { plane, runs, begin, says, join, w1, job } = await setup();
    await runs('theirs', 'over');
    const w2 = await join('w2', 's2');
    const [theirs, over] = [job('theirs') as OwnedJob, job('over') as OwnedJob];
    await plane.putJob({ ...theirs, status: 'running', startedAt: 2, owner: { worker: 'w2', session: 's2' }, fence: theirs.fence + 1 });
    await says({ ...w1.started('over'), type: 'finished', at: 77 } as Report);
    const before = [job('theirs'), job('over')];
    await begin();
    await says(...w1.answer());
    expect([job('theirs'), job('over')]).toEqual(before);
    const stops = plane.sent.flatMap(({ op, session, ...told }) =>
      op === 'stop' && 'key' in told ? [[session, told.key, told.fence]] : [],
    );
    expect(stops.sort()).toEqual([
      ['s1', 'over', over.fence],
      ['s1', 'theirs', theirs.fence],
    ]);
    expect(w2.inbox).toEqual([]);
  });

  test('from before a start arrived does not make that job lost: its start is sent again (F33)', async () => {
    const { start, begin, says, join, w1, job, starts } = await setup();
    await start('k');
    await join('w2', 's2');
    await begin();
    await says(...w1.answer());
    expect(job()).toMatchObject({ status: 'assigned', owner: OWNER });
    expect(starts()).toEqual(['s1', 's1']);
    w1.up('k');
    await says(w1.started('k'), ...w1.answer());
    expect(job()).toMatchObject({ status: 'running', owner: OWNER });
  });

  test('of which a page is missing makes nothing lost that is not on the others; the next round decides (F34)', async () => {
    const { plane, holds, begin, says, live, join, w1, job, jobs, round } = await setup();
    await holds(250);
    await join('w2', 's2');
    await begin();
    for (const key of ['k-0', 'k-1', 'k-99']) w1.forget(key);
    const [first, second, third] = w1.answer() as readonly [ResyncReport, ResyncReport, ResyncReport];
    const on = ({ entries }: ResyncReport) => entries.map(({ key }) => key);
    await says(first, third, third);
    const lost = ['k-0', 'k-1', 'k-99'].filter((key) => ![...on(second)].includes(key));
    for (const key of on(second)) expect(job(key)).toMatchObject({ status: 'running', owner: OWNER });
    for (const key of lost) expect(job(key)?.status).toBe('assigned');
    const token = (await round())?.token;

    // The worker has said all; somebody lost a page. It is never evicted for that.
    await w1.beat({ answered: true });
    await live(3 * LEASE_MS, w1);
    expect(plane.counts.get('round-behind')).toBe(1);
    expect((await round())?.token).not.toBe(token);
    await says(...w1.answer());
    expect(await round()).toMatchObject({ state: 'resolved' });
    for (const key of ['k-0', 'k-1', 'k-99']) expect(job(key)?.status).toBe('assigned');
    expect(jobs.all().filter(({ status }) => status === 'running')).toHaveLength(247);
  });

  test('that a stop is still to be answered brings the stop again, at each round, until it is (F41)', async () => {
    const { plane, runs, begin, says, w1, job, services } = await setup();
    await runs('k');
    plane.request({ op: 'stop', key: 'k' });
    await plane.rest();
    const stops = () => plane.sent.filter(({ op }) => op === 'stop').length;
    for (let rounds = 1; rounds <= 3; rounds++) {
      await begin();
      await says(...w1.answer());
      expect([stops(), job()?.status]).toEqual([1 + rounds, 'stopping']);
    }
    w1.forget('k');
    await begin();
    await says(...w1.answer());
    expect(stops()).toBe(5);
    w1.over('k', 'stopped', { at: 88 });
    await begin();
    await says(...w1.answer());
    expect(services.dispatches.peek('d-k')).toMatchObject({ status: 'ended', end: { status: 'stopped', finishedAt: 88 } });
  });
});

describe('a page that counts no more is discarded whole', () => {
  type Setup = Awaited<ReturnType<typeof setup>>;
  const ways: Readonly<Record<string, (world: Setup, page: ResyncReport) => Promise<ResyncReport>>> = {
    'its round was superseded (R2, R11, F32)': async ({ live, w1 }, page) => {
      // It beats and does not answer: another round is opened in place of the first.
      await live(LEASE_MS + 5_000, w1);
      return page;
    },
    'its round resolved (R12, F39)': async ({ says, rounds, round }, page) => {
      await says({ ...page, entries: [] });
      expect(await rounds.get(page.round)).toEqual(await round());
      return page;
    },
    'its round was closed, and no other opened (R11)': async ({ rounds }, page) => {
      await rounds.close(page.round, 'closed');
      return page;
    },
    'nobody knows its round (F32)': async (_, page) => ({ ...page, round: 'unheard of' }),
    'it is of another worker': async ({ join }, page) => {
      await join('w3', 's3');
      return { ...page, worker: 'w3', session: 's3' };
    },
    'it is of an older session': async (_, page) => ({ ...page, session: 's0' }),
    'its worker registered anew': async ({ join }, page) => {
      await join('w1', 's1 again');
      return page;
    },
    'another round was armed since, and nobody came to close it (R2, R11)': async ({ workers }, page) => {
      await workers.change('w1', { session: 's1', states: ['active'] }, { round: 'a newer one' });
      return page;
    },
    'its worker registered anew, and its row points at the round all the same': async ({ join, workers }, page) => {
      await join('w1', 's1 again');
      await workers.change('w1', { session: 's1 again', states: ['active'] }, { round: page.round });
      return page;
    },
    'its worker was evicted': async ({ workers }, page) => {
      await workers.change('w1', { session: 's1', states: ['active'] }, { state: 'revoked' });
      return page;
    },
    'its worker is lost': async ({ workers }, page) => {
      await workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' });
      return page;
    },
  };

  test.each(Object.entries(ways))('%s', async (_, happens) => {
    const world = await setup();
    const { plane, runs, begin, says, join, w1, jobs, deadLetters } = world;
    await runs('unknown', 'over');
    await join('w2', 's2');
    await begin();
    w1.forget('unknown');
    w1.over('over', 'finished', { at: 77 });
    const [page] = w1.answer() as readonly [ResyncReport];
    const late = await happens(world, page);
    const [before, sent, discarded] = [jobs.all(), plane.sent.length, plane.counts.get('page-discarded') ?? 0];
    await says(late, late);
    expect(jobs.all()).toEqual(before);
    expect(plane.sent).toHaveLength(sent);
    expect(plane.counts.get('page-discarded')).toBe(discarded + 2);
    expect(deadLetters()).toBe(0);
  });

  test('and the round that came after it goes by its own pages alone (R11, F32)', async () => {
    const { holds, begin, says, live, w1, round, job } = await setup();
    await holds(150);
    await begin();
    const old = w1.answer();
    await live(LEASE_MS + 5_000, w1);
    const fresh = w1.answer() as readonly [ResyncReport, ResyncReport];
    await says(...old, fresh[0], ...old);
    expect(await round()).toMatchObject({ token: fresh[0].round, state: 'armed', applied: new Set([1]), counts: { 'entry agrees': 100 } });
    await says(fresh[1]);
    expect(await round()).toMatchObject({ state: 'resolved', counts: { 'entry agrees': 150 } });
    expect(job('k-0')?.status).toBe('running');
  });
});

test('what is said of another fence than was asked about answers nothing: the job goes on (R8)', async () => {
  const { runs, begin, says, w1, job } = await setup();
  await runs('k');
  await begin();
  w1.forget('k');
  const [page] = w1.answer() as readonly [ResyncReport];
  await says({ ...page, entries: page.entries.map((entry) => ({ ...entry, fence: entry.fence - 1 })) });
  expect(job()).toMatchObject({ status: 'running' });
});

test('a page that comes late counts as long as nobody has closed its round: what is true is not made to be said again', async () => {
  // The function that would end the round at its time is not there.
  const { plane, runs, begin, says, w1, round, job } = await setup({ network: lost(({ method }) => method === 'close') });
  await runs('k');
  await begin();
  w1.over('k', 'finished', { at: 77 });
  const answer = w1.answer();
  await w1.beat();
  await plane.advance(LEASE_MS + 1_000);
  expect((await round())?.deadline).toBeLessThan(plane.now());
  await says(...answer);
  expect(job()).toMatchObject({ status: 'ended', settled: { end: { finishedAt: 77 } } });
});

describe('an entry that fails each time', () => {
  test('is skipped at its fifth try and counted, and keeps none of its neighbours from being applied at the first', async () => {
    let fails = true;
    const { plane, runs, begin, says, live, w1, round, job, deadLetters } = await setup({
      network: lost(({ method, args, by }) => fails && method === 'get' && args[0] === 'bad' && by.name.startsWith('report')),
    });
    await plane.addWorker('w2', 's2');
    fails = false;
    await runs('a', 'bad', 'z');
    fails = true;
    for (const key of ['a', 'bad', 'z']) w1.forget(key);
    await begin();
    plane.report(...w1.answer());
    await plane.advance(500);
    expect([job('a')?.status, job('bad')?.status, job('z')?.status]).toEqual(['assigned', 'running', 'assigned']);
    expect(await round()).toMatchObject({ state: 'armed', applied: new Set() });
    await live(25_000, w1);
    expect(await round()).toMatchObject({ state: 'resolved', skipped: 1 });
    expect(job('bad')).toMatchObject({ status: 'running', owner: OWNER });
    expect(deadLetters()).toBe(0);

    fails = false;
    await begin();
    await says(...w1.answer());
    expect(await round()).toMatchObject({ state: 'resolved', skipped: 0 });
    expect(job('bad')?.status).toBe('assigned');
  });

  test('and that no try can mend is skipped at once: its page is not dead-lettered, and its round resolves', async () => {
    const { jobs, runs, begin, says, w1, round, job, deadLetters } = await setup();
    await runs('a', 'bad', 'z');
    for (const key of ['a', 'bad', 'z']) w1.forget(key);
    await begin();
    const get = jobs.get.bind(jobs);
    jobs.get = async (key) => {
      if (key === 'bad') throw new PoolError('corrupt-record', 'job "bad": attribute "status": Invalid input', { retryable: false });
      return get(key);
    };
    await says(...w1.answer());
    expect(await round()).toMatchObject({ state: 'resolved', skipped: 1 });
    expect([job('a')?.status, job('z')?.status]).toEqual(['assigned', 'assigned']);
    expect(deadLetters()).toBe(0);
  });
});

describe('a worker that is silent', () => {
  test('for its whole lease is lost: each of its jobs goes elsewhere once, under a higher fence; those that were to stop have ended (G6)', async () => {
    const { plane, runs, begin, join, w1, row, job, starts, dispatches, deadLetters } = await setup();
    await runs('a', 'b', 'stops');
    plane.request({ op: 'stop', key: 'stops' });
    await plane.rest();
    const fences = [job('a')?.fence, job('b')?.fence] as readonly number[];
    await join('w2', 's2');
    await begin();
    await plane.advance(LEASE_MS - 1);
    expect([row()?.state, starts('a')]).toEqual(['active', ['s1']]);
    await plane.advance(2);
    await plane.rest();
    expect(row()?.state).toBe('lost');
    for (const [index, key] of ['a', 'b'].entries()) {
      expect(job(key)).toMatchObject({ status: 'assigned', owner: { worker: 'w2', session: 's2' }, startedAt: expect.any(Number) });
      expect(job(key)?.fence).toBeGreaterThan(fences[index] as number);
      expect(starts(key)).toEqual(['s1', 's2']);
    }
    expect(dispatches.peek('d-stops')).toMatchObject({ status: 'ended', end: { status: 'stopped' } });
    expect(w1.inbox.filter(({ op }) => op === 'resync')).toHaveLength(1);
    await plane.advance(MINUTE_MS);
    expect(plane.machine.running).toBe(0);
    expect(plane.counts.get('worker-lost')).toBe(1);
    expect(deadLetters()).toBe(0);
  });

  test('is not lost before its own lease has passed, where that is longer than a round (a deploy may have shortened the lease)', async () => {
    const { plane, begin, w1, row } = await setup({ leaseMs: 75_000 });
    await begin();
    await plane.advance(2 * LEASE_MS + 10_000);
    expect(row()?.state).toBe('active');
    await plane.advance(LEASE_MS - 10_000 + 1);
    expect(row()?.state).toBe('lost');
    expect(w1.inbox).toHaveLength(3);
  });

  test('that beats again in that time begins anew with it: only rounds in a row without a beat count', async () => {
    const { plane, begin, w1, row } = await setup({ leaseMs: 75_000 });
    await begin();
    await plane.advance(2 * LEASE_MS + 10_000);
    await w1.beat();
    await plane.advance(3 * LEASE_MS);
    expect(row()?.state).toBe('active');
    await plane.advance(LEASE_MS);
    expect(row()?.state).toBe('lost');
  });

  test('is not lost where a heartbeat comes between the look at its row and the write: it is judged again (G2)', async () => {
    const { plane, ports, workers, w1, row } = await setup();
    const token = await armed(plane);
    const change: typeof workers.change = async (...args) => {
      await w1.beat();
      return workers.change(...args);
    };
    const step = await expireRound({ ...ports, workers: { ...boundTo(workers), change } }, plane.resync, token, { rounds: 0 });
    expect(step).toEqual({ next: 'open', silence: { rounds: 1 } });
    expect(row()).toMatchObject({ state: 'active', beat: 1 });
  });

  test('is not lost where it registers anew between the look at its row and the write: the round is none of its new session (R3)', async () => {
    const { plane, ports, workers, join, row, rounds } = await setup();
    const token = await armed(plane);
    const change: typeof workers.change = async (...args) => {
      await join('w1', 's1 again');
      return workers.change(...args);
    };
    const step = await expireRound({ ...ports, workers: { ...boundTo(workers), change } }, plane.resync, token, { rounds: 0 });
    expect(step).toEqual({ next: 'done' });
    expect(row()).toMatchObject({ session: 's1 again', state: 'active' });
    expect((await rounds.get(token))?.state).toBe('closed');
  });

  test.each<[string, Fate]>([
    ['fails each time', { delayMs: 0, fault: 'failed' }],
    ['takes longer than a lease', { delayMs: 2 * LEASE_MS }],
  ])('is lost though asking it %s: it did not beat, and that is all that counts (G6)', async (_, fate) => {
    const { plane, runs, begin, live, join, row, job, starts } = await setup({
      network: { fate: ({ method }) => (method === 'arm' ? fate : { delayMs: 0 }) },
    });
    await runs('k');
    const w2 = await join('w2', 's2');
    await begin();
    await live(LEASE_MS + 15_000, w2);
    await plane.rest();
    expect([row()?.state, row()?.round]).toEqual(['lost', undefined]);
    expect([job(), starts()]).toMatchObject([{ owner: { worker: 'w2' } }, ['s1', 's2']]);
  });

  test('is lost once, and its jobs are seen to, where its round expires twice', async () => {
    const { plane, ports, row } = await setup();
    const token = await armed(plane);
    const steps = [];
    for (let times = 0; times < 2; times++) steps.push(await expireRound(ports, plane.resync, token, { rounds: 0 }));
    expect(steps.map(({ next }) => next)).toEqual(['reassign', 'reassign']);
    expect(row()?.state).toBe('lost');
  });

  test('that comes back in the round’s time keeps its jobs: nobody is sent anything to start (F29, P16)', async () => {
    const { plane, runs, begin, says, join, live, w1, job, starts, row } = await setup();
    await runs('k');
    await join('w2', 's2');
    await begin();
    await plane.advance(LEASE_MS - 1_000);
    await w1.beat({ answered: true });
    await says(...w1.answer());
    await live(2 * LEASE_MS, w1);
    expect(job()).toMatchObject({ status: 'running', owner: OWNER });
    expect([starts(), row()?.state, plane.machine.running]).toEqual([['s1'], 'active', 0]);
  });

  test('and comes back after its job went elsewhere and failed there: it is told to stop, and one runs in the end (F27, F36)', async () => {
    const { plane, runs, begin, says, join, w1, job, starts } = await setup();
    await runs('k');
    const fence = job()?.fence as number;
    const w2 = await join('w2', 's2');
    await begin();
    await plane.advance(LEASE_MS + 1_000);
    w2.over('k', 'start-failed', { error: { ...FAILURE, retryable: true } });
    await says(w2.ended('k'));
    // What it says by now is about a fence that was passed, and by a session that is none any more.
    await says(w1.started('k'));
    expect(w1.inbox.at(-1)).toMatchObject({ op: 'stop', key: 'k', fence });
    await plane.advance(MINUTE_MS);
    await plane.sweep();
    w2.up('k');
    await says(w2.started('k'), { ...w1.started('k'), type: 'finished', at: 77 } as Report);
    expect(job()).toMatchObject({ status: 'running', owner: { worker: 'w2', session: 's2' } });
    expect(starts()).toEqual(['s1', 's2', 's2']);
  });
});

describe('an end that is said', () => {
  const ways: Readonly<Record<string, (world: Awaited<ReturnType<typeof setup>>) => Promise<unknown>>> = {
    'is taken for lost': ({ workers }) => workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' }),
    'is evicted': ({ workers }) => workers.change('w1', { session: 's1', states: ['active'] }, { state: 'revoked' }),
    'has left': ({ workers }) => workers.change('w1', { session: 's1', states: ['active'] }, { state: 'left' }),
    'registered anew': ({ join }) => join('w1', 's1 again'),
    'has its row deleted': async ({ workers }) => workers.delete('w1'),
  };

  test.each(Object.entries(ways))(
    'while its worker %s is settled, once and as it was said, and nothing of it starts again (P15)',
    async (_, goes) => {
      const world = await setup();
      const { plane, runs, says, w1, job, dispatches, starts } = world;
      await runs('k');
      w1.over('k', 'finished', { at: 77 });
      await goes(world);
      // Both at once: whoever looks at the owner's row finds it lost.
      plane.request({ op: 'assign', key: 'k' });
      await says(w1.ended('k'));
      await plane.sweep();
      expect(job()).toMatchObject({ status: 'ended', settled: { end: { status: 'succeeded', finishedAt: 77 } } });
      expect(dispatches.peek('d-k')).toMatchObject({ status: 'ended', end: { status: 'succeeded', finishedAt: 77 } });
      expect(starts()).toEqual(['s1']);
    },
  );
});

test('a worker that beats is never evicted for a question that it was not asked; it is asked as soon as that works (G2)', async () => {
  let fails = true;
  const { runs, begin, live, w1, row, round, says } = await setup({ network: lost(({ method }) => fails && method === 'arm') });
  await runs('k');
  await begin();
  await live(6 * LEASE_MS, w1);
  expect([row()?.state, w1.question()]).toEqual(['active', []]);
  fails = false;
  await live(3 * LEASE_MS, w1);
  await w1.beat({ answered: true });
  await says(...w1.answer());
  expect([row()?.state, (await round())?.state]).toEqual(['active', 'resolved']);
});

describe('a worker that beats and does not answer', () => {
  test('is asked three times, then evicted, and lost only after its lease has passed once more; then its jobs go elsewhere', async () => {
    const { plane, runs, begin, join, live, w1, row, round, job } = await setup();
    await runs('k');
    await join('w2', 's2');
    await begin();
    await live(3 * LEASE_MS, w1);
    expect(row()?.state).toBe('revoked');
    expect(w1.inbox.filter(({ op }) => op === 'resync')).toHaveLength(3);
    expect((await round())?.state).toBe('closed');
    expect(await w1.beat()).toBe(false);
    await plane.advance(LEASE_MS - 1_000);
    expect([row()?.state, job()?.status]).toEqual(['revoked', 'running']);
    await plane.advance(2_000);
    await plane.rest();
    expect(row()?.state).toBe('lost');
    expect(job()).toMatchObject({ status: 'assigned', owner: { worker: 'w2' } });
  });

  test('is never evicted where it has answered and its pages are on their way: they get the time once more, and count', async () => {
    const { plane, runs, begin, says, live, w1, row, round } = await setup();
    await runs('k');
    await begin();
    await w1.beat({ answered: true });
    await plane.advance(LEASE_MS + 1_000);
    expect(plane.counts.get('round-behind')).toBe(1);
    expect(await round()).toMatchObject({ state: 'armed', deadline: plane.now() + LEASE_MS - 1_000 });
    await says(...w1.answer());
    await live(3 * LEASE_MS, w1);
    expect([row()?.state, (await round())?.state, plane.machine.running]).toEqual(['active', 'resolved', 0]);
  });

  test('is not turned lost after its eviction where it registered anew in the time of waiting', async () => {
    const { plane, begin, join, live, w1, row } = await setup();
    await begin();
    await live(3 * LEASE_MS, w1);
    expect(row()?.state).toBe('revoked');
    const again = await join('w1', 's1 again');
    await live(2 * LEASE_MS, again);
    expect(row()).toMatchObject({ session: 's1 again', state: 'active' });
    expect(plane.machine.running).toBe(0);
  });

  test('waits for the longer of its own lease and the pool’s (G2)', async () => {
    const { plane, begin, live, w1, row } = await setup({ leaseMs: 80_000 });
    await begin();
    await live(3 * LEASE_MS, w1);
    expect(row()?.state).toBe('revoked');
    await plane.advance(79_000);
    expect(row()?.state).toBe('revoked');
    await plane.advance(2_000);
    expect(row()?.state).toBe('lost');
  });
});

describe('a timer', () => {
  test('of a round that is not the worker’s current one any more has no effect (R3)', async () => {
    for (const row of [{ round: 'another' }, { state: 'draining', round: 'another' }] as const) {
      const { plane, ports, workers, rounds, jobs, runs } = await setup();
      await runs('k');
      const token = await armed(plane);
      await rounds.close(token, 'closed');
      await workers.change('w1', { session: 's1', states: ['active'] }, row);
      const before = [workers.all(), jobs.all()];
      expect(await expireRound(ports, plane.resync, token, { rounds: 2 })).toEqual({ next: 'done' });
      expect([workers.all(), jobs.all()]).toEqual(before);
    }
  });

  test('of a round that resolved, or of a worker that is gone, has none either', async () => {
    const { plane, ports, workers, rounds } = await setup();
    const token = await armed(plane);
    await rounds.close(token, 'resolved');
    const before = workers.all();
    expect(await expireRound(ports, plane.resync, token, { rounds: 2 })).toEqual({ next: 'done' });
    expect(workers.all()).toEqual(before);
    workers.delete('w1');
    expect(await expireRound(ports, plane.resync, token, { rounds: 2 })).toEqual({ next: 'done' });
    expect(await expireRound(ports, plane.resync, 'unheard of', { rounds: 2 })).toEqual({ next: 'done' });
  });

  test('that never fires is made up for: a sweep opens another round over one that is overdue by half (F40)', async () => {
    let fires = false;
    const { plane, runs, begin, join, row, round, job } = await setup({
      executions: () => ({ lateMs: fires ? 0 : 24 * 60 * MINUTE_MS, dies: false }),
    });
    await runs('k');
    const w2 = await join('w2', 's2');
    const sweepFor = async (ms: number) => {
      const sweep = plane.newSweep();
      for (let passed = 0; passed < ms; passed += 5_000) {
        await w2.beat();
        await sweep.pass();
        await plane.advance(5_000);
      }
    };
    await begin();
    const token = (await round())?.token;
    await sweepFor(1.5 * LEASE_MS);
    expect((await round())?.token).toBe(token);
    fires = true;
    await sweepFor(LEASE_MS);
    expect((await round())?.token).not.toBe(token);
    await sweepFor(LEASE_MS);
    expect(row()?.state).toBe('lost');
    expect(job()).toMatchObject({ owner: { worker: 'w2' } });
  });
});

describe('what a lost worker owned', () => {
  test('is walked page by page until two walks in a row found nothing, however much it is, and nothing but ids is carried on', async () => {
    const { plane, ports, holds, workers, join, jobs, w1 } = await setup();
    await holds(1_050);
    await join('w2', 's2');
    await workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' });
    let step = await openRound(ports, plane.resync, w1, { rounds: 0 });
    const steps: ReassignStep[] = [];
    while (step.next === 'reassign') {
      steps.push(step);
      expect(JSON.stringify(step).length).toBeLessThan(300);
      step = await reassignStep(ports, w1, step);
      if (step.next === 'reassign' && step.afterSeconds > 0) await plane.rest();
    }
    expect(step).toEqual({ next: 'done' });
    // Eleven pages, of which the first was seen to at once, and their walk found something; then two that do not.
    expect(steps).toHaveLength(12);
    expect(steps.filter(({ afterSeconds }) => afterSeconds > 0)).toHaveLength(2);
    expect(jobs.all().filter((job) => job.status === 'assigned' && job.owner.worker === 'w2')).toHaveLength(1_050);
  });

  test('is walked no more where it registered anew: its new session is asked by a round of its own', async () => {
    const { plane, ports, holds, join, w1, services } = await setup();
    await holds(3);
    await join('w1', 's1 again');
    const step = { next: 'reassign', afterSeconds: 0, hasFound: false, walksLeft: 10, emptyWalks: 0 } as const;
    expect(await reassignStep(ports, w1, step)).toEqual({ next: 'done' });
    expect([services.requests.size, plane.sent]).toEqual([0, []]);
  });

  test('does not keep a machine walking for ever where it cannot be placed', async () => {
    const { plane, ports, holds, workers, w1 } = await setup();
    await holds(1);
    await workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' });
    let step = await loseRevoked(ports, w1);
    let walks = 0;
    for (; step.next === 'reassign'; walks++) step = await reassignStep(ports, w1, step);
    expect(walks).toBe(9);
    expect(plane.services.requests.size).toBe(10);
  });
});

test('a worker restarted under its id, with nothing running, has what it owned started once more each, by a round of its new session (F31)', async () => {
  const { plane, holds, begin, says, join, live, w1, jobs, row, round } = await setup();
  await holds(130);
  const w2 = await join('w2', 's2');
  const again = await join('w1', 's1 again');
  await says({ type: 'registered', worker: 'w1', session: 's1 again', at: plane.now() });
  expect(again.question().flatMap((page) => page.jobs)).toHaveLength(130);
  await again.beat({ answered: true });
  await says(...again.answer());
  expect(await round()).toMatchObject({ session: 's1 again', state: 'resolved' });
  const owners = jobs.all().map((job) => (job.status === 'assigned' ? job.owner.session : job.status));
  expect(new Set(owners)).toEqual(new Set(['s1 again', 's2']));
  for (const worker of [again, w2]) {
    const starts = worker.inbox.filter(({ op }) => op === 'start');
    expect(starts).toHaveLength(owners.filter((session) => session === worker.session).length);
  }
  const sent = plane.sent.length;
  await begin(w1);
  await live(MINUTE_MS, again, w2);
  expect([plane.sent.length, row()?.session, plane.machine.running]).toEqual([sent, 's1 again', 0]);
});

/** A round of `w1` whose question was asked, and that nothing times. */
async function armed(plane: ControlPlane): Promise<string> {
  const ports = plane.services.poolPorts();
  const step = await openRound(ports, plane.resync, OWNER, { rounds: 0 });
  if (step.next !== 'arm') throw new Error(`next is ${step.next}`);
  await armRound(ports, plane.resync, step.token);
  return step.token;
}

/** The port with its methods as fields, so that one can be put in place of another. */
function boundTo(workers: WorkerStore): WorkerStore {
  return {
    get: (id) => workers.get(id),
    list: (maxAgeMs) => workers.list(maxAgeMs),
    change: (...args) => workers.change(...args),
    remove: (...args) => workers.remove(...args),
    poolState: () => workers.poolState(),
  };
}

/** A network on which some calls fail. */
function lost(isLost: (call: Call) => boolean): Network {
  return { fate: (call) => ({ delayMs: 0, ...(isLost(call) ? { fault: 'failed' } : {}) }) };
}
