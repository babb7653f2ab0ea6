import { PoolError } from '../pool/errors.ts';
import { isOwned } from '../pool/job.ts';
import { pagesOf } from '../pool/pages.ts';
import type { Clock, WorkerStore } from '../pool/ports.ts';
import { reassignPage } from '../pool/reassign.ts';
import { isPresent, PRESENT, type WorkerRow } from '../pool/worker.ts';
import { atOnce, chunks } from './at-once.ts';
import { decideExpiry, type Expiry, type Silence } from './decide-expiry.ts';
import type { ResyncPorts, RoundMachine, RoundResult } from './ports.ts';
import { type Asked, type AskedPage, isInCourse, type Round } from './round.ts';

/**
 * The steps of a resync round that the state machine calls: open → arm (and wait) → expire → … → reassign.
 *
 * Authoritative are the round's record and the worker's row, never the machine: a step may run twice, late, or not at all. Each is
 * idempotent by the round's token, and the row's pointer to the token decides which round counts (R2, R3).
 *
 *     open     dies before its write: nothing. After it: a round that no row points to, closed by nobody and meaning nothing.
 *              An execution that only begins opens none over a round in course, but asks its pages again: whoever asks in a loop, by hand
 *              or by sweep, would else supersede each round before its time, and a worker that does not answer would never be given up on.
 *     arm      writes the question, arms the record, points the row at it, wakes the older round, asks. Dying in between: run
 *              again it does the same once more, with the question as it was first; not run again, its round expires like any
 *              that is not answered.
 *     expire   turns the row lost conditionally on session and beat, then closes the round and begins to reassign. Dying in between: run
 *              again it finds the row lost, and goes on from there. It judges a round that was never armed as well.
 *     reassign enqueues `assign`; run again it enqueues it again.
 *
 * What wakes the machine with `gone` sends it back to open, which looks at the row anew. A machine that dies is replaced by the sweep, which starts another for any worker whose beat stands still, or that is revoked.
 */
export interface ResyncSettings {
  /** How long a round waits for its answer, ms: one lease. */
  readonly roundTimeoutMs: number;
  /** Rounds that a worker may leave unanswered while it beats; then it is revoked. Default 3. */
  readonly maxSilentRounds: number;
  /** The pool's lease, ms. A row may have a longer one of its own. */
  readonly leaseMs: number;
}

export interface Subject {
  readonly worker: string;
  readonly session: string;
}

/** Where the machine goes on, and what it carries there: ids and counts only, never the jobs. */
export type Step =
  | { readonly next: 'arm'; readonly token: string; readonly silence: Silence }
  | { readonly next: 'open'; readonly silence: Silence }
  /** The same round gets its time once more. */
  | { readonly next: 'behind'; readonly token: string; readonly silence: Silence }
  /** A full lease is waited for, then the row is turned lost. */
  | { readonly next: 'wait'; readonly waitSeconds: number }
  | ReassignStep
  | { readonly next: 'done' };

/** A walk over the keys that the worker still owns, a page at a time, after a while; until two walks in a row found none. */
export interface ReassignStep {
  readonly next: 'reassign';
  readonly afterSeconds: number;
  readonly cursor?: string;
  readonly hasFound: boolean;
  readonly walksLeft: number;
  readonly emptyWalks: number;
}

const DONE: Step = { next: 'done' };
/** What is left then, the sweep sees to. */
const REASSIGN: ReassignStep = { next: 'reassign', afterSeconds: 0, hasFound: false, walksLeft: 10, emptyWalks: 0 };
/** So that the index, and the functions that assign, can follow. */
const BETWEEN_WALKS_SECONDS = 5;

/** Jobs on a page of the question at most; an answer page is of about the same size. */
const PAGE_JOBS = 100;
/** UTF-16 units of keys on a page at most, so that it fits an item and a message however its keys are escaped. */
const PAGE_KEYS = 50_000;
const TRIES = 10;
/** Records read in one call. */
const READ_JOBS = 100;

/** A new token, and the beat as it is now: looked at before any timer starts. */
export async function openRound(
  ports: ResyncPorts,
  settings: ResyncSettings,
  { worker, session }: Subject,
  silence: Silence,
): Promise<Step> {
  const row = await ports.workers.get(worker);
  if (!row || row.session !== session) return DONE;
  if (!isPresent(row)) return afterwards(ports, settings, row);
  if (isFirst(silence) && (await isJoined(ports, settings, row))) return DONE;
  const token = ports.ids.next();
  const openedAt = ports.clock.now();
  await ports.rounds.open({
    token,
    worker,
    session,
    state: 'open',
    beat: row.beat,
    openedAt,
    deadline: openedAt + settings.roundTimeoutMs,
    asked: 0,
    applied: new Set(),
    skipped: 0,
    counts: {},
  });
  return { next: 'arm', token, silence };
}

/** Nothing was found yet, so this opens no round that follows another. */
function isFirst({ rounds, unchanged, behind }: Silence): boolean {
  return rounds === 0 && unchanged === undefined && behind === undefined;
}

