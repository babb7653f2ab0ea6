import type { StopReason } from './command.ts';

/** Why a start, a stop or a job failed. */
export interface JobError {
  readonly code: string;
  /** At most 256 bytes of UTF-8; see `cutMessage`. */
  readonly message: string;
  readonly retryable: boolean;
  /** The handler's wish for the time until the next try. */
  readonly retryAfterMs?: number;
}

/** A worker session is there and its inbox exists. */
export interface RegisteredReport {
  readonly type: 'registered';
  readonly worker: string;
  readonly session: string;
  /** Epoch ms by the worker's clock: when it happened, so a repeated report carries the first time. So in every report. */
  readonly at: number;
}

/** A worker session has ended with no handler alive. */
export interface LeftReport {
  readonly type: 'left';
  readonly worker: string;
  readonly session: string;
  readonly at: number;
}

/** What every fact about a job carries. */
interface Fact {
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly worker: string;
  /** The session in which it happened. */
  readonly session: string;
  readonly at: number;
  /** Epoch ms; absent where this worker never saw it up. */
  readonly startedAt?: number;
}

export interface StartedReport extends Fact {
  readonly type: 'started';
  readonly startedAt: number;
}

export interface StartFailedReport extends Fact {
  readonly type: 'start-failed';
  readonly error: JobError;
}

/** What really runs at a key where a start met it. */
export interface RunningJob {
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly startedAt: number;
}

/** Why a worker did not start a job; the job that holds the key stands beside `key-busy` alone. */
export type WorkerRefusal =
  | { readonly reason: 'key-busy'; readonly running: RunningJob }
  | { readonly reason: 'at-capacity' | 'draining' | 'fingerprint-mismatch' };

export type RefusedReport = Fact & { readonly type: 'refused' } & WorkerRefusal;

export interface StoppedReport extends Fact {
  readonly type: 'stopped';
  /** Absent where a start came after the command that ended its fence was forgotten. */
  readonly reason?: StopReason;
}

/** A stop was refused by the handler or passed its deadline: the job still runs. */
export interface StopFailedReport extends Fact {
  readonly type: 'stop-failed';
  readonly error: JobError;
}

/** The job was let go, to run elsewhere. */
export interface ReleasedReport extends Fact {
  readonly type: 'released';
}

/** The job ended by itself at `at`; without `error` it succeeded. */
export interface FinishedReport extends Fact {
  readonly type: 'finished';
  readonly startedAt: number;
  readonly error?: JobError;
  /** JSON of at most 1 KiB as it travels; see `cutResult`. */
  readonly result?: unknown;
  /** There was a result, too large or not JSON. */
  readonly resultOmitted?: true;
}

/** The answer to `confirm`: all that is needed to write the job's records anew. */
export interface ConfirmedReport extends Fact {
  readonly type: 'confirmed';
  readonly startedAt: number;
  readonly payload: Uint8Array;
}

/** A fact about one job, by the worker that had it. */
export type FactReport =
  | StartedReport
  | StartFailedReport
  | RefusedReport
  | StoppedReport
  | StopFailedReport
  | ReleasedReport
  | FinishedReport
  | ConfirmedReport;

interface KnownEntry {
  readonly key: string;
  readonly fence: number;
  readonly dispatchId: string;
  readonly fingerprint: string;
}

/** What a worker says about one job in a resync round, asked or unasked. `finishedAt` is the `at` of the fact it repeats. */
export type ResyncEntry =
  | (KnownEntry & { readonly state: 'running'; readonly startedAt: number })
  | (KnownEntry & { readonly state: 'starting' })
  | (KnownEntry & {
      readonly state: 'succeeded';
      readonly startedAt: number;
      readonly finishedAt: number;
      readonly result?: unknown;
      readonly resultOmitted?: true;
    })
  | (KnownEntry & { readonly state: 'failed'; readonly startedAt: number; readonly finishedAt: number; readonly error: JobError })
  | (KnownEntry & { readonly state: 'stopped'; readonly startedAt?: number; readonly finishedAt: number; readonly reason?: StopReason })
  | (KnownEntry & { readonly state: 'released'; readonly startedAt?: number; readonly finishedAt: number })
  | (KnownEntry & { readonly state: 'start-failed'; readonly finishedAt: number; readonly error: JobError })
  | (KnownEntry & { readonly state: 'refused' } & WorkerRefusal)
  | { readonly state: 'unrecognized'; readonly key: string; readonly fence: number };

/** One page of a worker's answer to a resync round. */
export interface ResyncReport {
  readonly type: 'resync';
  readonly worker: string;
  readonly session: string;
  readonly at: number;
  /** The round's token. */
  readonly round: string;
  /** 1 to `pages`. */
  readonly page: number;
  /** Of the whole answer, unasked jobs included. */
  readonly pages: number;
  readonly entries: readonly ResyncEntry[];
}

export type Report = RegisteredReport | LeftReport | FactReport | ResyncReport;
