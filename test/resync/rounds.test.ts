import { describe, expect, test } from 'vitest';
import { decodeDispatch, encodeDispatch } from '../../lib/aws/dispatch-item.ts';
import { toItem } from '../../lib/aws/item.ts';
import { decodeJob, encodeJob } from '../../lib/aws/job-item.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Job, OwnedJob } from '../../lib/pool/job.ts';
import { armRound, openRound } from '../../lib/resync/run-round.ts';
import type { Call, Network } from '../../lib/testing/calls.ts';
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
    const stops = plane.sent.filter(({ op }) => op === 'stop');
    expect(stops).toMatchObject([
      { session: 's1', key: 'theirs', fence: theirs.fence },
      { session: 's1', key: 'over', fence: over.fence },
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

/** A network on which some calls fail. */
function lost(isLost: (call: Call) => boolean): Network {
  return { fate: (call) => ({ delayMs: 0, ...(isLost(call) ? { fault: 'failed' } : {}) }) };
}
