import type { End, EndedBy, Outcome } from '../pool/dispatch.ts';
import type { EpochMs, Fence, Job, LiveJob, PendingBecause } from '../pool/job.ts';
import type { Owner, WorkerRow } from '../pool/worker.ts';
import { endOfEnding } from './observation.ts';

export type JobStatus = Job['status'];
export type LiveJobStatus = LiveJob['status'];

interface Described {
  readonly key: string;
  readonly dispatchId: string;
  /** SHA-256 over key and payload, hex. */
  readonly fingerprint: string;
  /** Fencing token of the last assignment; 0 before the first. */
  readonly fence: Fence;
  /** 1 for the first try; rises with each retry or restart. */
  readonly attempt: number;
  readonly admittedAt: EpochMs;
  /** Since when the dispatch first ran; absent where it never did. */
  readonly startedAt?: EpochMs;
  /** The dispatch that waits for this one to end. */
  readonly next?: string;
  readonly plan?: string;
}

interface OwnedDescription extends Described {
  /** The worker, and the session (registration) of it, that has the job. */
  readonly owner: Owner;
  readonly assignedAt: EpochMs;
}

/** The record of a key's job as it is now, or of how its last one ended. */
export type JobDescription =
  | (Described & { readonly status: 'pending'; readonly because: PendingBecause; readonly dueAt: EpochMs; readonly only?: Owner })
  | (OwnedDescription & { readonly status: 'assigned' | 'running' })
  | (OwnedDescription & { readonly status: 'stopping'; readonly stopReason: EndedBy; readonly stopRequestedAt: EpochMs })
  | (OwnedDescription & { readonly status: 'releasing'; readonly releaseReason: 'moved' | 'worker-draining' })
  | (Described & { readonly status: 'ended'; readonly outcome: Outcome; readonly end: End; readonly recordedAt: EpochMs });

export type WorkerState = WorkerRow['state'];

/** The row of one worker as it is now. */
export interface WorkerDescription {
  readonly workerId: string;
  /** Names this registration of the worker. */
  readonly session: string;
  readonly state: WorkerState;
  /** Jobs up at its last heartbeat. */
  readonly running: number;
  /** Jobs at most. */
  readonly capacity: number;
  readonly leaseMs: number;
  /** Rises with every heartbeat. */
  readonly beat: number;
  readonly registeredAt: EpochMs;
  /** The pool generation that it was seen in; absent until the control plane has seen it, and no job goes there before. */
  readonly generation?: number;
}

export function describeJob(job: Job): JobDescription {
  const { key, dispatchId, fingerprint, fence, attempt, admittedAt, startedAt, next, plan } = job;
  const described = {
    ...{ key, dispatchId, fingerprint, fence, attempt, admittedAt },
    ...(startedAt !== undefined && { startedAt }),
    ...(next !== undefined && { next }),
    ...(plan !== undefined && { plan }),
  };
  switch (job.status) {
    case 'pending': {
      const { status, because, dueAt, only } = job;
      return { ...described, status, because, dueAt, ...(only && { only }) };
    }
    case 'assigned':
    case 'running': {
      const { status, owner, assignedAt } = job;
      return { ...described, status, owner, assignedAt };
    }
    case 'stopping': {
      const { status, owner, assignedAt, stopReason, stopRequestedAt } = job;
      return { ...described, status, owner, assignedAt, stopReason, stopRequestedAt };
    }
    case 'releasing': {
      const { status, owner, assignedAt, releaseReason } = job;
      return { ...described, status, owner, assignedAt, releaseReason };
    }
    case 'ended': {
      const { status, settled, recordedAt } = job;
      return { ...described, status, outcome: settled.outcome, end: endOfEnding(settled), recordedAt };
    }
    default:
      return job satisfies never;
  }
}

export function describeWorker(row: WorkerRow): WorkerDescription {
  const { workerId, session, state, running, capacity, leaseMs, beat, registeredAt, generation } = row;
  return {
    ...{ workerId, session, state, running, capacity, leaseMs, beat, registeredAt },
    ...(generation !== undefined && { generation }),
  };
}
