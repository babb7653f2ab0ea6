import { fingerprintOf, type MoveRequest, type NotifyRequest, type Request, type StartRequest, type StopRequest } from '../wire/index.ts';
import { assignRequest, type Context, type Decision, type Effect, owed, settleEnd } from './decision.ts';
import { type AdmittedDispatch, type Dispatch, type EndedBy, isSameRequest, type NotStarted, outcomeOf } from './dispatch.ts';
import { type AssignedJob, type EndedJob, isOutdated, isOwned, type Job, lastFence, type PendingJob } from './job.ts';
import { placeKey } from './placement.ts';
import type { Count } from './ports.ts';
import { admitted, assigned, cancelledBy, ended, releasing, stoppedEnding, stopping, withNext } from './transitions.ts';

/**
 * Table 1: a request and the records of its key. Only what is decided here assigns a job or declares an owner lost.
 *
 * Four rules carry most cells. A state owes its effects (decision.ts), so whatever finds its work done answers `owed(job)`.
 * A dispatch that has an outcome is answered and nothing else. What is stopped goes through `stop`, whoever asked. Whatever
 * overwrites an ended job, or drops a `next`, settles it before the commit.
 */
export interface Snapshot {
  readonly job?: Job;
  /** Of the dispatch that the request names, where it names one. */
  readonly dispatch?: Dispatch;
  /** Of the dispatch that waits as `next` at an ended job. */
  readonly next?: Dispatch;
}

/** What the decider has to read besides the job record, and the store then reads consistently after it. */
export function namedByRequest(request: Request, job: Job | undefined): { readonly dispatch?: string; readonly next?: string } {
  const waits = job?.status === 'ended' && (request.op === 'start' || request.op === 'assign') ? job.next : undefined;
  const named = 'dispatchId' in request ? request.dispatchId : undefined;
  return { ...(named === undefined ? {} : { dispatch: named }), ...(waits === undefined ? {} : { next: waits }) };
}

export function decideRequest(snapshot: Snapshot, request: Request, context: Context): Decision {
  switch (request.op) {
    case 'start':
      return decideStart(snapshot, request, context);
    case 'stop':
      return decideStop(snapshot, request, context);
    case 'notify':
      return decideNotify(snapshot, request, context);
    case 'assign':
      return decideAssign(snapshot, context);
    case 'move':
      return decideMove(snapshot, request, context);
    default:
      return request satisfies never;
  }
}

function decideStart(snapshot: Snapshot, start: StartRequest, context: Context): Decision {
  const { job, dispatch } = snapshot;
  const { key, dispatchId } = start;
  const fingerprint = fingerprintOf(key, start.payload);
  const named = job?.dispatchId === dispatchId;

  if ((dispatch && !isSameRequest(dispatch, key, fingerprint)) || (named && !isSameRequest(job, key, fingerprint)))
    return { rule: 'start conflicts', effects: [count('request-refused')] };
  if (dispatch && outcomeOf(dispatch)) return { rule: 'start answered', effects: job?.status === 'ended' ? owed(job, context.now) : [] };

  if (named) {
    const isUp = job.status !== 'pending' && job.status !== 'assigned';
    return isUp ? { rule: 'start repeated', effects: owed(job, context.now) } : decideAssign(snapshot, context);
  }
  if (job?.next === dispatchId) {
    if (job.status === 'ended') return decideAssign(snapshot, context);
    const sentStop = start.ifBusy === 'replace' && job.status === 'stopping';
    return { rule: 'start waits', effects: sentStop ? owed(job, context.now) : [] };
  }
  return decideNewStart(snapshot, start, fingerprint, context);
}

