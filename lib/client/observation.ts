import {
  type Dispatch,
  endOf,
  isSameRequest,
  outcomeOf,
  type End as RecordedEnd,
  type Outcome as RecordedOutcome,
} from '../pool/dispatch.ts';
import type { Ending, Job } from '../pool/job.ts';

/**
 * What the records say about a dispatch. The dispatch record decides where it knows; where it does not, the job record does, because
 * an end is committed there first and settled on the dispatch record afterwards, and whoever was to settle it may have died between.
 */
export interface Observation {
  readonly dispatch?: Dispatch;
  /** The record at the dispatch's key; it may well be another dispatch's job. */
  readonly job?: Job;
}

/** The dispatch that is looked for. Only who sent it knows key and fingerprint, and so can tell that the id belongs to another request. */
export interface Subject {
  readonly dispatchId: string;
  readonly key?: string;
  readonly fingerprint?: string;
}

/** The dispatch id was used before, with another key or payload. The handle compares: it is never recorded, and disturbs nothing. */
export interface FingerprintMismatch {
  readonly outcome: 'refused';
  readonly reason: 'fingerprint-mismatch';
}

/** What became of a request to start. */
export type Outcome = RecordedOutcome | FingerprintMismatch;

/** What became of the job. A request that never started one ends `never-started`, and its outcome says why. */
export type End = RecordedEnd | { readonly status: 'never-started'; readonly outcome: FingerprintMismatch };

const MISMATCH: FingerprintMismatch = { outcome: 'refused', reason: 'fingerprint-mismatch' };

export function outcomeIn(seen: Observation, subject: Subject): Outcome | undefined {
  if (isOfAnother(seen, subject)) return MISMATCH;
  const settled = seen.dispatch && outcomeOf(seen.dispatch);
  if (settled) return settled;
  const job = jobOf(seen, subject);
  if (job?.status === 'ended') return job.settled.outcome;
  return job?.startedAt === undefined ? undefined : { outcome: 'started', at: job.startedAt };
}

export function endIn(seen: Observation, subject: Subject): End | undefined {
  if (isOfAnother(seen, subject)) return { status: 'never-started', outcome: MISMATCH };
  const settled = seen.dispatch && endOf(seen.dispatch);
  if (settled) return settled;
  const job = jobOf(seen, subject);
  return job?.status === 'ended' ? endOfEnding(job.settled) : undefined;
}

export function endOfEnding({ outcome, end }: Ending): RecordedEnd {
  return end ?? { status: 'never-started', outcome };
}

/** All that is known of a dispatch that is not where somebody waits for it to be, for the message of the error that says so. */
export function describeObservation(seen: Observation, subject: Subject): string {
  const { dispatch } = seen;
  const job = jobOf(seen, subject);
  if (job) return `${dispatch ? 'its' : 'it has no dispatch record, but its'} job "${job.key}" is ${placeOf(job)}`;
  if (!dispatch) return 'there is no record of it: its request may still wait in the queue, or was never sent, or its records have expired';
  if (seen.job?.next === subject.dispatchId) return `it waits for dispatch "${seen.job.dispatchId}" at key "${dispatch.key}" to end`;
  return `it is ${dispatch.status} at key "${dispatch.key}", and no job there is its own`;
}

function placeOf(job: Job): string {
  switch (job.status) {
    case 'pending':
      return `pending (${job.because}, attempt ${job.attempt})`;
    case 'assigned':
    case 'running':
    case 'stopping':
    case 'releasing':
      return `${job.status} at worker "${job.owner.worker}" (fence ${job.fence})`;
    case 'ended':
      return 'ended';
    default:
      return job satisfies never;
  }
}

function jobOf({ job }: Observation, { dispatchId }: Subject): Job | undefined {
  return job?.dispatchId === dispatchId ? job : undefined;
}

function isOfAnother(seen: Observation, subject: Subject): boolean {
  const records = [seen.dispatch, jobOf(seen, subject)];
  return records.some((record) => record && !isSameRequest(record, subject.key ?? record.key, subject.fingerprint));
}
