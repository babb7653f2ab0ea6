import type { Job } from '../pool/job.ts';
import { pagesOf } from '../pool/pages.ts';
import type { Clock, Page, RequestSender, WorkerStore } from '../pool/ports.ts';
import { isPresent, type PoolState, PRESENT, type WorkerRow } from '../pool/worker.ts';
import { atOnce } from './at-once.ts';
import { decideRecover, isConclusive, isGone, type Looked, REPORTS, REQUESTS, type RecoverStep } from './decide-recover.ts';
import type { RoundMachine, RoundStore } from './ports.ts';
import { executionName } from './run-round.ts';

/**
 * What an operator runs after a table was restored to an earlier moment: somebody who looks, again and again, and does what comes next,
 * until the pool is open. That writes the pool's record and the generation of rows, enqueues `assign` and starts rounds, and no more:
 * what a worker's answer comes to is decided, and what is missing restored, by the functions, as at any other time.
 *
 * Authoritative are the pool's record and what the workers answer. What is kept here are looks, which the next one has to take anew: the time
 * that somebody else waited proves nothing. So whoever dies is replaced by calling it again:
 *
 *     died before the pool's record   nothing has happened
 *     while the pool recovers         nothing is assigned, for as long as it takes, and all else goes on; the sweep stamps the rows.
 *                                     The next one goes on in the same generation
 *     once it is open                 what is left is that a start which was out is sent again, which an audit does within the hour;
 *                                     to do all of it once more would do no harm
 *
 * Two at a time come to the same generation and ask the same workers; when one opens the pool, the other is done as well.
 */
export interface RecoverPorts {
  readonly pool: PoolRecord;
  readonly gauges: QueueGauges;
  readonly workers: Pick<WorkerStore, 'change'>;
  /** Every row. */
  rows(): Promise<readonly WorkerRow[]>;
  /** Keys with the worker that owns them. A hint: never take absence from it as a fact. */
  owned(cursor?: string): Promise<Page<OwnedKey>>;
  /** Keys of jobs that wait. A hint, likewise. */
  pendingKeys(cursor?: string): Promise<Page<string>>;
  /** Consistent. */
  jobs(keys: readonly string[]): Promise<ReadonlyMap<string, Job>>;
  readonly rounds: Pick<RoundStore, 'get'>;
  readonly machine: Pick<RoundMachine, 'start'>;
  readonly requests: RequestSender;
  readonly clock: Clock;
}

export interface OwnedKey {
  readonly key: string;
  readonly worker: string;
}

export interface RecoverOptions {
  /** The pool's, ms. */
  readonly leaseMs: number;
  /** Puts the older content of a table back. It is called when nothing is assigned any more, and again by whoever goes on after a failure. */
  readonly putBack?: () => Promise<void>;
}

/** The record of the pool's state and generation. */
export interface PoolRecord {
  /** Consistent. */
  get(): Promise<PoolState>;
  /** Writes `next` where the record still is as it was read. False: it is not. A retry that meets its own write has won. */
  change(read: PoolState, next: PoolState): Promise<boolean>;
}

/**
 * How full queues are; one that is not there is empty. Of FIFO queues SQS tells it exactly, and on those a recovery rests: a start that nobody took
 * yet is in an inbox. Of the report queue it is approximate, and no more than spares a round: what is open there is open in the answer as well.
 */
export interface QueueGauges {
  requests(): Promise<Depth>;
  reports(): Promise<Depth>;
  inbox(session: string): Promise<Depth>;
}

export interface Depth {
  /** Messages that anybody may take now. */
  readonly waiting: number;
  /** Messages that somebody has taken and not deleted yet, or that wait for their next try. */
  readonly taken: number;
}

/** What a recovery has come to. */
export interface RecoverProgress {
  readonly step: RecoverStep;
  readonly generation?: number;
  /** Worker sessions that were asked. */
  readonly asked: number;
  readonly rounds: number;
  /** Workers of whose answer something could not be applied, however often they were asked, and how much. */
  readonly undecided: readonly { readonly workerId: string; readonly skipped: number }[];
  /** Jobs that ran and that nobody runs, known once the pool is about to be opened. */
  readonly again: readonly JobName[];
  /** Jobs that wait and, as far as the records know, never ran; likewise. */
  readonly waiting: readonly JobName[];
}

export interface JobName {
  readonly key: string;
  readonly dispatchId: string;
}

/** A gauge has to say twice, this far apart, that a queue is empty, ms. */
const TWICE_MS = 3_000;
/** What goes by between two looks counts as so much at most, ms: that a clock was set proves nothing. */
const LONGEST_STEP_MS = 5_000;
/**
 * So long at most it is waited for the request queue, ms. Where a record was restored, the request that it was missing for has had its next try by
 * then, a minute at most after the one before; what is left is behind one whose record is missing for good, or comes anew all the time.
 */
