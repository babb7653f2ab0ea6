import type { ClientPorts, OperatePorts, RecordReader, RequestBatchSender } from '../client/ports.ts';
import type { Source } from '../pool/batch.ts';
import type { Dispatch } from '../pool/dispatch.ts';
import type { Job } from '../pool/job.ts';
import type { Clock, Ids, RequestSender, Telemetry, Timer } from '../pool/ports.ts';
import { DEFAULT_SETTINGS } from '../pool/settings.ts';
import type { PoolState } from '../pool/worker.ts';
import type { ResyncPorts, RoundMachine } from '../resync/ports.ts';
import { encodeReport, encodeRequest, type Report, type Request } from '../wire/index.ts';
import type { ReportSender, WorkerClock, WorkerPorts } from '../worker/ports.ts';
import type { IndexLag } from './frozen.ts';
import { type DispatchObserver, MemoryDispatches } from './memory-dispatches.ts';
import { SequentialIds } from './memory-ids.ts';
import { MemoryInboxes } from './memory-inboxes.ts';
import { type JobObserver, MemoryJobs } from './memory-jobs.ts';
import { type Disturbance, MemoryQueue, type ReceivedMessage } from './memory-queue.ts';
import { MemoryRestores } from './memory-restores.ts';
import { MemoryRounds } from './memory-rounds.ts';
import { MemoryWorkers, type WorkerObserver } from './memory-workers.ts';

export interface MemoryServicesOptions {
  readonly clock: Clock;
  readonly timer: Timer;
  readonly retentionMs?: number;
  /** The pool's; default 30 000. */
  readonly leaseMs?: number;
  /** How long an inbox keeps a command, ms. Default: an hour. */
  readonly inboxRetentionMs?: number | undefined;
  readonly lag?: IndexLag;
  readonly disturbance?: { readonly requests?: Disturbance; readonly reports?: Disturbance; readonly inboxes?: Disturbance };
  readonly observe?: {
    readonly job?: JobObserver;
    readonly dispatch?: DispatchObserver;
    readonly worker?: WorkerObserver;
    readonly pool?: (pool: PoolState) => void;
  };
}

const DEFAULT_LEASE_MS = 30_000;
export const FUNCTION_TIMEOUT_MS = 10_000;
/** As deployed: six times the time that a function may take. */
const VISIBILITY_MS = 6 * FUNCTION_TIMEOUT_MS;
/** One above the last receive, at which the function dead-letters a failing message itself. */
const MAX_RECEIVES = 21;
const DEAD_LETTER_RETENTION_MS = 14 * 24 * 60 * 60 * 1_000;

/**
 * The services that one pool stands on, in memory: tables, queues and inboxes, with ports on them for each side. Nothing here
 * fails, delays or repeats by itself.
 */
export class MemoryServices {
  readonly jobs: MemoryJobs;
  readonly dispatches: MemoryDispatches;
  readonly workers: MemoryWorkers;
  readonly inboxes: MemoryInboxes;
  readonly rounds = new MemoryRounds();
  restores: MemoryRestores;
  /** Times the rounds; where nobody put one here, none is ever timed. */
  machine: RoundMachine = { start: async () => {}, wake: async () => {} };
  readonly requests: MemoryQueue;
  readonly reports: MemoryQueue;
  readonly deadRequests: MemoryQueue;
  readonly deadReports: MemoryQueue;
  readonly #options: MemoryServicesOptions;
  readonly #ids: Ids;

  constructor(options: MemoryServicesOptions) {
    const { clock, timer, retentionMs = DEFAULT_SETTINGS.retentionMs, lag, disturbance = {}, observe = {} } = options;
    this.#options = options;
    this.#ids = new SequentialIds(clock);
    this.dispatches = new MemoryDispatches({ clock, observe: observe.dispatch });
    this.jobs = new MemoryJobs({ clock, retentionMs, lag, dispatches: this.dispatches, observe: observe.job });
    this.workers = new MemoryWorkers({ lag, observe: observe.worker, observePool: observe.pool });
    this.restores = new MemoryRestores(this);
    this.inboxes = new MemoryInboxes({ clock, timer, retentionMs: options.inboxRetentionMs, disturbance: disturbance.inboxes });
    const queue = (name: string, type: 'fifo' | 'standard', disturbs?: Disturbance) => {
      const deadLetters = new MemoryQueue({
        name: `dead-${name}s`,
        type,
        clock,
        visibilityMs: VISIBILITY_MS,
        retentionMs: DEAD_LETTER_RETENTION_MS,
      });
      return new MemoryQueue({
        name,
        type,
        clock,
        visibilityMs: VISIBILITY_MS,
        maxReceives: MAX_RECEIVES,
        deadLetters,
        disturbance: disturbs,
      });
    };
    this.requests = queue('request', 'fifo', disturbance.requests);
    this.reports = queue('report', 'standard', disturbance.reports);
    this.deadRequests = this.requests.deadLetters as MemoryQueue;
    this.deadReports = this.reports.deadLetters as MemoryQueue;
  }

