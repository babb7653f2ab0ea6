import type { EpochMs, Fence } from './job.ts';

/** What became of a request to start; recorded once, kept for the pool's retention. */
export type Outcome = Started | NotStarted;

/** The job has been up. `at` says only since when it *first* ran: a later owner must not make it another outcome. */
export interface Started {
  readonly outcome: 'started';
  readonly at: EpochMs;
}

export type NotStarted =
  | { readonly outcome: 'refused'; readonly reason: 'key-busy'; readonly holder: Holder }
  | { readonly outcome: 'refused'; readonly reason: 'next-taken' | 'pool-closed' | 'expired' | 'invalid' }
  | { readonly outcome: 'start-failed'; readonly error: Failure; readonly attempts: number }
  | { readonly outcome: 'cancelled'; readonly by: 'stop' | 'superseded' };

/** Who held the key when a start was refused, and whether it asked for the same (key and payload). */
export interface Holder {
  readonly dispatchId: string;
  readonly sameRequest: boolean;
}

export interface Failure {
  readonly code: string;
  /** At most 256 bytes of UTF-8. */
  readonly message: string;
}

/** What became of a job that started. `finishedAt` is the time that the worker reported, never that of processing (R6, R7). */
export type JobEnd =
  | { readonly status: 'succeeded'; readonly finishedAt: EpochMs; readonly result?: unknown; readonly resultOmitted?: true }
  | { readonly status: 'failed'; readonly finishedAt: EpochMs; readonly error: Failure }
  | { readonly status: 'stopped'; readonly finishedAt: EpochMs; readonly reason: EndedBy };

export type EndedBy = 'stop-requested' | 'replaced' | 'pool-closed';

/** Every dispatch has an end in the end; one that never started has this one, and its outcome says why. */
export type End = JobEnd | { readonly status: 'never-started'; readonly outcome: NotStarted };

/**
 * One request to start a job, by its dispatch id.
 *
 *     admitted ──► started ──► ended
 *         └──────► never-started          (refused, start-failed, cancelled: outcome and end in one)
 *
 * Arrows are the only changes, so a record's status is all that a conditional write has to compare.
 */
export type Dispatch = AdmittedDispatch | StartedDispatch | EndedDispatch | NeverStartedDispatch;

interface DispatchHead {
  readonly dispatchId: string;
  readonly key: string;
  /** Absent where only a stop or a refusal is known: it matches any request. */
  readonly fingerprint?: string;
  /** At least that of the last start command sent for this dispatch. */
  readonly fence: Fence;
  readonly requestedAt: EpochMs;
}

export interface AdmittedDispatch extends DispatchHead {
  readonly status: 'admitted';
  readonly fingerprint: string;
}
export interface StartedDispatch extends DispatchHead {
  readonly status: 'started';
  readonly outcome: Started;
}
export interface EndedDispatch extends DispatchHead {
  readonly status: 'ended';
  readonly outcome: Started;
  readonly end: JobEnd;
  /** When the record may be forgotten: the time of recording plus the pool's retention. */
  readonly expiresAt: EpochMs;
}
export interface NeverStartedDispatch extends DispatchHead {
  readonly status: 'never-started';
  readonly outcome: NotStarted;
  readonly expiresAt: EpochMs;
}

/** What is to be recorded of a dispatch: that it started, that it started and how it ended, or that it never started. */
export interface Settlement {
  readonly dispatchId: string;
  readonly key: string;
  readonly fingerprint?: string;
  readonly fence: Fence;
  readonly outcome: Outcome;
  /** Only with outcome `started`. */
  readonly end?: JobEnd;
  /** When the request was admitted, as far as known: used where the record is missing and is written whole. */
  readonly requestedAt: EpochMs;
  /**
   * True where no job record names the dispatch: then an end of a lower fence than the record's changes nothing, because
   * a start of a higher fence may be on its way.
   */
  readonly unnamed?: true;
}

/** Whether a request (or a job) with this key and fingerprint is the one that the record knows by its id (P3). */
export function isSameRequest(known: { readonly key: string; readonly fingerprint?: string }, key: string, fingerprint?: string): boolean {
  return known.key === key && (known.fingerprint === undefined || fingerprint === undefined || known.fingerprint === fingerprint);
}

/**
 * The record after a settlement, or undefined where nothing is to be written: settling writes only what is absent, and
 * writes a missing record whole.
 */
export function settle(dispatch: Dispatch | undefined, by: Settlement, expiresAt: EpochMs): Dispatch | undefined {
  if (dispatch && !isSameRequest(dispatch, by.key, by.fingerprint)) return undefined;
  if (dispatch && by.unnamed && by.fence < dispatch.fence) return undefined;
  const fingerprint = dispatch?.fingerprint ?? by.fingerprint;
  const head = {
    dispatchId: by.dispatchId,
    key: by.key,
    ...(fingerprint === undefined ? {} : { fingerprint }),
    fence: Math.max(dispatch?.fence ?? 0, by.fence),
    requestedAt: dispatch?.requestedAt ?? by.requestedAt,
  };
  switch (dispatch?.status) {
    case undefined:
    case 'admitted':
      if (by.outcome.outcome !== 'started') return { ...head, status: 'never-started', outcome: by.outcome, expiresAt };
      if (by.end) return { ...head, status: 'ended', outcome: by.outcome, end: by.end, expiresAt };
      return { ...head, status: 'started', outcome: by.outcome };
    case 'started':
      return by.end ? { ...head, status: 'ended', outcome: dispatch.outcome, end: by.end, expiresAt } : undefined;
    case 'ended':
    case 'never-started':
      return undefined;
    default:
      return dispatch satisfies never;
  }
}

export function outcomeOf(dispatch: Dispatch): Outcome | undefined {
  return dispatch.status === 'admitted' ? undefined : dispatch.outcome;
}

export function endOf(dispatch: Dispatch): End | undefined {
  if (dispatch.status === 'ended') return dispatch.end;
  return dispatch.status === 'never-started' ? { status: 'never-started', outcome: dispatch.outcome } : undefined;
}
