import type { EndedBy, NotStarted } from './dispatch.ts';
import {
  type AssignedJob,
  type EndedJob,
  type Ending,
  type EpochMs,
  type Fence,
  type Job,
  type LiveJob,
  lastFence,
  nextFence,
  type OwnedJob,
  type PendingBecause,
  type PendingJob,
  type ReleasingJob,
  type RunningJob,
  type StoppingJob,
} from './job.ts';
import type { Owner } from './worker.ts';

/** The only ways from one state of a job to another: each takes what it leaves and returns a whole new value. */

/** What stays with a dispatch through all its states; a variant's own fields do not. */
function head({ key, dispatchId, fingerprint, fence, above, attempt, admittedAt, startedAt, next, plan }: Job) {
  return {
    key,
    dispatchId,
    fingerprint,
    fence,
    ...(above === undefined ? {} : { above }),
    attempt,
    admittedAt,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(next === undefined ? {} : { next }),
    ...(plan === undefined ? {} : { plan }),
  };
}

/** What stays besides as long as it is the same assignment. */
function assignment(job: OwnedJob) {
  const { owner, assignedAt, generation } = job;
  return { ...head(job), owner, assignedAt, ...(generation === undefined ? {} : { generation }) };
}

/** A dispatch at its key's turn, whatever was there before: everything fresh but the fence. */
export function admitted(
  dispatch: { readonly dispatchId: string; readonly key: string; readonly fingerprint: string },
  fence: Fence,
  now: EpochMs,
  dueAt: EpochMs,
): PendingJob {
  const { dispatchId, key, fingerprint } = dispatch;
  return { status: 'pending', because: 'admitted', key, dispatchId, fingerprint, fence, attempt: 1, admittedAt: now, dueAt };
}

export function assigned(job: LiveJob, owner: Owner, generation: number, now: EpochMs): AssignedJob {
  const { above: _, ...kept } = head(job);
  const busyAnswers = job.busyAnswers === undefined ? {} : { busyAnswers: job.busyAnswers };
  return { ...kept, ...busyAnswers, status: 'assigned', owner, fence: nextFence(lastFence(job), now), assignedAt: now, generation };
}

/** Assigned as it was, under the same fence: what was asked of its owner since is off. */
export function assignedAs(job: OwnedJob): AssignedJob {
  return { ...assignment(job), status: 'assigned' };
}

export function running(job: OwnedJob, startedAt: EpochMs): RunningJob {
  return { ...assignment(job), status: 'running', startedAt: job.startedAt ?? startedAt };
}

export function stopping(job: OwnedJob, stopReason: EndedBy, now: EpochMs): StoppingJob {
  return { ...assignment(job), status: 'stopping', stopReason, stopRequestedAt: now };
}

export function releasing(job: OwnedJob, releaseReason: ReleasingJob['releaseReason']): ReleasingJob {
  return { ...assignment(job), status: 'releasing', releaseReason };
}

/** Waiting again. Its owner is gone from the record, so that no stale allocation reaches the next assignment (R8). */
export function pending(
  job: LiveJob,
  because: PendingBecause,
  dueAt: EpochMs,
  more: Partial<Pick<PendingJob, 'attempt' | 'avoid' | 'only' | 'busyAnswers' | 'startedAt'>> = {},
): PendingJob {
  return { ...head(job), status: 'pending', because, dueAt, ...more };
}

export function ended(job: LiveJob, settled: Ending, now: EpochMs): EndedJob {
  const startedAt = settled.end ? { startedAt: settled.outcome.at } : {};
  return { ...head(job), ...startedAt, status: 'ended', settled, recordedAt: now };
}

/** How a job ends that is stopped: as stopped where it ever ran, else as never started. */
export function stoppedEnding(startedAt: EpochMs | undefined, finishedAt: EpochMs, reason: EndedBy): Ending {
  if (startedAt !== undefined) return { outcome: { outcome: 'started', at: startedAt }, end: { status: 'stopped', finishedAt, reason } };
  return { outcome: cancelledBy(reason) };
}

export function cancelledBy(reason: EndedBy): NotStarted {
  return { outcome: 'cancelled', by: reason === 'replaced' ? 'superseded' : 'stop' };
}

export function withNext<J extends Job>(job: J, next: string | undefined): J {
  const { next: _, ...rest } = job;
  return (next === undefined ? rest : { ...rest, next }) as J;
}