const REQUESTS_MS = 90_000;
/** A worker of whose answer something could not be applied is asked so often. */
const ROUNDS = 3;

/** What gauges said of a queue, by how long the pool had been as it is, ms. */
interface Gauged {
  readonly since: number;
  /** Absent: it was not empty when it was looked at last. */
  readonly emptySince?: number;
}

/** A worker that is asked. */
interface Asking {
  readonly workerId: string;
  /** A round whose answer does not count: it was there before, or left something open. */
  before: string | undefined;
  /** An execution's name that was used. */
  started?: string;
  rounds: number;
  skipped: number;
  isAnswered: boolean;
}

export class Recovery {
  readonly #ports: RecoverPorts;
  readonly #options: RecoverOptions;
  #step: RecoverStep | undefined;
  #generation: number | undefined;
  #lookedAt: number | undefined;
  #sinceMs = 0;
  #isPutBack: boolean;
  #above = 0;
  #gauged = new Map<string, Gauged>();
  #empty = new Set<string>();
  /** Workers who were there when the jobs of all others were looked at. */
  #there: ReadonlySet<string> | undefined;
  #asking = new Map<string, Asking>();
  #isResumed = false;
  #seen: PoolState | undefined;
  #again: readonly JobName[] = [];
  #waiting: readonly JobName[] = [];

  constructor(ports: RecoverPorts, options: RecoverOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#isPutBack = options.putBack === undefined;
  }