/** A round is in course already, and its worker was asked again. */
async function isJoined(ports: ResyncPorts, { roundTimeoutMs }: ResyncSettings, { round: token }: WorkerRow): Promise<boolean> {
  const { rounds, clock } = ports;
  const round = token === undefined ? undefined : await rounds.get(token);
  if (!round || !isInCourse(round, clock.now(), roundTimeoutMs)) return false;
  if (round.state === 'armed') await askAgain(ports, round);
  return true;
}

/** The pages as they were asked first. */
async function askAgain(ports: ResyncPorts, round: Round): Promise<void> {
  const numbers = Array.from({ length: round.asked }, (_, index) => index + 1);
  await atOnce(numbers, async (number) => {
    const page = await ports.rounds.page(round.token, number);
    if (page) await ask(ports, round, page, round.asked);
  });
}

/** Asks the worker about every job that it owns; with none it still asks once, since it may run what was forgotten (R1). */
export async function armRound(ports: ResyncPorts, settings: ResyncSettings, token: string, taskToken?: string): Promise<void> {
  const { workers, rounds, clock } = ports;
  const round = await rounds.get(token);
  const row = round && (await workers.get(round.worker));
  if (!round || !row || row.session !== round.session || !isPresent(row)) return wake(ports, taskToken, 'gone');

  // An answer may be under way to what was asked before, and is judged by what was known then: a job that runs by now was not yet up.
  const pages = round.asked > 0 ? undefined : paged(token, await ownedJobs(ports, round.worker));
  if (pages) await rounds.ask(pages);
  const asked = pages?.length ?? round.asked;
  const deadline = clock.now() + settings.roundTimeoutMs;
  const armed = await rounds.arm(token, { asked, deadline, ...(taskToken === undefined ? {} : { taskToken }) });
  if (armed.outcome === 'lost') return wake(ports, taskToken, armed.current?.state === 'resolved' ? 'resolved' : 'superseded');

  const pointed = await workers.change(round.worker, { session: round.session, states: PRESENT }, { round: token });
  if (!pointed) return closeRound(ports, token, 'closed', 'gone');
  if (row.round !== undefined && row.round !== token) await closeRound(ports, row.round, 'closed', 'superseded');

  if (pages) await atOnce(pages, (page) => ask(ports, round, page, asked));
  else await askAgain(ports, round);
}

async function ask({ commands }: ResyncPorts, { token, session, beat }: Round, { page, jobs }: AskedPage, pages: number): Promise<void> {
  await commands.send({ op: 'resync', session, round: token, beat, page, pages, jobs });
}

/** The round's time is up, by whatever timer. */
export async function expireRound(ports: ResyncPorts, settings: ResyncSettings, token: string, silence: Silence): Promise<Step> {
  const { workers, rounds, clock } = ports;
  for (let tries = 0; tries < TRIES; tries++) {
    const round = await rounds.get(token);
    const row = round && (await workers.get(round.worker));
    if (!round || !row) return DONE;
    const expiry = decideExpiry(round, row, silence, { ...settings, now: clock.now() });
    // Lost to a heartbeat, a drain, another session: judged again by what is there now.
    if (!(await isApplied(ports, round, row, expiry))) continue;
    return afterExpiry(ports, settings, round, row, expiry);
  }
  throw new PoolError('contended', `round ${token}: its worker's row changed ${TRIES} times while its end was judged`, { retryable: true });
}

async function isApplied({ workers }: ResyncPorts, { worker, session }: Round, { beat }: WorkerRow, { outcome }: Expiry): Promise<boolean> {
  if (outcome === 'lost') return (await workers.change(worker, { session, states: PRESENT, beat }, { state: 'lost' })) !== undefined;
  if (outcome === 'revoke') return (await workers.change(worker, { session, states: PRESENT }, { state: 'revoked' })) !== undefined;
  return true;
}

async function afterExpiry(ports: ResyncPorts, settings: ResyncSettings, round: Round, row: WorkerRow, expiry: Expiry): Promise<Step> {
  const { token } = round;
  ports.telemetry.decided({ subject: 'round', key: '', decision: expiry.outcome, worker: round.worker, round: token });
  if (expiry.outcome === 'behind') {
    await ports.rounds.extend(token, ports.clock.now() + settings.roundTimeoutMs);
    ports.telemetry.count('round-behind');
    return { next: 'behind', token, silence: expiry.silence };
  }
  await ports.rounds.close(token, 'closed');
  switch (expiry.outcome) {
    case 'again':
      return { next: 'open', silence: expiry.silence };
    case 'lost':
      ports.telemetry.count('worker-lost');
      return beginReassigning(ports, round);
    case 'gone':
      return beginReassigning(ports, round);
    case 'revoke':
      ports.telemetry.count('worker-revoked');
      return waitFor(row, settings);
    case 'wait':
      return waitFor(row, settings);
    case 'stale':
      return DONE;
    default:
      return expiry satisfies never;
  }
}

