import type { Command, ConfirmCommand, Request, StopCommand } from '../wire/index.ts';
import type { AdmittedDispatch, Settlement } from './dispatch.ts';
import type { PoolErrorCode } from './errors.ts';
import { type EndedJob, type EpochMs, type Job, type OwnedJob, settlementOf } from './job.ts';
import type { Count } from './ports.ts';
import type { PoolSettings } from './settings.ts';
import type { PoolState, WorkerRow } from './worker.ts';

/**
 * What deciders return: data, carried out by the use cases in this order: `before`, then the commit of `next`, then `effects`.
 *
 * **Every state owes its effects** (`owed`). A transition carries out what the state it leads to owes; a redelivery, which
 * finds the transition done, carries out what the present state owes. So a function may die after any of its calls: deciding the
 * message again on whatever it left behind changes nothing more and yields the same effects.
 *
 * `before` has what must be durable before the commit: the dispatch that a job record is going to name, and the
 * settlement of whatever the commit overwrites or drops. Dying after it leaves a settlement that is true, or an admitted
 * dispatch that the redelivered start finds and resumes.
 */
export interface Decision {
  /** Which rule decided; named in the log, and counted by the simulation. */
  readonly rule: string;
  readonly before?: readonly Effect[];
  readonly next?: Job;
  readonly effects?: readonly Effect[];
  /** The message is decided once more, on what this leaves behind. */
  readonly again?: true;
}

export type Effect =
  | { readonly type: 'admit'; readonly dispatch: AdmittedDispatch; readonly payload: Uint8Array }
  | { readonly type: 'settle'; readonly settlement: Settlement }
  /** A command to the job's owner. The request function reads the owner's row first, a report's goes out as it is. */
  | { readonly type: 'send'; readonly job: OwnedJob; readonly command: OwnerCommand }
  /** The owner's row is read as for a command, nothing is sent. */
  | { readonly type: 'check-owner'; readonly job: OwnedJob }
  /** A command to a session that is not (or no longer) the owner; dropped where its inbox is gone. */
  | { readonly type: 'tell'; readonly command: Command }
  | { readonly type: 'request'; readonly request: Request }
  | { readonly type: 'count'; readonly name: Count }
  /** The message fails and comes again: it must not be swallowed. */
  | { readonly type: 'fail'; readonly code: PoolErrorCode; readonly message: string };

export type OwnerCommand =
  | { readonly op: 'start' | 'stop' | 'release' }
  | { readonly op: 'notify'; readonly id: string; readonly payload: Uint8Array };

/** What deciders know besides the records: plain data. */
export interface Context {
  readonly now: EpochMs;
  readonly settings: PoolSettings;
  readonly pool: PoolState;
  /** May be some seconds old: a placement on it is checked by reading the row before anything is sent. */
  readonly workers: readonly WorkerRow[];
}

/** What a state asks to be done, as often as anybody meets it. */
export function owed(job: Job, now: EpochMs): readonly Effect[] {
  switch (job.status) {
    case 'pending':
      return job.dueAt <= now ? [assignRequest(job.key)] : [];
    case 'assigned':
      return [{ type: 'send', job, command: { op: 'start' } }];
    case 'running':
      return [settleStarted(job, job.startedAt)];
    case 'stopping':
      return [{ type: 'send', job, command: { op: 'stop' } }];
    case 'releasing':
      return [{ type: 'send', job, command: { op: 'release' } }];
    case 'ended':
      return job.next === undefined ? [settleEnd(job)] : [settleEnd(job), assignRequest(job.key)];
    default:
      return job satisfies never;
  }
}

export function settleEnd(job: EndedJob): Effect {
  return { type: 'settle', settlement: settlementOf(job) };
}

export function settleStarted(job: Job, at: EpochMs): Effect {
  const { dispatchId, key, fingerprint, fence, admittedAt: requestedAt } = job;
  return { type: 'settle', settlement: { dispatchId, key, fingerprint, fence, requestedAt, outcome: { outcome: 'started', at } } };
}

export function assignRequest(key: string): Effect {
  return { type: 'request', request: { op: 'assign', key } };
}

/** A handler that must not run there is to stop. */
export function tellStop(
  session: string,
  { key, dispatchId, fingerprint, fence }: Pick<StopCommand, 'key' | 'dispatchId' | 'fingerprint' | 'fence'>,
): Effect {
  return { type: 'tell', command: { op: 'stop', session, key, dispatchId, fingerprint, fence, reason: 'stop-requested' } };
}

/** The session is asked for all that it knows of what runs there under that fence. */
export function askToConfirm(session: string, { key, fence }: Pick<ConfirmCommand, 'key' | 'fence'>): Effect {
  return { type: 'tell', command: { op: 'confirm', session, key, fence } };
}

/** A decision in one line of words, for the log, the tables and whoever reads a trace. */
export function summarize({ before = [], next, effects = [], again }: Decision): string {
  const steps = [...before.map(effectInWords), ...(next ? [`→ ${jobInWords(next)}`] : []), ...effects.map(effectInWords)];
  if (again) steps.push('decide again');
  return steps.length === 0 ? 'nothing' : steps.join('; ');
}

/** A job's state, as the tables name it. */
export function jobInWords(job: Job): string {
  const next = job.next === undefined ? '' : `, next ${job.next}`;
  switch (job.status) {
    case 'pending':
      return `pending (${job.because}${job.only ? ', only there' : ''})${next}`;
    case 'ended':
      return `ended (${endingInWords(job.settled)})${next}`;
    case 'stopping':
      return `stopping (${job.stopReason})${next}`;
    case 'assigned':
    case 'running':
    case 'releasing':
      return `${job.status}${next}`;
    default:
      return job satisfies never;
  }
}

export function endingInWords({ outcome, end }: { readonly outcome: Settlement['outcome']; readonly end?: Settlement['end'] }): string {
  if (end) return end.status === 'stopped' && end.reason !== 'stop-requested' ? `stopped, ${end.reason}` : end.status;
  switch (outcome.outcome) {
    case 'started':
    case 'start-failed':
      return outcome.outcome;
    case 'refused':
      return `refused: ${outcome.reason}`;
    case 'cancelled':
      return outcome.by === 'superseded' ? 'cancelled, superseded' : 'cancelled';
    default:
      return outcome satisfies never;
  }
}

function effectInWords(effect: Effect): string {
  switch (effect.type) {
    case 'admit':
      return `admit ${effect.dispatch.dispatchId}`;
    case 'settle':
      return `settle ${effect.settlement.dispatchId} ${endingInWords(effect.settlement)}`;
    case 'send':
      return `send(${effect.command.op})`;
    case 'check-owner':
      return 'check the owner';
    case 'tell':
      return `tell ${effect.command.op}${'fence' in effect.command ? ` for fence ${effect.command.fence}` : ''}`;
    case 'request':
      return effect.request.op;
    case 'count':
      return `count ${effect.name}`;
    case 'fail':
      return `fail: ${effect.code}`;
    default:
      return effect satisfies never;
  }
}
