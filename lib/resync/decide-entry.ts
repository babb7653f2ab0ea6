import { decideReport, decideUp, type JobReport, type ReportContext, type ReportSnapshot } from '../pool/decide-report.ts';
import { assignRequest, type Decision, owed, tellStop } from '../pool/decision.ts';
import { type EpochMs, isOutdated, type OwnedJob } from '../pool/job.ts';
import { ended, pending, running, stoppedEnding } from '../pool/transitions.ts';
import { isPresent, type PoolState, type WorkerRow } from '../pool/worker.ts';
import type { ResyncEntry, ResyncReport } from '../wire/index.ts';
import type { Asked } from './round.ts';

/**
 * Table 5: one entry of a worker's answer and the record of its key.
 *
 * An end is routed as the report of its kind (R4), with the time that the worker reported. What is left are two questions that only a
 * round can ask. *It runs there: does the record agree?* If it does there is no new fact (R5); if nobody owns the job and it
 * was taken from this very session, the session has it back (R9); a record that knows less than the worker is asked to be
 * confirmed; in all other cases nothing is stolen or revived (R10). *It does not run there: has it been lost?* Only where the owner
 * had confirmed it when the round was armed (R8); before that its start may still be on its way (F33).
 */
export interface EntrySnapshot extends ReportSnapshot {
  /** The row of the worker that answers. */
  readonly row?: WorkerRow;
  readonly pool: PoolState;
}

/** How the entry came: asked about on this page, or found running without being asked. */
export type Answering = Pick<ResyncReport, 'worker' | 'session' | 'at'> & { readonly asked?: Asked };

export function decideEntry(snapshot: EntrySnapshot, entry: ResyncEntry, answering: Answering, context: ReportContext): Decision {
  switch (entry.state) {
    case 'starting':
      return { rule: 'entry starting' };
    case 'running':
      return decideRunning(snapshot, entry, answering, context);
    case 'unrecognized':
      return decideUnrecognized(snapshot, answering, context);
    default:
      return decideReport(snapshot, asReport(entry, answering), context);
  }
}

function decideRunning(
  snapshot: EntrySnapshot,
  entry: ResyncEntry & { state: 'running' },
  answering: Answering,
  context: ReportContext,
): Decision {
  const { job, row } = snapshot;
  const { now } = context;
  const report = asReport(entry, answering);
  // The worker knows more than the record, and is asked for it.
  if (!job || entry.fence > job.fence) return decideReport(snapshot, report, context);
  const isSame = job.dispatchId === entry.dispatchId && job.fingerprint === entry.fingerprint;

  if (isSame && job.status === 'pending') {
    const wasTaken = job.fence === entry.fence && (job.because === 'owner-lost' || job.because === 'unrecognized');
    if (answering.asked || !wasTaken || !isHere(row, answering)) return { rule: 'entry overtaken' };
    const owner = { worker: answering.worker, session: answering.session };
    const next = running({ ...job, status: 'assigned', owner, assignedAt: now }, entry.startedAt);
    return { rule: 'entry adopted', next, effects: owed(next, now) };
  }
  if (isSame && job.status !== 'ended' && job.status !== 'pending' && job.owner.worker === answering.worker) {
    // Assigned anew here since: that start is on its way and raises the fence.
    if (entry.fence < job.fence) return { rule: 'entry assigned since' };
    const { worker, session } = answering;
    return decideHere({ ...job, owner: { worker, session } }, entry, now, job.owner.session !== session);
  }
  // It runs on although its end is recorded; a late report says the same of a job that has ended by now, an entry cannot.
  if (isSame && job.status === 'ended')
    return { rule: 'entry runs after its end', effects: [tellStop(answering.session, entry), ...owed(job, now)] };
  return decideReport(snapshot, report, context);
}

/** The record and the worker agree on who runs what; `taken`: from a previous session of the worker. */
function decideHere(job: OwnedJob, entry: ResyncEntry & { state: 'running' }, now: EpochMs, taken: boolean): Decision {
  if (job.status === 'running') return taken ? { rule: 'entry taken over', next: job } : { rule: 'entry agrees' };
  const up = decideUp(job, entry.startedAt, now, `entry running at ${job.status}`);
  return taken ? { next: job, ...up } : up;
}

function decideUnrecognized({ job, pool }: EntrySnapshot, { asked, worker, session }: Answering, { now }: ReportContext): Decision {
  if (!job || !asked) return { rule: 'entry of nothing' };
  if (job.status === 'pending') return { rule: 'entry waits already', effects: owed(job, now) };
  if (job.status === 'ended' || job.owner.worker !== worker)
    return { rule: 'entry moved on', effects: job.status === 'ended' && job.fence === asked.fence ? owed(job, now) : [] };
  // Only the request function declares an owner lost; it will see the session replaced.
  if (job.owner.session !== session) return { rule: 'entry of a previous session', effects: [assignRequest(job.key)] };
  if (job.fence !== asked.fence) return { rule: 'entry moved on' };
  if (!asked.running || job.status === 'assigned') {
    // In a table that was put back this may be an earlier assignment than the one that runs elsewhere, or than one that ran since.
    const isHeld = job.status === 'running' || (job.status === 'assigned' && pool.state === 'recovering');
    if (!isHeld && job.status === 'assigned' && isOutdated(job, pool.generation))
      return { rule: 'entry assigned before', effects: [assignRequest(job.key)] };
    return { rule: 'entry not yet running', effects: isHeld ? [] : owed(job, now) };
  }
  switch (job.status) {
    case 'running':
    case 'releasing': {
      const next = pending(job, 'unrecognized', now);
      return { rule: 'entry unrecognized', next, effects: owed(next, now) };
    }
    case 'stopping': {
      const next = ended(job, stoppedEnding(job.startedAt, now, job.stopReason), now);
      return { rule: 'entry unrecognized, stopping', next, effects: owed(next, now) };
    }
    default:
      return job satisfies never;
  }
}

function isHere(row: WorkerRow | undefined, { session }: Answering): boolean {
  return row?.session === session && isPresent(row);
}

/** The report that the entry repeats. */
export function asReport(
  entry: Exclude<ResyncEntry, { state: 'starting' | 'unrecognized' }>,
  { worker, session, at }: Answering,
): JobReport {
  const { key, dispatchId, fingerprint, fence } = entry;
  const said = { key, dispatchId, fingerprint, fence, worker, session };
  switch (entry.state) {
    case 'running':
      return { ...said, type: 'started', at, startedAt: entry.startedAt };
    case 'succeeded': {
      const { startedAt, finishedAt, result, resultOmitted } = entry;
      const kept = { ...(result === undefined ? {} : { result }), ...(resultOmitted ? { resultOmitted } : {}) };
      return { ...said, ...kept, type: 'finished', at: finishedAt, startedAt };
    }
    case 'failed':
      return { ...said, type: 'finished', at: entry.finishedAt, startedAt: entry.startedAt, error: entry.error };
    case 'start-failed':
      return { ...said, type: 'start-failed', at: entry.finishedAt, error: entry.error };
    case 'stopped':
    case 'released':
      return { ...said, type: entry.state, at: entry.finishedAt, ...(entry.startedAt === undefined ? {} : { startedAt: entry.startedAt }) };
    case 'refused': {
      const { state, ...refusal } = entry;
      return { ...refusal, ...said, type: state, at };
    }
    default:
      return entry satisfies never;
  }
}