/** A start that no job record names: its dispatch is unknown, or was put by a delivery that died before its commit. */
function decideNewStart(snapshot: Snapshot, start: StartRequest, fingerprint: string, context: Context): Decision {
  const { job, dispatch } = snapshot;
  const { now, pool } = context;
  const { key, dispatchId, payload, ifBusy } = start;
  const refuse = (outcome: NotStarted, rule: string): Decision => ({
    rule,
    effects: [
      { type: 'settle', settlement: { dispatchId, key, fingerprint, fence: 0, requestedAt: now, outcome } },
      ...(job?.status === 'ended' ? owed(job, now) : []),
    ],
  });

  if (pool.state === 'closed') return refuse({ outcome: 'refused', reason: 'pool-closed' }, 'start refused: pool-closed');
  if (start.expiresAt !== undefined && start.expiresAt <= now)
    return refuse({ outcome: 'refused', reason: 'expired' }, 'start refused: expired');
  if (job?.status === 'ended' && job.next !== undefined) {
    const turn = decideNext(job, snapshot.next, context);
    // This start comes again to find another dispatch's job, and owes it nothing: an assign of its own sees to that one's start.
    return { ...turn, before: [...(turn.before ?? []), assignRequest(key)], again: true };
  }

  const put = (fence: number): readonly Effect[] =>
    dispatch ? [] : [{ type: 'admit', dispatch: { status: 'admitted', dispatchId, key, fingerprint, fence, requestedAt: now }, payload }];

  if (!job || job.status === 'ended') {
    const fence = Math.max(job ? lastFence(job) : 0, dispatch?.fence ?? 0);
    const placed = place(admitted({ dispatchId, key, fingerprint }, fence, now, now + context.settings.unplacedDelayMs), context);
    return {
      rule: placed.status === 'assigned' ? 'start assigned' : 'start admitted',
      before: [...(job ? [settleEnd(job)] : []), ...put(placed.fence)],
      next: placed,
      effects: owed(placed, now),
    };
  }

  // A start that follows a stop in progress waits for it, whatever it says.
  if (ifBusy === 'reject' && !(job.status === 'stopping' && job.next === undefined)) {
    if (job.status === 'stopping') return refuse({ outcome: 'refused', reason: 'next-taken' }, 'start refused: next-taken');
    const holder = { dispatchId: job.dispatchId, sameRequest: job.fingerprint === fingerprint };
    return refuse({ outcome: 'refused', reason: 'key-busy', holder }, 'start refused: key-busy');
  }
  if (job.next !== undefined) return refuse({ outcome: 'refused', reason: 'next-taken' }, 'start refused: next-taken');
  const waiting = withNext(job, dispatchId);
  if (ifBusy !== 'replace') return { rule: 'start takes next', before: put(0), next: waiting };
  return { ...stop(waiting, 'replaced', context, waiting), rule: 'start replaces', before: put(0) };
}

/** Ends a job that nobody owns, asks the owner of an owned one to stop; what is stopping or ended already is only repeated. */
function stop(job: Job, reason: EndedBy, { now }: Context, changed?: Job): Decision {
  if (job.status === 'stopping' || job.status === 'ended') {
    return { rule: 'stop repeated', ...(changed ? { next: changed } : {}), effects: owed(job, now) };
  }
  const next = job.status === 'pending' ? ended(job, stoppedEnding(job.startedAt, now, reason), now) : stopping(job, reason, now);
  return { rule: `stop ${job.status}`, next, effects: owed(next, now) };
}

function decideStop({ job, dispatch }: Snapshot, request: StopRequest, context: Context): Decision {
  const { now, pool } = context;
  const { key, dispatchId } = request;
  const again = job?.status === 'ended' ? owed(job, now) : [];

  if (dispatchId === undefined) {
    if (!job) return pool.state === 'recovering' ? missing(key) : { rule: 'stop of nothing', effects: [count('stop-of-nothing')] };
    if (job.next === undefined) return stop(job, 'stop-requested', context);
    const alone = withNext(job, undefined);
    return { ...stop(alone, 'stop-requested', context, alone), before: [cancel(job.next, key, now)] };
  }

  if (dispatch && dispatch.key !== key) return { rule: 'stop conflicts', effects: [count('request-refused'), ...again] };
  if (job?.dispatchId === dispatchId) return stop(job, 'stop-requested', context);
  if (job?.next === dispatchId) {
    const alone = withNext(job, undefined);
    return {
      rule: 'stop of next',
      before: [cancel(dispatchId, key, now)],
      next: alone,
      effects: job.status === 'ended' ? owed(alone, now) : [],
    };
  }
  // Its job record is missing, and something may run: the stop must not be swallowed.
  if (dispatch?.status === 'started' || (!job && pool.state === 'recovering')) return missing(key, dispatchId);
  if (dispatch && outcomeOf(dispatch)) return { rule: 'stop answered', effects: again };
  return { rule: 'stop before start', effects: [cancel(dispatchId, key, now), ...again] };
}

