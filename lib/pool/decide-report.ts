import type { ConfirmedReport, FactReport, JobError } from '../wire/index.ts';
import { askToConfirm, type Context, type Decision, type Effect, owed, settleStarted, tellStop } from './decision.ts';
import type { Dispatch } from './dispatch.ts';
import type { Ending, EpochMs, Job, LiveJob, OwnedJob, PendingJob } from './job.ts';
import type { PoolSettings } from './settings.ts';
import { assignedAs, ended, pending, running, stoppedEnding } from './transitions.ts';

/**
 * Table 2: a report and the record of its key. A report settles a job or makes it wait; it never assigns.
 *
 * A matching report is read as an *answer* (`answerOf`): the job is up, it is over, it has to be tried again, or nothing changed; a
 * job that is being stopped is over by whatever answers the stop. One that waits has overtaken most answers; one that ended
 * repeats what it owes (decision.ts). A report that does not match settles at most the end of a dispatch
 * that no job names, and tells a handler that must not run to stop.
 */
export interface ReportSnapshot {
  readonly job?: Job;
  /** Of the report's dispatch, where the job record does not answer for it. */
  readonly dispatch?: Dispatch;
  /** Of the dispatch that holds the key at the worker, where a start was refused as key-busy. */
  readonly holder?: Dispatch;
}

/** A report that settles a job or makes it wait. `confirmed`, which only answers, restores what is missing. */
export type JobReport = Exclude<FactReport, ConfirmedReport>;

/** A report that says that no handler is alive; true of the worker whatever session it has by now. */
type EndReport = Extract<JobReport, { readonly type: 'finished' | 'stopped' | 'start-failed' | 'released' }>;

function isEnd(report: JobReport): report is EndReport {
  return report.type === 'finished' || report.type === 'stopped' || report.type === 'start-failed' || report.type === 'released';
}

/** All that a report is judged by besides the records: it places nothing, so it knows no workers. */
export type ReportContext = Pick<Context, 'now' | 'settings'>;

/** Whether the report speaks of what the record speaks of: the same dispatch and fence and, where there is one, the owner. */
export function matches(job: Job, report: JobReport): boolean {
  if (job.dispatchId !== report.dispatchId || job.fence !== report.fence) return false;
  if (job.status === 'pending' || job.status === 'ended') return true;
  // An end and a refusal are of exactly that fence, and the worker remembers them over its sessions: a round may ask a later one.
  const isForGood = isEnd(report) || report.type === 'refused';
  return job.owner.worker === report.worker && (isForGood || job.owner.session === report.session);
}

/** Which dispatch records the decider has to see: most reports match, and need none. */
export function namedByReport(report: JobReport, job: Job | undefined): { readonly dispatch?: string; readonly holder?: string } {
  const holder = report.type === 'refused' && report.reason === 'key-busy' ? { holder: report.running.dispatchId } : {};
  return job && matches(job, report) ? holder : { dispatch: report.dispatchId, ...holder };
}

export function decideReport(snapshot: ReportSnapshot, report: JobReport, context: ReportContext): Decision {
  const { job, holder } = snapshot;
  if (job && matches(job, report)) return decideMatching(job, report, holder, context);
  if (job && report.fence > job.fence) {
    // A table restored to an earlier moment: the worker knows more than the record.
    const again = job.status === 'ended' ? owed(job, context.now) : [];
    if (report.type === 'started') return { rule: 'started above the record', effects: [askToConfirm(report.session, report), ...again] };
    const isSame = job.dispatchId === report.dispatchId;
    if (isSame && isEnd(report) && job.status !== 'ended') return decideMatching(withFenceOf(report, job), report, holder, context);
  }
  return decideUnmatched(snapshot, report, context);
}

type Answer =
  | { readonly type: 'up'; readonly startedAt: EpochMs }
  | { readonly type: 'over'; readonly ending: Ending }
  | { readonly type: 'again'; readonly because: PendingJob['because']; readonly dueAt: EpochMs; readonly attempt: number }
  | { readonly type: 'unchanged' };

function answerOf(job: LiveJob, report: JobReport, { now, settings }: ReportContext): Answer {
  const again = (because: PendingJob['because'], delayMs: number, attempt = job.attempt): Answer => ({
    type: 'again',
    because,
    dueAt: now + delayMs,
    attempt,
  });
  if (job.status === 'stopping' && (isEnd(report) || report.type === 'refused')) {
    // It ends by whatever answers the stop; as stopped, unless it was quicker to end by itself.
    const ending =
      report.type === 'finished' ? endingOf(report, job) : stoppedEnding(job.startedAt ?? report.startedAt, report.at, job.stopReason);
    return { type: 'over', ending };
  }
  switch (report.type) {
    case 'started':
      return { type: 'up', startedAt: report.startedAt };
    case 'start-failed':
    case 'finished': {
      const delayMs = report.error && retryDelayOf(report.type, report.error, job.attempt, settings);
      if (delayMs === undefined) return { type: 'over', ending: endingOf(report, job) };
      return again(report.type === 'finished' ? 'restart' : 'start-failed', delayMs, job.attempt + 1);
    }
    case 'released':
    case 'stopped':
      return again('released', 0);
    case 'refused':
      // The job keeps running there, as whatever it was started with.
      if (report.reason === 'fingerprint-mismatch' && job.status === 'running') return { type: 'unchanged' };
      return again('refused', settings.refusedDelayMs);
    case 'stop-failed':
      return { type: 'unchanged' };
    default:
      return report satisfies never;
  }
}

