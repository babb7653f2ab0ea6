import { eventSource, type JobChangeEvent, type PoolEvent } from '../wire/index.ts';
import { type Dispatch, endOf, outcomeOf } from './dispatch.ts';
import { type EpochMs, isOwned, type Job } from './job.ts';
import type { WorkerRow } from './worker.ts';

/**
 * What one write of a record tells the world: for each record before × after, no event, one, or two.
 *
 * Authoritative is the record as it was written: an event says what became durable, and nothing that was merely decided. The same
 * write, read again, gives the same events under the same ids.
 *
 * A write that changes nothing which an event would show (a due time, a count of answers, a fence raised for a command, a
 * heartbeat) gives none. A record that is gone gives none either: nothing is applied by forgetting.
 */
export type RecordChange =
  | ({ readonly type: 'job' } & Change<Job>)
  | ({ readonly type: 'dispatch' } & Change<Dispatch>)
  | ({ readonly type: 'worker' } & Change<WorkerRow>);

interface Change<T> {
  /** Absent where there was none, or only an expired one. */
  readonly before?: T | undefined;
  readonly after: T;
  /** Of the record as it is after. One transaction gives its records the same. */
  readonly rev: string;
  readonly recordedAt: EpochMs;
}

/** Whose change it is. */
export interface PoolFacts {
  readonly pool: string;
  readonly generation: number;
}

/** The events of a change, in the order in which they are to be published. */
export function decideEvents(change: RecordChange, facts: PoolFacts): readonly PoolEvent[] {
  switch (change.type) {
    case 'job':
      return jobEvents(change, facts);
    case 'dispatch':
      return dispatchEvents(change, facts);
    case 'worker':
      return workerEvents(change, facts);
    default:
      return change satisfies never;
  }
}

function jobEvents({ before, after, rev, recordedAt }: Change<Job>, facts: PoolFacts): readonly PoolEvent[] {
  if (before && shown(before) === shown(after)) return [];
  const { key, dispatchId, status: to, fence } = after;
  const from = before?.dispatchId === dispatchId ? before : undefined;
  const why = whyOf(after);
  const worker = ownerOf(after) ?? (from && ownerOf(from));
  const detail = {
    ...({ v: 1, ...facts, id: rev, key, dispatchId } as const),
    ...(from && { from: from.status }),
    to,
    ...(why && { why }),
    ...(worker !== undefined && { worker }),
    ...{ fence, at: happenedAt(after, from) ?? recordedAt, recordedAt },
  };
  return [{ source: eventSource, 'detail-type': 'Holdfast Job Change', detail }];
}

/** What of a job an event shows. */
function shown(job: Job): string {
  return JSON.stringify([job.dispatchId, job.status, job.fence, whyOf(job), ownerOf(job)]);
}

function ownerOf(job: Job): string | undefined {
  return isOwned(job) ? job.owner.worker : undefined;
}

function whyOf(job: Job): JobChangeEvent['detail']['why'] {
  switch (job.status) {
    case 'pending':
      return job.because;
    case 'assigned':
    case 'running':
      return undefined;
    case 'stopping':
      return job.stopReason;
    case 'releasing':
      return job.releaseReason;
    case 'ended':
      return job.settled.end?.status ?? 'never-started';
    default:
      return job satisfies never;
  }
}

/** Where the record says when. A time that it had before is not that of this change: a job keeps the first one at which it was up. */
function happenedAt(job: Job, from: Job | undefined): EpochMs | undefined {
  switch (job.status) {
    case 'pending':
      return from ? undefined : job.admittedAt;
    case 'assigned':
      return from?.fence === job.fence ? undefined : job.assignedAt;
    case 'running':
      return from?.startedAt === undefined ? job.startedAt : undefined;
    case 'stopping':
      return job.stopRequestedAt;
    case 'releasing':
      return undefined;
    case 'ended':
      return job.settled.end?.finishedAt ?? job.recordedAt;
    default:
      return job satisfies never;
  }
}

/** An outcome and an end are told once each, when they come to be known; one write may settle both. */
function dispatchEvents({ before, after, rev, recordedAt }: Change<Dispatch>, facts: PoolFacts): readonly PoolEvent[] {
  const { key, dispatchId } = after;
  // One write may give its record two events, and the job's in the same transaction a third: each has an id of its own.
  const told = (what: string) => ({ v: 1, ...facts, id: `${rev}.${what}`, key, dispatchId, recordedAt }) as const;
  const outcome = before && outcomeOf(before) ? undefined : outcomeOf(after);
  const end = before && endOf(before) ? undefined : endOf(after);
  return [
    ...(outcome
      ? [{ source: eventSource, 'detail-type': 'Holdfast Dispatch Outcome', detail: { ...told('outcome'), ...outcome } } as const]
      : []),
    ...(end ? [{ source: eventSource, 'detail-type': 'Holdfast Dispatch End', detail: { ...told('end'), ...end } } as const] : []),
  ];
}

function workerEvents({ before, after, rev, recordedAt }: Change<WorkerRow>, facts: PoolFacts): readonly PoolEvent[] {
  const { workerId: worker, session, state: to } = after;
  const from = before?.session === session ? before.state : undefined;
  if (from === to) return [];
  const detail = { v: 1, ...facts, id: rev, worker, session, ...(from && { from }), to, recordedAt } as const;
  return [{ source: eventSource, 'detail-type': 'Holdfast Worker Change', detail }];
}