/** After a full lease of waiting: a revoked row cannot have renewed, so it is lost now. */
export async function loseRevoked(ports: ResyncPorts, subject: Subject): Promise<Step> {
  const { worker, session } = subject;
  const lost = await ports.workers.change(worker, { session, states: ['revoked'] }, { state: 'lost' });
  if (lost) ports.telemetry.count('worker-lost');
  return beginReassigning(ports, subject);
}

/** The first page at once: its jobs run nowhere. */
function beginReassigning(ports: ResyncPorts, subject: Subject): Promise<Step> {
  return reassignStep(ports, subject, REASSIGN);
}

/** One page of one walk. A worker that registered anew is asked by a round of its own. */
export async function reassignStep(ports: ResyncPorts, { worker, session }: Subject, step: ReassignStep): Promise<Step> {
  const row = await ports.workers.get(worker);
  if (row && row.session !== session) return DONE;
  const { items, cursor } = await reassignPage(ports, worker, step.cursor);
  const hasFound = step.hasFound || items.length > 0;
  if (cursor !== undefined) return { ...step, afterSeconds: 0, cursor, hasFound };
  const emptyWalks = hasFound ? 0 : step.emptyWalks + 1;
  const walksLeft = step.walksLeft - 1;
  if (emptyWalks === 2 || walksLeft === 0) return DONE;
  return { next: 'reassign', afterSeconds: BETWEEN_WALKS_SECONDS, hasFound: false, walksLeft, emptyWalks };
}

/** Whom an eviction needs: whoever operates the pool may not touch rounds. */
export interface EvictPorts {
  readonly workers: Pick<WorkerStore, 'change'>;
  readonly machine: Pick<RoundMachine, 'start'>;
  readonly clock: Clock;
}

/**
 * Takes the worker's right to renew at once; the machine then closes its round and waits for its lease. Dying in between: the sweep
 * starts a machine for a revoked row. False: nothing to revoke.
 */
export async function evict({ workers, machine, clock }: EvictPorts, { worker, session }: Subject): Promise<boolean> {
  const row = await workers.change(worker, { session, states: [...PRESENT, 'revoked'] }, { state: 'revoked' });
  if (row) await machine.start(executionName(row, clock.now()), { worker, session });
  return row !== undefined;
}

/** Ends a round and wakes whoever waits for it; that it was over before, or that nobody waits any more, is normal. */
export async function closeRound(ports: ResyncPorts, token: string, to: 'resolved' | 'closed', result: RoundResult): Promise<void> {
  const { current } = await ports.rounds.close(token, to);
  await wake(ports, current?.taskToken, result);
}

/**
 * Session, beat and minute: one execution for one silence. Never without the minute, because a name stays taken for 90 days
 * after its execution, which may have died, has closed.
 */
export function executionName({ session, beat, state }: WorkerRow, now: number): string {
  return `${session}-${beat}-${Math.floor(now / 60_000)}${state === 'revoked' ? '-revoked' : ''}`;
}

/** Where the worker was evicted, its round is over, and this execution waits in place of that round's. */
async function afterwards(ports: ResyncPorts, settings: ResyncSettings, row: WorkerRow): Promise<Step> {
  if (row.state !== 'revoked') return beginReassigning(ports, { worker: row.workerId, session: row.session });
  if (row.round !== undefined) await closeRound(ports, row.round, 'closed', 'superseded');
  return waitFor(row, settings);
}

/** The larger of the session's own lease and the pool's: a deploy may have shortened the latter. */
function waitFor({ leaseMs }: WorkerRow, settings: ResyncSettings): Step {
  return { next: 'wait', waitSeconds: Math.ceil(Math.max(leaseMs, settings.leaseMs) / 1_000) };
}

async function wake({ machine }: ResyncPorts, taskToken: string | undefined, result: RoundResult): Promise<void> {
  if (taskToken !== undefined) await machine.wake(taskToken, result);
}

/** By the index, then consistently: the index shows a key too late, or still. What is asked is kept, and not the records: there may be very many. */
async function ownedJobs({ jobs }: ResyncPorts, worker: string): Promise<readonly Asked[]> {
  const owned: Asked[] = [];
  for await (const page of pagesOf((cursor) => jobs.ownedBy(worker, cursor))) {
    await atOnce(chunks(page, READ_JOBS), async (keys) => {
      for (const job of await jobs.getMany(keys)) {
        const { key, fence, status } = job;
        if (isOwned(job) && job.owner.worker === worker) owned.push({ key, fence, running: status === 'running' });
      }
    });
  }
  return owned;
}

function paged(token: string, jobs: readonly Asked[]): readonly AskedPage[] {
  const pages: Asked[][] = [[]];
  let keys = 0;
  for (const job of jobs) {
    let page = pages.at(-1) as Asked[];
    if (page.length === PAGE_JOBS || (page.length > 0 && keys + job.key.length > PAGE_KEYS)) {
      page = [];
      pages.push(page);
      keys = 0;
    }
    page.push(job);
    keys += job.key.length;
  }
  return pages.map((of, index) => ({ token, page: index + 1, jobs: of }));
}