function missing(key: string, dispatchId?: string): Decision {
  const what = dispatchId === undefined ? 'whatever runs there' : `dispatch ${JSON.stringify(dispatchId)}`;
  return {
    rule: 'stop of a missing record',
    effects: [
      {
        type: 'fail',
        code: 'record-missing',
        message: `stop of ${what} at key ${JSON.stringify(key)}: no job record names it, so it is tried again`,
      },
    ],
  };
}

function cancel(dispatchId: string, key: string, now: number): Effect {
  return { type: 'settle', settlement: { dispatchId, key, fence: 0, requestedAt: now, outcome: cancelledBy('stop-requested') } };
}

function decideNotify({ job }: Snapshot, { id, payload }: NotifyRequest, { now }: Context): Decision {
  if (job && isOwned(job)) return { rule: 'notify', effects: [{ type: 'send', job, command: { op: 'notify', id, payload } }] };
  return { rule: 'notify dropped', effects: [count('notify-dropped'), ...(job ? owed(job, now) : [])] };
}

/** `assign`, and whatever finds a job that waits. */
function decideAssign({ job, next }: Snapshot, context: Context): Decision {
  const { now, settings, pool } = context;
  switch (job?.status) {
    case undefined:
      return { rule: 'assign nothing' };
    case 'pending': {
      if (job.dueAt > now) return { rule: 'assign not due' };
      const placed = place(job, context);
      if (placed.status === 'pending') return { rule: 'assign finds no worker', next: { ...job, dueAt: now + settings.unplacedDelayMs } };
      return { rule: 'assign pending', next: placed, effects: owed(placed, now) };
    }
    case 'assigned':
      // The record may be of an earlier assignment than what really runs, and nobody has asked for that yet.
      if (pool.state === 'recovering') return { rule: 'assign waits', effects: [{ type: 'check-owner', job }] };
      return isOutdated(job, pool.generation) ? assignAnew(job, context) : { rule: 'assign repeated', effects: owed(job, now) };
    case 'running':
    case 'stopping':
    case 'releasing':
      return { rule: 'assign checks the owner', effects: [{ type: 'check-owner', job }] };
    case 'ended':
      return decideNext(job, next, context);
    default:
      return job satisfies never;
  }
}

/** The end of an ended job is settled, then the dispatch that waits for it takes its place. */
function decideNext(job: EndedJob, next: Dispatch | undefined, context: Context): Decision {
  const { now, settings } = context;
  const before = [settleEnd(job)];
  if (job.next === undefined) return { rule: 'assign at an end', effects: before };
  if (!isWaiting(next, job.key)) return { rule: 'assign drops next', before, next: withNext(job, undefined) };
  const placed = place(admitted(next, Math.max(lastFence(job), next.fence), now, now + settings.unplacedDelayMs), context);
  return { rule: 'assign admits next', before, next: placed, effects: owed(placed, now) };
}

/** A `next` that was settled meanwhile, or whose record is gone, does not get its turn. */
function isWaiting(next: Dispatch | undefined, key: string): next is AdmittedDispatch {
  return next?.status === 'admitted' && next.key === key;
}

function decideMove({ job }: Snapshot, { fence }: MoveRequest, { now }: Context): Decision {
  if (!job || (job.status !== 'ended' && job.fence !== fence)) return { rule: 'move of another fence' };
  switch (job.status) {
    case 'assigned':
    case 'running': {
      const next = releasing(job, 'moved');
      return { rule: 'move', next, effects: owed(next, now) };
    }
    case 'pending':
    case 'releasing':
    case 'ended':
      return { rule: 'move repeated', effects: owed(job, now) };
    case 'stopping':
      return { rule: 'move of nothing' };
    default:
      return job satisfies never;
  }
}

/** The job at the worker that placement gives it, or as it is where none is eligible: none is while the pool is not open. */
export function place(job: PendingJob, { now, pool, workers }: Context): PendingJob | AssignedJob {
  const owner = pool.state === 'open' ? placeKey(job.key, workers, { ...job, generation: pool.generation }) : undefined;
  return owner ? assigned(job, owner, pool.generation, now) : job;
}

/** At the same owner, who only raises the fence where that start did come up. */
function assignAnew(job: AssignedJob, { now, pool }: Context): Decision {
  const next = assigned(job, job.owner, pool.generation, now);
  return { rule: 'assign anew', next, effects: owed(next, now) };
}

function count(name: Count): Effect {
  return { type: 'count', name };
}
