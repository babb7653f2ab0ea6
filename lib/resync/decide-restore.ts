import { matches, type ReportContext } from '../pool/decide-report.ts';
import { type Decision, endingInWords, jobInWords, owed, settleEnd, summarize, tellStop } from '../pool/decision.ts';
import { type Dispatch, isSameRequest, settle } from '../pool/dispatch.ts';
import {
  type Ending,
  type EpochMs,
  type Fence,
  isOwned,
  type Job,
  type LiveJob,
  lastFence,
  type OwnedJob,
  settlementOf,
} from '../pool/job.ts';
import type { DispatchChange } from '../pool/ports.ts';
import { ended, running, stoppedEnding } from '../pool/transitions.ts';
import { isOwnerLost, type Owner, type PoolState, type WorkerRow } from '../pool/worker.ts';
import { type ConfirmedReport, fingerprintOf, type KeyBusyReport, type RunningJob } from '../wire/index.ts';

/**
 * Table "restoration": a job really runs there, and its records are missing or know less than its worker does (G5, P6).
 *
 * Two reports say so. `confirmed` brings all that is needed to write what is missing, and no more is written. What runs above
 * the record's fence takes the record's place, for only a table restored to an earlier moment knows of less. At or below it the record
 * stands: nothing is taken from another owner (P8), nothing that ended is revived. The other is a start refused as key-busy, by a
 * dispatch that is started and not ended while the record's own never was: it was admitted because the record of what runs was lost.
 *
 * All of it rests on the session's registration, on the pool's state and generation, and on each record as it was read; the transaction
 * holds only where all of that still is so (P7). Where a job must not run there its handler is told to stop; where it cannot be told
 * yet, or any more, nothing is done to it.
 */
export interface RestoreSnapshot {
  readonly job?: Job;
  /** Of the dispatch that really runs, and whether its payload is there. */
  readonly dispatch?: Dispatch;
  readonly hasPayload: boolean;
  /** Of the dispatch that the job record names, where that is another one. */
  readonly named?: Dispatch;
  /** Of the worker that reports. */
  readonly row?: WorkerRow;
  readonly pool: PoolState;
}

/** What one transaction writes. */
export interface Restoration {
  readonly key: string;
  /** Absent: the job record stays as it was read. */
  readonly job?: Job;
  /** Of the dispatch that really runs; with its payload where that is missing. */
  readonly dispatch: DispatchChange & { readonly payload?: Uint8Array };
  /** Of the dispatch that the job record named instead. */
  readonly displaced?: DispatchChange;
  /** The registration, and the generation of both it and the pool. */
  readonly by: Owner & { readonly generation: number };
  /** What the operator is told of it, where the pool is being recovered. */
  readonly recovered?: Recovered;
}

/** What one restoration came to in a recovery: a record was missing, or knew an earlier assignment, or another dispatch. */
export interface Recovered {
  readonly key: string;
  readonly dispatchId: string;
  readonly worker: string;
  readonly fence: Fence;
  readonly how: 'restored' | 'raised' | 'replaced';
  /** The dispatch that ended by it as `lost-in-restore`. */
  readonly lost?: string;
}

/** As any decision, with a restoration in place of the commit. */
export interface RestoreDecision extends Pick<Decision, 'rule' | 'before' | 'effects'> {
  readonly restoration?: Restoration;
}

export function decideRestore(snapshot: RestoreSnapshot, report: ConfirmedReport, context: ReportContext): RestoreDecision {
  const { job, dispatch } = snapshot;
  const again = job?.status === 'ended' ? owed(job, context.now) : [];
  const unchanged = (rule: string): RestoreDecision => ({ rule, effects: again });
  const refused = (rule: string): RestoreDecision => ({ rule, effects: [tellStop(report.session, report), ...again] });
  const restored = (rule: string): RestoreDecision => restore(snapshot, report, ownerOf(report), rule, context);

  if (fingerprintOf(report.key, report.payload) !== report.fingerprint) return unchanged('confirmed with another payload');
  const obstacle = obstacleTo(snapshot, report, ownerOf(report));
  if (obstacle === 'other generation') return tooEarly(report);
  // Whatever ran there went with the session, and nobody is left to be told.
  if (obstacle === 'session over') return unchanged('confirmed by a session that is over');
  // A pool is closed to what is new. What is on record here runs on, and what of it is missing is missing until the pool opens.
  if (obstacle === 'pool closed' && job && isOwned(job) && isRecorded(job, report))
    return {
      rule: 'confirmed, pool closed',
      effects: job.status === 'stopping' || job.status === 'releasing' ? owed(job, context.now) : [],
    };
  if (obstacle) return refused(`confirmed, ${obstacle}`);
  if (!job) return restored('restored');
  if (job.dispatchId === report.dispatchId) {
    if (job.status === 'ended') return refused('confirmed after its end');
    if (report.fence > job.fence) return restored('restored, fence raised');
    const isHere = isOwned(job) && job.owner.worker === report.worker;
    // Assigned here once more: that start is on its way, and raises the fence.
    if (report.fence < job.fence) return isHere ? unchanged('confirmed, assigned since') : refused('confirmed below the record');
    return isHere || job.status === 'pending' ? restored('completed') : refused('confirmed, owned by another');
  }
  if (report.fence > job.fence) return restored('restored over another dispatch');
  if (job.status === 'ended' && job.next === undefined) return restored('restored over an end');
  // Its record was lost, and it is not to be stopped for one that came later; nor is it known whether this is older than the record.
  const isUnseen = job.status === 'ended' || (job.startedAt === undefined && (!isOwned(job) || job.owner.session === report.session));
  return isUnseen && dispatch?.status === 'started' ? unchanged('confirmed, not answered') : refused('confirmed beside another');
}

