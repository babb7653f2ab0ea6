import type { EndedBy, JobEnd, NotStarted, Settlement, Started } from './dispatch.ts';
import type { Owner } from './worker.ts';

/** Milliseconds since 1970, UTC. */
export type EpochMs = number;

/** Fencing token: rises at every assignment of a key. Always a safe integer; 0 where a key was never assigned. */
export type Fence = number;

/**
 * The live job of a key, or how its last one ended. At most one record per key; `dispatchId` says whose it is.
 *
 *     pending ──► assigned ──► running ──► ended
 *        ▲           │            │          ▲
 *        │           ├── releasing┤          │
 *        └───────────┴────────────┴─ stopping┘
 *
 * A variant has exactly the fields that mean something in it: an owner from assignment until it is released (R8: no stale
 * allocation reaches the next assignment), a due time while it waits.
 */
export type Job = PendingJob | OwnedJob | EndedJob;
export type OwnedJob = AssignedJob | RunningJob | StoppingJob | ReleasingJob;
export type LiveJob = PendingJob | OwnedJob;

interface JobHead {
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  /** The last fence given at this key, to this dispatch or to one before it; but see `above`. */
  readonly fence: Fence;
  /** A higher one that was given at this key, before what really runs there was restored under its own. */
  readonly above?: Fence;
  /** Starts at 1, rises per retry and restart; moves, refusals and take-overs do not count. */
  readonly attempt: number;
  readonly admittedAt: EpochMs;
  /** Since when the dispatch first ran, as reported. Known: its outcome is started, and it ends failed or stopped. */
  readonly startedAt?: EpochMs;
  /** Dispatch id waiting for this one to end; one place. */
  readonly next?: string;
  readonly plan?: string;
}

export interface PendingJob extends JobHead {
  readonly status: 'pending';
  readonly because: PendingBecause;
  /** Not before this time is it assigned; the index of waiting jobs is sorted by it. */
  readonly dueAt: EpochMs;
  /** The worker that just failed it: another one is preferred. */
  readonly avoid?: string;
  /** The only place it may go, because its handler may still be alive there. */
  readonly only?: Owner;
  /** How often in a row `only` answered key-busy. */
  readonly busyAnswers?: number;
}
export type PendingBecause = 'admitted' | 'released' | 'start-failed' | 'owner-lost' | 'unrecognized' | 'restart' | 'refused';

interface OwnedHead extends JobHead {
  readonly owner: Owner;
  readonly assignedAt: EpochMs;
  /** Of the pool, when it was assigned. Absent: not known, as of an earlier one than the pool's. */
  readonly generation?: number;
  /** How often in a row this owner answered key-busy, so that an alarm can tell a stuck key. */
  readonly busyAnswers?: number;
}
export interface AssignedJob extends OwnedHead {
  readonly status: 'assigned';
}
export interface RunningJob extends OwnedHead {
  readonly status: 'running';
  readonly startedAt: EpochMs;
}
export interface StoppingJob extends OwnedHead {
  readonly status: 'stopping';
  readonly stopReason: EndedBy;
  readonly stopRequestedAt: EpochMs;
}
export interface ReleasingJob extends OwnedHead {
  readonly status: 'releasing';
  readonly releaseReason: 'moved' | 'worker-draining';
}

/** What is known for ever of the last dispatch at the key; whatever would overwrite it settles it first. */
export interface EndedJob extends JobHead {
  readonly status: 'ended';
  readonly settled: Ending;
  readonly recordedAt: EpochMs;
}

/** Outcome and end of a dispatch together: it started and ended, or it never started. */
export type Ending = { readonly outcome: Started; readonly end: JobEnd } | { readonly outcome: NotStarted; readonly end?: undefined };

export function isLive(job: Job): job is LiveJob {
  return job.status !== 'ended';
}

export function isOwned(job: Job): job is OwnedJob {
  return job.status !== 'pending' && job.status !== 'ended';
}

/** Assigned before the pool was last recovered: it may be of a record that was put back, and a higher fence was given since. */
export function isOutdated({ generation = 0 }: AssignedJob, current: number): boolean {
  return generation < current;
}

/** The highest fence that is known to have been given at the key. */
export function lastFence({ fence, above = 0 }: Pick<Job, 'fence' | 'above'>): Fence {
  return Math.max(fence, above);
}

/** The fence of the next assignment: rising, also across a record that was lost. */
export function nextFence(previous: Fence, now: EpochMs): Fence {
  return Math.max(previous + 1, now);
}

/** The settlement that an ended job's dispatch is owed; the same one however often it is asked for. */
export function settlementOf(job: EndedJob): Settlement {
  const { dispatchId, key, fingerprint, fence, admittedAt: requestedAt } = job;
  return { dispatchId, key, fingerprint, fence, requestedAt, ...job.settled };
}
