import type { Command, Request } from '../wire/index.ts';
import type { AdmittedDispatch, Dispatch } from './dispatch.ts';
import type { EpochMs, Fence, Job } from './job.ts';
import type { PoolState, WorkerRow } from './worker.ts';

/**
 * What the control plane needs of the world. `lib/aws` has each on a service, `lib/testing` each in memory; one conformance
 * suite per port runs on both. Every method may throw a `PoolError`; a lost race is a value.
 */
export interface PoolPorts {
  readonly jobs: JobStore;
  readonly dispatches: DispatchStore;
  readonly workers: WorkerStore;
  readonly commands: CommandSender;
  readonly requests: RequestSender;
  readonly inboxes: InboxKeeper;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** The wall clock. */
export interface Clock {
  now(): EpochMs;
}

/** Runs `run` once after `delayMs` unless the returned function is called before. */
export interface Timer {
  after(delayMs: number, run: () => void): () => void;
}

/** Fresh ULIDs. */
export interface Ids {
  next(): string;
}

/** A record as it was read, with the revision that a commit names. */
export interface Versioned<T> {
  readonly record: T;
  readonly rev: string;
}

/** `lost` carries the record that won instead, read consistently; absent where there is none now. */
export type Commit<T> = { readonly outcome: 'won' } | { readonly outcome: 'lost'; readonly current?: T };

export interface JobStore {
  /** Consistent. An expired record counts as none. */
  get(key: string): Promise<Versioned<Job> | undefined>;
  /**
   * Writes `next` (under a fresh revision) where the record is still at `expected`; undefined: where there is none.
   * A retry that meets its own write has won.
   */
  commit(next: Job, expected: string | undefined): Promise<Commit<Versioned<Job>>>;
  /** Consistent, in any order; keys without a record, or with one that cannot be read, are left out. */
  getMany(keys: readonly string[]): Promise<readonly Job[]>;
  /**
   * As `commit`, and in the same transaction writes the dispatch record as `DispatchStore.change` would. `lost` where either
   * condition failed.
   */
  commitSettled(next: Job, expected: string | undefined, dispatch: DispatchChange): Promise<Commit<Versioned<Job>>>;
  /** What waits: pending, or ended with `next`, and due at `now`; oldest first over all shards, at most `limit`, from 1. A hint: eventually consistent. */
  due(now: EpochMs, limit: number): Promise<readonly DueJob[]>;
  /** Keys owned by any session of the worker. A hint: never take absence from it as a fact. */
  ownedBy(workerId: string, cursor?: string): Promise<Page<string>>;
}

export interface DueJob {
  readonly key: string;
  readonly dueAt: EpochMs;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly cursor?: string;
}

export interface DispatchStore {
  /** Consistent. An expired record counts as none. */
  get(dispatchId: string): Promise<Dispatch | undefined>;
  /** The payload as it was admitted, byte for byte; undefined where the record or its payload is missing, or the dispatch is over. */
  payload(dispatchId: string): Promise<Uint8Array | undefined>;
  /** Puts head and payload where no record is (an expired one counts as none). */
  admit(dispatch: AdmittedDispatch, payload: Uint8Array): Promise<Commit<Dispatch>>;
  /**
   * Writes what `next` knows more than the record, where the record's status still is `expected` ('absent': where there is none)
   * and its key and known fingerprint are those of `next`; with `maxFence`, only where its fence is not above that. What the
   * record has already stays (its `requestedAt`, an outcome `started`, a higher fence); so does the payload until the
   * dispatch is over, and is deleted then.
   */
  change(next: Dispatch, expected: Dispatch['status'] | 'absent', maxFence?: Fence): Promise<Commit<Dispatch>>;
  /** Raises the record's fence to at least `fence`; nothing where it is there already, or where there is no record. */
  raiseFence(dispatchId: string, fence: Fence): Promise<void>;
}

/** A change of a dispatch record that a transaction makes. */
export interface DispatchChange {
  readonly next: Dispatch;
  readonly expected: Dispatch['status'] | 'absent';
}

export interface WorkerStore {
  /** Consistent. */
  get(workerId: string): Promise<WorkerRow | undefined>;
  /** Every row; may be some seconds old, but no older than `maxAgeMs` where that is given. */
  list(maxAgeMs?: number): Promise<readonly WorkerRow[]>;
  /** Changes the row where it still is as `where` says, and returns it as it is then; undefined where it is not. */
  change(workerId: string, where: RowCondition, set: RowChange): Promise<WorkerRow | undefined>;
  /** Deletes the row where it still is as `where` says. */
  remove(workerId: string, where: RowCondition): Promise<void>;
  /** May be some seconds old, but no older than `maxAgeMs` where that is given. */
  poolState(maxAgeMs?: number): Promise<PoolState>;
}

export interface RowCondition {
  readonly session: string;
  readonly states: readonly WorkerRow['state'][];
  readonly beat?: number;
}

/** What the control plane writes of a row; the rest is the worker's. */
export type RowChange = Partial<Pick<WorkerRow, 'state' | 'generation' | 'round' | 'auditAt' | 'namedAt'>>;

export interface CommandSender {
  /** Puts the command into the inbox of its session; `no-inbox`: there is none (or none any more). */
  send(command: Command): Promise<'sent' | 'no-inbox'>;
}

export interface RequestSender {
  /** Enqueues every request, each under a deduplication id of its own (only the service client's own retries share it), or throws; after a throw any of them may have been enqueued. */
  send(requests: readonly Request[]): Promise<void>;
}

/** Inboxes as the sweep sees them: those of sessions long gone are deleted. */
export interface InboxKeeper {
  /** Sessions that have an inbox. May be some seconds old. */
  sessions(): AsyncIterable<string>;
  /** Nothing where there is none. */
  remove(session: string): Promise<void>;
}

/** What is counted: never with a key or a worker as dimension. */
export type Count =
  | 'request-refused'
  | 'stop-of-nothing'
  | 'notify-dropped'
  | 'report-unmatched'
  | 'page-discarded'
  | 'round-behind'
  | 'worker-lost'
  | 'worker-revoked'
  | 'command-dropped'
  | 'restored'
  | 'owner-lost'
  | 'key-busy-alarm'
  | 'fingerprint-mismatch-alarm'
  | 'dead-lettered';

/**
 * What is measured once a minute while a worker is there or a job waits: jobs that run, as the workers' last heartbeats have it; jobs that wait
 * and are due, 1,000 at most; and for how many seconds the oldest of these has been due. And while the pool is recovering: 1.
 */
export type Gauge = 'running' | 'pending' | 'pending-age' | 'recovering';

export interface Telemetry {
  /** One structured line per decision. */
  decided(line: { readonly subject: string; readonly key: string; readonly decision: string; readonly [field: string]: unknown }): void;
  count(name: Count): void;
  gauge(name: Gauge, value: number): void;
  /** A message that was not handled; it comes again, or is dead-lettered. */
  failed(line: { readonly message: string; readonly receiveCount: number; readonly reason: string; readonly error: unknown }): void;
}