/** A start that was refused as key-busy. Undefined: that cost no record, and it is a report like any other. */
export function decideHolder(snapshot: RestoreSnapshot, report: KeyBusyReport, context: ReportContext): RestoreDecision | undefined {
  const { job, dispatch, named } = snapshot;
  // Repeated by a later session it says nothing of what runs: that one registered once every handler of its worker had stopped.
  if (!job || !isOwned(job) || !matches(job, report) || job.owner.session !== report.session) return undefined;
  const neverStarted = job.startedAt === undefined && named?.status !== 'started';
  if (!neverStarted || dispatch?.status !== 'started') return undefined;
  const runs = { ...report.running, key: report.key };
  const obstacle = obstacleTo(snapshot, runs, ownerOf(report));
  if (obstacle) return obstacle === 'other generation' ? tooEarly(report) : undefined;

  const { dispatchId, fingerprint } = runs;
  const holder = { dispatchId, sameRequest: fingerprint === job.fingerprint };
  const ending: Ending =
    job.status === 'stopping'
      ? stoppedEnding(undefined, context.now, job.stopReason)
      : { outcome: { outcome: 'refused', reason: 'key-busy', holder } };
  return restore(snapshot, runs, ownerOf(report), 'holder restored', context, ending);
}

/** What really runs. */
type Runs = RunningJob & { readonly key: string; readonly payload?: Uint8Array };

/** Whether the job is the one that is reported, under the same fence at the same worker. */
function isRecorded({ dispatchId, fingerprint, fence, owner }: OwnedJob, report: ConfirmedReport): boolean {
  const isSame = dispatchId === report.dispatchId && fingerprint === report.fingerprint && fence === report.fence;
  return isSame && owner.worker === report.worker && owner.session === report.session;
}

function ownerOf({ worker, session }: Owner): Owner {
  return { worker, session };
}

/** What is in the way of restoring, whichever dispatch the job record names. */
function obstacleTo({ row, pool, dispatch, job }: RestoreSnapshot, { key, dispatchId, fingerprint }: Runs, owner: Owner) {
  if (!row || isOwnerLost(row, owner)) return 'session over';
  if (pool.state === 'closed') return 'pool closed';
  if (row.generation !== pool.generation) return 'other generation';
  if (dispatch && !isSameRequest(dispatch, key, fingerprint)) return 'another request';
  if (job?.dispatchId === dispatchId && job.fingerprint !== fingerprint) return 'another request';
  return dispatch?.status === 'ended' || dispatch?.status === 'never-started' ? 'its dispatch is over' : undefined;
}

/** The row is stamped by `registered`, or by the sweep; until then the report comes again. */
function tooEarly({ worker, key }: ConfirmedReport | KeyBusyReport): RestoreDecision {
  const message = `job ${JSON.stringify(key)} runs at worker ${JSON.stringify(worker)}, which was not seen in this generation of the pool yet`;
  return { rule: 'confirmed, other generation', effects: [{ type: 'fail', code: 'unavailable', message }] };
}