  /** What the functions work with. */
  poolPorts(telemetry: Telemetry = silent, clock: Clock = this.#options.clock): ResyncPorts {
    const { jobs, dispatches, workers, inboxes, rounds, restores, machine } = this;
    const requests: RequestSender = {
      send: async (all) => {
        for (const request of all) this.#request(request);
      },
    };
    return { jobs, dispatches, workers, commands: inboxes, inboxes, requests, rounds, restores, machine, ids: this.#ids, clock, telemetry };
  }

  /** What one worker process works with. */
  workerPorts({
    clock,
    timer = this.#options.timer,
    ids = this.#ids,
  }: {
    readonly clock?: WorkerClock;
    readonly timer?: Timer;
    readonly ids?: Ids;
  } = {}): WorkerPorts {
    const { now } = this.#options.clock;
    const epoch = this.#options.clock.now();
    const steady: WorkerClock = { now: now.bind(this.#options.clock), monotonic: () => this.#options.clock.now() - epoch };
    const reports: ReportSender = {
      send: async (all) => {
        for (const report of all) this.#report(report);
      },
    };
    return { registry: this.workers, inboxes: this.inboxes, reports, clock: clock ?? steady, timer, ids };
  }

  /** What one client works with. */
  clientPorts({
    clock = this.#options.clock,
    timer = this.#options.timer,
    ids = this.#ids,
  }: {
    readonly clock?: Clock;
    readonly timer?: Timer;
    readonly ids?: Ids;
  } = {}): ClientPorts {
    const { jobs, dispatches, workers, rounds, restores, machine } = this;
    const requests: RequestBatchSender = {
      send: async (all) => {
        for (const request of all) this.#request(request);
        return all.map(() => undefined);
      },
    };
    const records: RecordReader = {
      dispatches: async (names) => found(names, (id): Dispatch | undefined => dispatches.peek(id)),
      jobs: async (keys) => found(keys, (key): Job | undefined => jobs.peek(key)),
      pendingKeys: (cursor) => jobs.pendingKeys(cursor),
      keysOwnedBy: (workerId, cursor) => jobs.ownedBy(workerId, cursor),
      workers: async () => workers.all(),
    };
    const operate: OperatePorts = {
      ...{ workers, rounds, restores, machine, leaseMs: this.#options.leaseMs ?? DEFAULT_LEASE_MS },
      pool: { get: () => workers.poolState(0), change: (read, next) => workers.changePool(read, next) },
      gauges: {
        requests: async () => this.requests.depth,
        reports: async () => this.reports.depth,
        inbox: async (session) => this.inboxes.queue(session)?.depth ?? { waiting: 0, taken: 0 },
      },
      owned: (cursor) => jobs.owned(cursor),
    };
    return { requests, records, operate, clock, timer, ids };
  }

  /** Where a batch of the queue's messages came from. */
  source(queue: MemoryQueue, batch: readonly ReceivedMessage[]): Source {
    const message = (id: string) => batch.find((each) => each.id === id) as ReceivedMessage;
    return {
      retryAfter: async ({ id }, delayMs) => {
        queue.changeVisibility(message(id).receipt, delayMs);
      },
      deadLetter: async ({ body, group }, reason) => {
        queue.deadLetters?.send({
          body,
          attributes: { reason },
          ...(group === undefined ? {} : { group, deduplicationId: this.#ids.next() }),
        });
      },
    };
  }

  /**
   * Either table as it is now; calling it puts that back, as a table restored to an earlier moment has it. What `recover` is given as `putBack`
   * leaves the pool's record as it is.
   */
  backup(table: 'jobs' | 'workers'): (how?: { readonly leavesPool: boolean }) => void {
    if (table === 'workers') return this.workers.backup();
    const pool = this.workers.peekPool();
    const records = [this.jobs, this.dispatches, this.rounds, this.restores].map((store) => store.backup());
    return ({ leavesPool } = { leavesPool: false }) => {
      for (const restore of records) restore();
      if (!leavesPool) this.workers.setPool(pool);
    };
  }

  /** What a conditional write of a record answers that loses though nobody else wrote. */
  lostRace(method: string, args: readonly unknown[]): unknown {
    if (method === 'restore') return { outcome: 'lost' };
    const current =
      method === 'commit' ? this.jobs.versioned((args[0] as Job).key) : this.dispatches.peek((args[0] as Dispatch).dispatchId);
    return current ? { outcome: 'lost', current } : { outcome: 'lost' };
  }

  #request(request: Request): void {
    // The key stands for its hash, which is the group on SQS.
    this.requests.send({ body: encodeRequest(request), group: request.key, deduplicationId: this.#ids.next() });
  }

  #report(report: Report): void {
    this.reports.send({ body: encodeReport(report) });
  }
}

export const silent: Telemetry = { decided() {}, count() {}, gauge() {}, failed() {} };

function found<T>(names: readonly string[], peek: (name: string) => T | undefined): ReadonlyMap<string, T> {
  return new Map(
    names.flatMap((name) => {
      const record = peek(name);
      return record === undefined ? [] : [[name, record] as const];
    }),
  );
}