function decideMatching(job: Job, report: JobReport, holder: Dispatch | undefined, context: ReportContext): Decision {
  const { now } = context;
  if (job.status === 'ended') return { rule: `${report.type} repeated`, effects: owed(job, now) };
  // A job that waits for its restart counts the attempt to come; the report that comes again is about the one before.
  const restarts = job.status === 'pending' && job.because === 'restart';
  const answer = answerOf(restarts ? { ...job, attempt: job.attempt - 1 } : job, report, context);
  if (job.status === 'pending') return decideWaiting(job, report, answer, holder, context);
  const rule = `${report.type} at ${job.status}`;

  if (answer.type === 'up') return decideUp(job, answer.startedAt, now, rule);
  if (answer.type === 'unchanged') {
    if (report.type !== 'stop-failed') return { rule, effects: alarms(report) };
    // A release that failed leaves the job where it was; where this owner did not see it up, its start is still out, though an owner before
    // it may have had it up. Taken to be running, the job would be lost to the next round, beside its start.
    const kept = report.startedAt === undefined ? assignedAs(job) : running(job, report.startedAt);
    if (job.status === 'releasing') return { rule, next: kept, effects: owed(kept, now) };
    // Not the stop again, which the worker itself tries with backoff.
    return { rule, effects: job.status === 'stopping' ? [] : owed(job, now) };
  }
  if (answer.type === 'over') {
    const next = ended(job, answer.ending, now);
    return { rule, next, effects: owed(next, now) };
  }
  const busy = report.type === 'refused' && report.reason === 'key-busy' ? { busyAnswers: (job.busyAnswers ?? 0) + 1 } : {};
  const next = pending(job, answer.because, answer.dueAt, {
    ...startedAtOf(job, report),
    ...busy,
    ...(isHeldThere(report) ? { only: { worker: report.worker, session: report.session } } : {}),
    attempt: answer.attempt,
    avoid: report.worker,
  });
  return { rule, next, effects: [...stopOfHolder(job, report, holder), ...owed(next, now), ...alarms(report, next.busyAnswers)] };
}

/** Nobody owns the job any more: it was let go, or taken from its owner, and what that owner says was overtaken. */
function decideWaiting(job: PendingJob, report: JobReport, answer: Answer, holder: Dispatch | undefined, { now }: ReportContext): Decision {
  const rule = `${report.type} at pending`;
  // A start that failed is news only of an owner that was given up on; otherwise this job waits because of that very failure.
  const news = report.type === 'finished' || job.because === 'owner-lost' || job.because === 'unrecognized';
  if (answer.type === 'over' && news) {
    const next = ended(job, answer.ending, now);
    return { rule, next, effects: owed(next, now) };
  }
  if (answer.type === 'again' && answer.because === 'restart' && job.because !== 'restart') {
    const next = pending(job, 'restart', answer.dueAt, { ...startedAtOf(job, report), attempt: answer.attempt, avoid: report.worker });
    return { rule, next, effects: owed(next, now) };
  }
  // The assign comes last: it moves the job on, and this report would then no longer be the one to tell the holder.
  return { rule, effects: [...stopOfHolder(job, report, holder), ...owed(job, now)] };
}

/** The dispatch is settled as started first, whatever the job is doing by now; then comes what the job owes. */
export function decideUp(job: OwnedJob, startedAt: EpochMs, now: EpochMs, rule: string): Decision {
  const known = job.status === 'running' || (job.status !== 'assigned' && job.startedAt !== undefined);
  const up = job.status === 'assigned' ? running(job, startedAt) : { ...job, startedAt: job.startedAt ?? startedAt };
  const settled = up.status === 'running' ? [] : [settleStarted(up, up.startedAt ?? startedAt)];
  return { rule, ...(known ? {} : { next: up }), effects: [...settled, ...owed(up, now)] };
}