  /** One look, and what is to be done by it. True: the pool is open. */
  async pass(): Promise<boolean> {
    const [pool, rows] = await Promise.all([this.#ports.pool.get(), this.#ports.rows()]);
    this.#tick(pool);
    if (pool.generation === this.#generation) await this.#stamp(rows, pool.generation);
    const step = decideRecover(this.#looked(pool, rows));
    this.#step = step;
    await this.#take(step, pool, rows);
    return step.step === 'done';
  }

  get progress(): RecoverProgress | undefined {
    const all = [...this.#asking.values()];
    return (
      this.#step && {
        step: this.#step,
        ...(this.#generation === undefined ? {} : { generation: this.#generation }),
        asked: all.length,
        rounds: all.reduce((sum, { rounds }) => sum + rounds, 0),
        undecided: all.flatMap(({ workerId, skipped, isAnswered }) => (isAnswered && skipped > 0 ? [{ workerId, skipped }] : [])),
        again: this.#again,
        waiting: this.#waiting,
      }
    );
  }

  #looked(pool: PoolState, rows: readonly WorkerRow[]): Looked {
    const there = thoseThere(rows);
    return {
      pool,
      rows,
      leaseMs: this.#options.leaseMs,
      ...(this.#generation === undefined ? {} : { generation: this.#generation }),
      sinceMs: this.#sinceMs,
      isPutBack: this.#isPutBack,
      above: this.#above,
      empty: this.#empty,
      isReassigned: this.#there !== undefined && [...this.#there].every((worker) => there.has(worker)),
      answered: new Set([...this.#asking].flatMap(([session, { isAnswered }]) => (isAnswered ? [session] : []))),
      isResumed: this.#isResumed,
    };
  }

  #tick(pool: PoolState): void {
    const now = this.#ports.clock.now();
    const passedMs = Math.min(Math.max(now - (this.#lookedAt ?? now), 0), LONGEST_STEP_MS);
    this.#sinceMs = this.#seen && isSame(this.#seen, pool) ? this.#sinceMs + passedMs : 0;
    this.#lookedAt = now;
    this.#seen = pool;
  }

  async #take(step: RecoverStep, pool: PoolState, rows: readonly WorkerRow[]): Promise<void> {
    switch (step.step) {
      case 'begin':
        if (isSame(pool, step.pool) || (await this.#ports.pool.change(pool, step.pool))) this.#begin(step.pool.generation);
        return;
      case 'put back':
        await this.#options.putBack?.();
        this.#isPutBack = true;
        this.#above = pool.generation;
        this.#generation = undefined;
        return;
      case 'empty':
        return atOnce(step.queues, (queue) => this.#gauge(queue));
      case 'reassign':
        return this.#reassign(rows);
      case 'ask':
        return atOnce(step.rows, (row) => this.#ask(row));
      case 'open':
        await this.#lookAtWaiting();
        await this.#ports.pool.change(pool, step.pool);
        return;
      case 'resume':
        return this.#resume();
      case 'settle':
      case 'tell':
      case 'done':
        return;
      default:
        return step satisfies never;
    }
  }

  /** Whatever was seen before is to be seen anew. */
  #begin(generation: number): void {
    this.#generation = generation;
    this.#lookedAt = undefined;
    this.#sinceMs = 0;
    this.#gauged = new Map();
    this.#empty = new Set();
    this.#there = undefined;
    this.#asking = new Map();
    this.#isResumed = false;
  }

  /** What is not stamped is restored nothing, and given nothing once the pool is open. */
  async #stamp(rows: readonly WorkerRow[], generation: number): Promise<void> {
    const others = rows.filter((row) => isPresent(row) && row.generation !== generation);
    await atOnce(others, async ({ workerId, session }) => {
      await this.#ports.workers.change(workerId, { session, states: PRESENT }, { generation });
    });
  }

  /** What comes later than the moment at which a queue was empty was decided by the records as they are now. */
  async #gauge(queue: string): Promise<void> {
    const { waiting, taken } = await this.#depthOf(queue);
    const now = this.#sinceMs;
    const { since = now, emptySince = now } = this.#gauged.get(queue) ?? {};
    // A request that fails waits for its next try: a stop whose record is missing, for as long as it is.
    const isEmpty = waiting === 0 && (taken === 0 || queue === REQUESTS);
    this.#gauged.set(queue, isEmpty ? { since, emptySince } : { since });
    const isWaitedFor = queue !== REQUESTS || now - since < REQUESTS_MS;
    if ((isEmpty && now - emptySince >= TWICE_MS) || !isWaitedFor) this.#empty.add(queue);
  }

  /** It has to be seen empty anew. */
  #refilled(queue: string): void {
    this.#gauged.delete(queue);
    this.#empty.delete(queue);
  }

  #depthOf(queue: string): Promise<Depth> {
    const { gauges } = this.#ports;
    if (queue === REQUESTS) return gauges.requests();
    return queue === REPORTS ? gauges.reports() : gauges.inbox(queue);
  }

  /** The request function looks at the row itself, and declares the owner lost where there is none. */
  async #reassign(rows: readonly WorkerRow[]): Promise<void> {
    const there = thoseThere(rows);
    for await (const owned of pagesOf(this.#ports.owned)) await this.#assign(owned.filter(({ worker }) => !there.has(worker)));
    this.#there = there;
    this.#refilled(REQUESTS);
  }

  /** What was assigned has its start sent once more; whoever has it already only says so again. */
  async #resume(): Promise<void> {
    for await (const owned of pagesOf(this.#ports.owned)) {
      const jobs = await this.#ports.jobs(owned.map(({ key }) => key));
      await this.#assign([...jobs.values()].filter(({ status }) => status === 'assigned'));
    }
    this.#isResumed = true;
  }

  async #assign(jobs: readonly { readonly key: string }[]): Promise<void> {
    await this.#ports.requests.send(jobs.map(({ key }) => ({ op: 'assign', key })));
  }

  /** As long as nothing is assigned, what is not up is what waits, and what the records call assigned: no start of it is out any more. */
  async #lookAtWaiting(): Promise<void> {
    const idle = new Map<string, Job>();
    const look = async (keys: readonly string[]) => {
      for (const [key, job] of await this.#ports.jobs(keys)) if (job.status === 'pending' || job.status === 'assigned') idle.set(key, job);
    };
    for await (const owned of pagesOf(this.#ports.owned)) await look(owned.map(({ key }) => key));
    for await (const keys of pagesOf(this.#ports.pendingKeys)) await look(keys);
    const named = (ran: boolean) =>
      [...idle.values()].flatMap(({ key, dispatchId, startedAt }) => ((startedAt !== undefined) === ran ? [{ key, dispatchId }] : []));
    this.#again = named(true);
    this.#waiting = named(false);
  }

  async #ask(row: WorkerRow): Promise<void> {
    const { rounds, machine, clock } = this.#ports;
    const { workerId, session } = row;
    const asking = this.#asking.get(session) ?? { workerId, before: row.round, rounds: 0, skipped: 0, isAnswered: false };
    this.#asking.set(session, asking);
    const round = row.round === undefined || row.round === asking.before ? undefined : await rounds.get(row.round);
    if (round?.state === 'open' || round?.state === 'armed') return;
    if (round?.state === 'resolved') {
      asking.before = round.token;
      asking.rounds += 1;
      asking.skipped = round.skipped;
      asking.isAnswered = isConclusive(round) && (round.skipped === 0 || asking.rounds >= ROUNDS);
      // What it confirmed may still be on the report queue, and whose jobs are to be looked at on the request queue.
      if (asking.isAnswered) for (const queue of [REPORTS, REQUESTS]) this.#refilled(queue);
      return;
    }
    // A name that was used at this beat and minute comes to nothing, so there will be another at the next.
    const name = executionName(row, clock.now());
    if (name === asking.started) return;
    await machine.start(name, { worker: workerId, session });
    asking.started = name;
  }
}

function thoseThere(rows: readonly WorkerRow[]): ReadonlySet<string> {
  return new Set(rows.flatMap((row) => (isGone(row) ? [] : [row.workerId])));
}

function isSame(one: PoolState, other: PoolState): boolean {
  return one.state === other.state && one.generation === other.generation;
}