/** `ending`: of the dispatch that the record names instead. */
function restore(
  snapshot: RestoreSnapshot,
  runs: Runs,
  owner: Owner,
  rule: string,
  context: ReportContext,
  ending?: Ending,
): RestoreDecision {
  const { job, dispatch, hasPayload, pool } = snapshot;
  const { key, dispatchId, fingerprint, payload } = runs;
  const isNamed = job?.dispatchId === dispatchId;
  const since = dispatch?.status === 'started' ? dispatch.outcome.at : ((isNamed ? job.startedAt : undefined) ?? runs.startedAt);
  const requestedAt = dispatch?.requestedAt ?? (isNamed ? job.admittedAt : since);
  const there = jobThere(job, runs, owner, since, requestedAt);

  const stands = there ?? job;
  const effects = stands && stands.status !== 'running' ? owed(stands, context.now) : [];
  const isMissing = there !== undefined || dispatch?.status !== 'started' || (payload !== undefined && !hasPayload);
  if (!isMissing) return { rule: 'confirmed as recorded', effects };

  const displaced = job && !isNamed && job.status !== 'ended' ? displace(job, snapshot.named, context, ending) : undefined;
  return {
    rule,
    before: job?.status === 'ended' ? [settleEnd(job)] : [],
    restoration: {
      key,
      ...(there ? { job: there } : {}),
      dispatch: {
        next: {
          ...{ status: 'started', dispatchId, key, fingerprint, requestedAt },
          fence: Math.max(runs.fence, dispatch?.fence ?? 0),
          outcome: { outcome: 'started', at: since },
        },
        expected: dispatch?.status ?? 'absent',
        ...(payload && !hasPayload ? { payload } : {}),
      },
      ...(displaced ? { displaced } : {}),
      by: { ...owner, generation: pool.generation },
      ...(pool.state === 'recovering' ? { recovered: recoveredBy(job, runs, owner, ending ? undefined : displaced) } : {}),
    },
    effects,
  };
}

function recoveredBy(job: Job | undefined, { key, dispatchId, fence }: Runs, { worker }: Owner, displaced?: DispatchChange): Recovered {
  const isOther = job !== undefined && job.dispatchId !== dispatchId;
  const how = isOther ? 'replaced' : job && job.fence < fence ? 'raised' : 'restored';
  return { key, dispatchId, worker, fence, how, ...(displaced ? { lost: displaced.next.dispatchId } : {}) };
}

/** The job record as it has to be; undefined where it is. */
function jobThere(job: Job | undefined, runs: Runs, owner: Owner, since: EpochMs, admittedAt: EpochMs): OwnedJob | undefined {
  const { key, dispatchId, fingerprint, fence, startedAt: assignedAt } = runs;
  if (!job || job.status === 'ended' || job.dispatchId !== dispatchId) {
    const next = job?.next === undefined || job.next === dispatchId ? {} : { next: job.next };
    const above = job && lastFence(job) > fence ? { above: lastFence(job) } : {};
    const there = { ...{ key, dispatchId, fingerprint, fence }, ...above, attempt: 1, admittedAt, ...next, owner, assignedAt };
    return running({ ...there, status: 'assigned' }, since);
  }
  if (job.fence === fence) {
    // Nobody owns it, and that it was let go is the later news.
    if (job.status === 'pending' || (job.status !== 'assigned' && job.startedAt !== undefined)) return undefined;
    return job.status === 'assigned' ? running(job, since) : { ...job, startedAt: since };
  }
  // A stop that was asked for is asked for still, of whoever has the job.
  if (job.status === 'stopping') return { ...job, fence, owner, startedAt: since };
  return running({ ...job, status: 'assigned', fence, owner, assignedAt }, since);
}

/** The record that says so of a dispatch that does not run, or ran where nobody knows of it any more. */
function displace(
  job: LiveJob,
  named: Dispatch | undefined,
  { now, settings }: ReportContext,
  ending?: Ending,
): DispatchChange | undefined {
  const startedAt = named?.status === 'started' ? named.outcome.at : job.startedAt;
  const lost: Ending =
    startedAt === undefined
      ? { outcome: { outcome: 'start-failed', error: LOST_IN_RESTORE, attempts: job.attempt } }
      : { outcome: { outcome: 'started', at: startedAt }, end: { status: 'failed', finishedAt: now, error: LOST_IN_RESTORE } };
  const next = settle(named, settlementOf(ended(job, ending ?? lost, now)), now + settings.retentionMs);
  return next && { next, expected: named?.status ?? 'absent' };
}

const LOST_IN_RESTORE = {
  code: 'lost-in-restore',
  message: 'another dispatch really ran at the key, under a higher fence than the record knew',
};

/** In one line, for the log and the tables. */
export function inWords({ rule, before = [], restoration, effects = [] }: RestoreDecision): string {
  const steps = [
    ...(before.length > 0 ? [summarize({ rule, before })] : []),
    ...(restoration ? [`restore: ${recordsInWords(restoration)}`] : []),
    ...(effects.length > 0 ? [summarize({ rule, effects })] : []),
  ];
  return steps.length === 0 ? 'nothing' : steps.join('; ');
}

function recordsInWords({ job, dispatch, displaced }: Restoration): string {
  const records = [...(job ? [jobInWords(job)] : []), `${dispatch.next.dispatchId} started${dispatch.payload ? ', its payload' : ''}`];
  if (displaced) records.push(`${displaced.next.dispatchId} ${dispatchInWords(displaced.next)}`);
  return records.join('; ');
}

function dispatchInWords(dispatch: Dispatch): string {
  return dispatch.status === 'admitted' ? dispatch.status : endingInWords(dispatch);
}