function decideUnmatched({ job, dispatch }: ReportSnapshot, report: JobReport, { now }: ReportContext): Decision {
  const isNamed = job?.dispatchId === report.dispatchId || job?.next === report.dispatchId;
  const isLive = dispatch?.status === 'started';
  const counted: readonly Effect[] = [{ type: 'count', name: 'report-unmatched' }, ...(job?.status === 'ended' ? owed(job, now) : [])];

  if (isEnd(report)) {
    if (isNamed || !(isLive || (!job && !dispatch))) return { rule: `${report.type} unmatched`, effects: counted };
    const startedAt = dispatch?.status === 'started' ? { startedAt: dispatch.outcome.at } : {};
    const { dispatchId, key, fingerprint, fence } = report;
    const settlement = { dispatchId, key, fingerprint, fence, requestedAt: now, unnamed: true, ...endingOf(report, startedAt) } as const;
    return { rule: `${report.type} of a dispatch that no job names`, effects: [{ type: 'settle', settlement }, ...counted] };
  }
  const runs = report.type === 'started' || report.type === 'stop-failed';
  if (!job) return { rule: `${report.type} without a record`, effects: runs ? [askToConfirm(report.session, report)] : counted };
  if (report.type !== 'started') return { rule: `${report.type} unmatched`, effects: counted };

  if (isLive && job.dispatchId !== report.dispatchId) {
    // Its record was lost, and is not to be stopped over it.
    if (job.status === 'ended' && job.next === undefined)
      return { rule: 'started at another end', effects: [askToConfirm(report.session, report), ...counted] };
    const neverStarted =
      job.startedAt === undefined && (job.status === 'pending' || ('owner' in job && job.owner.session === report.session));
    if (job.status === 'ended' || neverStarted) return { rule: 'started, not answered', effects: counted };
  }
  return { rule: 'started unmatched', effects: [tellStop(report.session, report), ...counted] };
}

/** How a dispatch ends by this report, the time being the worker's (R6, R7). */
function endingOf(report: EndReport, known: { readonly startedAt?: EpochMs; readonly attempt?: number }): Ending {
  const { at: finishedAt } = report;
  const startedAt = known.startedAt ?? report.startedAt;
  switch (report.type) {
    case 'finished': {
      const outcome = { outcome: 'started', at: startedAt ?? report.startedAt } as const;
      const { error, result, resultOmitted } = report;
      if (error) return { outcome, end: { status: 'failed', finishedAt, error: { code: error.code, message: error.message } } };
      const kept = { ...(result === undefined ? {} : { result }), ...(resultOmitted ? { resultOmitted } : {}) };
      return { outcome, end: { status: 'succeeded', finishedAt, ...kept } };
    }
    case 'stopped':
      return stoppedEnding(startedAt, finishedAt, 'stop-requested');
    case 'start-failed':
    case 'released': {
      const { code, message } = report.type === 'released' ? RECORD_LOST : report.error;
      const error = { code, message };
      if (startedAt === undefined) return { outcome: { outcome: 'start-failed', error, attempts: known.attempt ?? 1 } };
      return { outcome: { outcome: 'started', at: startedAt }, end: { status: 'failed', finishedAt, error } };
    }
    default:
      return report satisfies never;
  }
}

const RECORD_LOST = { code: 'record-lost', message: 'the worker let the job go, and no record of it was there to place it by' };

/** Delay of the next try, ms; undefined where there is none. */
function retryDelayOf(type: 'start-failed' | 'finished', error: JobError, attempt: number, settings: PoolSettings): number | undefined {
  const { restart, startAttempts, backoffMs, maxBackoffMs } = settings;
  const policy = type === 'finished' && restart.type === 'on-failure' ? restart : undefined;
  const attempts = error.retryable ? startAttempts : (policy?.maxAttempts ?? 0);
  if (attempt >= attempts) return undefined;
  const first = error.retryable ? backoffMs : (policy?.backoffMs ?? backoffMs);
  return Math.min(error.retryAfterMs ?? first * 2 ** (attempt - 1), maxBackoffMs);
}

/** Another handler of the key is up there, so the job may go nowhere else. */
function isHeldThere(report: JobReport): boolean {
  return report.type === 'refused' && (report.reason === 'key-busy' || report.reason === 'fingerprint-mismatch');
}

/** The stale handler that holds the key is told to stop; not where it is up for good and the job never was, for then its record was lost. */
function stopOfHolder(job: LiveJob, report: JobReport, holder: Dispatch | undefined): readonly Effect[] {
  if (report.type !== 'refused' || report.reason !== 'key-busy') return [];
  if (holder?.status === 'started' && job.startedAt === undefined) return [];
  return [tellStop(report.session, { ...report.running, key: report.key })];
}

/** From this many key-busy answers in a row the job's owner needs an operator. */
const BUSY_ALARM = 5;

function alarms(report: JobReport, busyAnswers = 0): readonly Effect[] {
  if (report.type !== 'refused') return [];
  if (report.reason === 'fingerprint-mismatch') return [{ type: 'count', name: 'fingerprint-mismatch-alarm' }];
  return report.reason === 'key-busy' && busyAnswers >= BUSY_ALARM ? [{ type: 'count', name: 'key-busy-alarm' }] : [];
}

function startedAtOf(job: LiveJob, report: JobReport): { readonly startedAt?: EpochMs } {
  const startedAt = job.startedAt ?? report.startedAt;
  return startedAt === undefined ? {} : { startedAt };
}

function withFenceOf({ fence, worker, session }: JobReport, job: LiveJob): LiveJob {
  return job.status === 'pending' ? { ...job, fence } : { ...job, fence, owner: { worker, session } };
}
