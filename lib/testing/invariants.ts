import type { Dispatch } from '../pool/dispatch.ts';
import { type AssignedJob, isOwned, type Job, lastFence, type RunningJob } from '../pool/job.ts';
import type { PoolState, WorkerRow } from '../pool/worker.ts';
import { type Command, fingerprintOf, parseRequest, type StartCommand, type StopReason } from '../wire/index.ts';
import type { Call, CallResult } from './calls.ts';
import { CLAIMS, type Claim, type Violation } from './claims.ts';
import type { MemoryServices } from './memory-services.ts';
import type { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

/**
 * The guarantees of docs/design.md, checked at every moment at which one of them could break: each write of a record, each
 * command sent, each call of a handler, each lease that runs out. The checker stands outside: it knows true time, and which
 * handlers are alive in truth, which nobody inside can know.
 *
 * Three exceptions are the documented ones. A frozen process cannot stop its handlers, so another worker may run the key beside it
 * until it went on and had a lease's time to notice. What protects the resource then is the fence: the new handler's is higher.
 * Where a key's record is deleted, whoever was given a fence before that (an *orphan*) may run beside whoever is given one after it, until it
 * is restored or told to stop. And where a Workers table is put back, a session that lives may seem gone (be *mistaken*) until it registers
 * anew: what was taken from it meanwhile may run there beside what came of it.
 */
/** A call of a handler's `start` and what became of it, as it is in truth. */
export interface LiveHandler {
  readonly process: Process;
  /** As which its process was registered then, where that was heard of. */
  readonly session?: string;
  readonly key: string;
  readonly dispatchId: string;
  /** That it was started under. */
  readonly fence: number;
  phase: 'starting' | 'up' | 'stopping' | 'over';
  isLost: boolean;
  /** Ends what of it runs in this process, as disposal has to; once it is up. */
  end?: () => unknown;
}

/** What really happened to a dispatch, by the clocks of those to whom it happened; `trueAt` by none. */
export interface Truth {
  readonly ups: { readonly handler: LiveHandler; readonly at: number; readonly trueAt: number }[];
  readonly finishes: { readonly process: Process; readonly at: number; readonly failed: boolean }[];
}

export interface CheckerOptions {
  readonly scheduler: Scheduler;
  /** Of a worker whose registration does not say. */
  readonly leaseMs: number;
  readonly services: () => MemoryServices;
  readonly onViolation: (violation: Violation) => void;
  /** False where workers are played by a test, so that the checker hears of no handler. Default true. */
  readonly hearsOfHandlers?: boolean;
}

/** Lots at the same millisecond fall in any order. */
const SAME_MOMENT_MS = 2;

const NEVER = Number.NEGATIVE_INFINITY;
/** How far the clocks of two functions are apart at most. */
const SKEW_MS = 1_000;
/** So long at most functions go by an earlier state of the pool: by what they read of it last, and as long as they live. */
const UNSEEN_MS = 30_000;

/** The ways of one dispatch's job. One that is being stopped is never taken up again. */
const WAYS: { readonly [status in Job['status']]: readonly Job['status'][] } = {
  pending: ['pending', 'assigned', 'running', 'ended'],
  assigned: ['assigned', 'pending', 'running', 'stopping', 'releasing', 'ended'],
  running: ['running', 'pending', 'assigned', 'stopping', 'releasing', 'ended'],
  stopping: ['stopping', 'ended'],
  releasing: ['releasing', 'running', 'pending', 'assigned', 'stopping', 'ended'],
  ended: ['ended'],
};

export class Checker {
  /** How often each claim was looked at. */
  readonly judged = new Map<Claim, number>();
  readonly #options: CheckerOptions;
  readonly #assignments = new Map<string, string>();
  readonly #fences = new Map<string, number>();
  readonly #handlers = new Map<string, Set<LiveHandler>>();
  readonly #renewedAt = new Map<Process, number>();
  /** As what the process registered last. */
  readonly #rows = new Map<Process, WorkerRow>();
  readonly #truth = new Map<string, Truth>();
  readonly #stopsAsked = new Set<string>();
  /** The highest fence that was given when the key's record was last deleted, and when that was. */
  readonly #orphans = new Map<string, { readonly fence: number; readonly at: number; readonly isHeldBack: boolean }>();
  /** Of each key, when it was last assigned, and in which generation of the pool. */
  readonly #lastAssigned = new Map<string, { readonly at: number; readonly generation: number }>();
  #isHeldBack = false;
  #notOpenSince: number | undefined;
  #rowsPutBack: { readonly at: number; readonly isHeldBack: boolean } | undefined;
  /** Sessions that live, and that a Workers table put back does not know, or shows as silent: and whether nothing was assigned meanwhile. */
  readonly #mistaken = new Map<string, { readonly isHeldBack: boolean }>();
  /** Which dispatch was taken from which of those. */
  readonly #taken = new Set<string>();
  readonly #lost = { record: new Set<string>(), job: new Set<string>(), request: new Set<string>() };

  constructor(options: CheckerOptions) {
    this.#options = options;
  }

  /** Handlers alive in truth, those of frozen processes included. */
  liveHandlers(): readonly LiveHandler[] {
    return [...this.#handlers.values()].flatMap((handlers) => [...handlers]).filter(({ process }) => process.state !== 'dead');
  }

  /** Ends every handler that is not over, those of dead processes included; what they throw is nobody's business any more. */
  endAll(): void {
    for (const handlers of this.#handlers.values()) {
      for (const { end } of handlers) {
        Promise.resolve()
          .then(end)
          .catch(() => {});
      }
    }
  }

  truthOf(dispatchId: string): Truth {
    let truth = this.#truth.get(dispatchId);
    if (!truth) {
      truth = { ups: [], finishes: [] };
      this.#truth.set(dispatchId, truth);
    }
    return truth;
  }

  /** What was deleted of a dispatch: its own record, a job record that named it, or a request that it depended on. */
  lostOf(dispatchId: string): 'record' | 'job' | 'request' | undefined {
    return (['record', 'job', 'request'] as const).find((what) => this.#lost[what].has(dispatchId));
  }

  /** A request was taken off its queue unread, or half done: with it goes what it asked for, and what was still to be done at its key. */
  requestLost(body: string): void {
    const parsed = parseRequest(body);
    if (!parsed.ok) return;
    const { key } = parsed.value;
    const job = this.#options.services().jobs.peek(key);
    const named = ['dispatchId' in parsed.value ? parsed.value.dispatchId : undefined, job?.dispatchId, job?.next];
    for (const dispatchId of named) if (dispatchId !== undefined) this.#lost.request.add(dispatchId);
  }

  /**
   * The Workers table was put back. Whoever registered since is not in it, and seems gone until its next heartbeat; and until then a row may
   * show the beat that a round began with, and its worker be taken for silent. What protects is the fence, or that nothing is assigned.
   */
  rowsPutBack(): void {
    this.#rowsPutBack = { at: this.#options.scheduler.now(), isHeldBack: this.#isHeldBack };
    const { workers } = this.#options.services();
    for (const [process, { session }] of this.#rows) if (workers.peek(process.name)?.session !== session) this.#mistake(session);
  }

  #mistake(session: string): void {
    const isHeldBack = (this.#mistaken.get(session)?.isHeldBack ?? true) && this.#rowsPutBack?.isHeldBack === true;
    this.#mistaken.set(session, { isHeldBack });
  }

  /** Its job was taken from its session, which seemed gone by a Workers table put back: what it does before it hears of that, nobody could know. */
  wasTaken({ dispatchId, session }: LiveHandler): boolean {
    return this.#taken.has(`${dispatchId}\n${session}`);
  }

  /** A table is put back while nothing is assigned: nobody may start beside an orphan of this until the pool is recovered, nor after it. */
  heldBack(putBack: () => void): void {
    this.#isHeldBack = true;
    putBack();
    this.#isHeldBack = false;
  }

  /** Started before the record of the key was deleted, and not seen by the pool since, for all that is known. */
  isOrphan(key: string, fence: number): boolean {
    return fence <= (this.#orphans.get(key)?.fence ?? -1);
  }

  /** The record of the key was deleted since then. */
  isOrphanSince(key: string, at: number): boolean {
    return (this.#orphans.get(key)?.at ?? -1) > at;
  }

  /** Since then the key was assigned, and last by who did not know of that generation of the pool yet. */
  wasAssignedBelow(generation: number, key: string, since: number): boolean {
    const last = this.#lastAssigned.get(key);
    return last !== undefined && last.at >= since && last.generation < generation;
  }

  /**
   * The pool was recovered from what was deleted or restored by then: nobody is an orphan any more, but where somebody is alive who is not
   * on record, and has yet to hear it.
   */
  recovered(at: number): void {
    const { jobs } = this.#options.services();
    for (const key of [...this.#orphans.keys()]) {
      const alive = [...(this.#handlers.get(key) ?? [])].filter(({ process }) => process.state !== 'dead');
      const isSettled = alive.every(({ fence }) => jobs.peek(key)?.fence === fence);
      if (isSettled && !this.isOrphanSince(key, at)) this.#orphans.delete(key);
    }
  }

  /** Somebody asked for a stop: of a dispatch, or of whatever is at the key. */
  stopAsked(key: string, dispatchId?: string): void {
    this.#stopsAsked.add(dispatchId === undefined ? `key ${key}` : `dispatch ${dispatchId}`);
  }

  readonly job = (key: string, before: Job | undefined, after: Job | undefined): void => {
    if (!after) {
      const orphan = this.#orphans.get(key);
      const fence = Math.max(this.#fences.get(key) ?? 0, orphan?.fence ?? 0);
      const isHeldBack = this.#isHeldBack && (orphan?.isHeldBack ?? true);
      this.#orphans.set(key, { fence, at: this.#options.scheduler.now(), isHeldBack });
      this.#fences.delete(key);
      if (before) this.#lost.job.add(before.dispatchId);
      if (before?.next !== undefined) this.#lost.job.add(before.next);
      return;
    }
    const highest = this.#fences.get(key) ?? 0;
    // What really runs comes back under its own fence, over what was there only because its record was lost: that one's is remembered above it.
    const isRestored = after.status === 'running' && before?.dispatchId !== after.dispatchId;
    if (isRestored && (before || this.#orphans.has(key))) this.#checkRestored(before, after);
    const last = lastFence(after);
    this.check(last >= highest, 'the fence of a key never falls', () => `the fence of job "${key}" fell from ${highest} to ${last}`);
    this.#fences.set(key, last);
    if (before && isOwned(before) && this.#mistaken.has(before.owner.session)) {
      const stays = isOwned(after) && after.dispatchId === before.dispatchId && after.owner.session === before.owner.session;
      if (!stays) this.#taken.add(`${before.dispatchId}\n${before.owner.session}`);
    }
    if (isOwned(after)) {
      // Where the record that knew the last fence is gone, the next one is of the clocks alone, and those of two functions differ.
      const assignment = `${key}\n${after.fence}`;
      const owner = `${after.dispatchId} at ${after.owner.worker}, session ${after.owner.session}`;
      const first = this.#assignments.get(assignment);
      this.check(
        first === undefined || first === owner || this.isOrphan(key, after.fence),
        'a fence is given to one owner',
        () => `fence ${after.fence} of job "${key}" was given to ${first}, then to ${owner}`,
      );
      this.#assignments.set(assignment, owner);
    }
    if (after.status === 'assigned' && (!before || before.fence < after.fence)) this.#checkAssigned(before, after);
    if (before?.dispatchId !== after.dispatchId) return;
    const { finishes } = this.truthOf(after.dispatchId);
    const failed = () => `attempt ${after.attempt} of ${after.dispatchId} at "${key}", and in truth ${finishes.length} ended`;
    const isJudged = this.#options.hearsOfHandlers !== false && !this.lostOf(after.dispatchId);
    if (before.attempt !== after.attempt && isJudged)
      this.check(after.attempt <= 1 + finishes.filter((each) => each.failed).length, 'no attempt is counted that did not fail', failed);
    const isWay = WAYS[before.status].includes(after.status);
    const claim = before.status === 'ended' ? 'an ended job stays ended' : 'a job goes no way but those of its states';
    this.check(isWay, claim, () => `job "${key}" of dispatch ${after.dispatchId} went from ${before.status} to ${after.status}`);
    if (before.status !== 'ended' || after.status !== 'ended') return;
    const both = () => `job "${key}" ended twice: ${JSON.stringify(before.settled)}, then ${JSON.stringify(after.settled)}`;
    this.check(isSame(before.settled, after.settled), 'a job ends once', both);
  };

  #checkAssigned(before: Job | undefined, after: AssignedJob): void {
    const now = this.#options.scheduler.now();
    this.#lastAssigned.set(after.key, { at: now, generation: after.generation ?? 0 });
    if (before?.status === 'pending') {
      const early = () => `job "${after.key}" was due at ${before.dueAt}, and is assigned at ${now}`;
      this.check(before.dueAt <= now + SKEW_MS, 'nothing is assigned before it is due', early);
    }
    const forMs = now - (this.#notOpenSince ?? now);
    const closed = () => `job "${after.key}" is assigned, and the pool has not been open for ${forMs} ms`;
    if (this.#notOpenSince !== undefined)
      this.check(forMs <= UNSEEN_MS, 'nothing is assigned in a pool that has not been open for long', closed);
  }

  #checkRestored(before: Job | undefined, { key, dispatchId, fence, owner }: RunningJob): void {
    const { workers, dispatches } = this.#options.services();
    const row = workers.peek(owner.worker);
    const pool = workers.peekPool();
    const isRegistered = row?.session === owner.session && row.state !== 'lost' && row.state !== 'left';
    const restored = `"${key}" was restored for ${dispatchId} under fence ${fence}`;
    this.check(
      isRegistered && row.generation === pool.generation && pool.state !== 'closed',
      'what is restored is restored for a worker of the pool',
      () => `${restored}, at ${JSON.stringify(row)} in a pool that is ${JSON.stringify(pool)}`,
    );
    const record = dispatches.peek(dispatchId);
    const isOver = record?.status === 'ended' || record?.status === 'never-started';
    this.check(!isOver, 'what is over is not restored', () => `${restored}, which is ${JSON.stringify(record)}`);
    const isOthers =
      before !== undefined &&
      before.fence >= fence &&
      before.status !== 'ended' &&
      (before.startedAt !== undefined || !isOwned(before) || before.owner.session !== owner.session);
    this.check(!isOthers, 'what is restored displaces nobody else', () => `${restored}, in the place of ${JSON.stringify(before)}`);
  }

  readonly pool = ({ state }: PoolState): void => {
    this.#notOpenSince = state === 'open' ? undefined : (this.#notOpenSince ?? this.#options.scheduler.now());
  };

  readonly dispatch = (dispatchId: string, before: Dispatch | undefined, after: Dispatch | undefined): void => {
    if (!after) this.#lost.record.add(dispatchId);
    if (!before || !after) return;
    const changes = () => `dispatch ${dispatchId}: ${JSON.stringify(before)}, then ${JSON.stringify(after)}`;
    const isKept =
      before.key === after.key && (before.fingerprint ?? after.fingerprint) === after.fingerprint && before.fence <= after.fence;
    this.check(isKept, 'key, payload and fence of a dispatch are kept', changes);
    if (before.status === 'admitted') return;
    this.check(after.status !== 'admitted' && isSame(before.outcome, after.outcome), 'the outcome of a dispatch stays as it is', changes);
    if (after.status !== 'ended' && before.status !== 'ended') return;
    const isKeptEnd = before.status !== 'ended' || (after.status === 'ended' && isSame(before.end, after.end));
    this.check(isKeptEnd, 'the end of a dispatch stays as it is', changes);
  };

  readonly worker = (workerId: string, before: WorkerRow | undefined, after: WorkerRow): void => {
    if (after.state !== 'lost' || before?.state === 'lost') return;
    const { scheduler } = this.#options;
    for (const [process, sentAt] of this.#renewedAt) {
      // Another process of that id may have had it before.
      if (process.name !== workerId || (this.#rows.get(process)?.session ?? after.session) !== after.session) continue;
      const leaseMs = this.#leaseOf(process);
      const sinceMs = scheduler.now() - sentAt;
      const what = () => `${workerId} was declared lost ${sinceMs} ms after what it sent last renewed its lease of ${leaseMs} ms`;
      // A row that was put back need not know of what was renewed before.
      if (sinceMs < leaseMs && sentAt <= (this.#rowsPutBack?.at ?? NEVER)) this.#mistake(after.session);
      else this.check(sinceMs >= leaseMs, 'nobody is declared lost within its lease', what);
    }
  };

  /** Hears of every call on the network. */
  heard(call: Call, sentAt: number, result: CallResult): void {
    if (call.service === 'registry') this.#renewed(call, sentAt, result);
    const [command] = call.service === 'commands' ? (call.args as readonly Command[]) : [];
    if (command?.op === 'start') this.startSent(command);
  }

  /** A start command is put into an inbox, or lost on the way there. */
  startSent({ key, dispatchId, fence, session }: StartCommand): void {
    const owner = this.#assignments.get(`${key}\n${fence}`);
    const isOwners = owner?.startsWith(`${dispatchId} at `) && owner.endsWith(`, session ${session}`);
    this.check(
      isOwners === true,
      'a start is sent to the owner of its fence',
      () => `dispatch ${dispatchId} at "${key}" was sent to session ${session} under fence ${fence}, which is ${owner ?? 'nobody'}'s`,
    );
    const dispatch = this.#options.services().dispatches.peek(dispatchId);
    this.check(
      !dispatch || dispatch.fence >= fence || this.#lost.record.has(dispatchId),
      'no start is sent under a fence that its record does not know',
      () => `dispatch ${dispatchId} was sent under fence ${fence}, and its record knows ${dispatch?.fence}`,
    );
  }

  starting(process: Process, key: string, dispatchId: string, fence: number): LiveHandler {
    const session = this.#rows.get(process)?.session;
    const handler: LiveHandler = { process, ...(session ? { session } : {}), key, dispatchId, fence, phase: 'starting', isLost: false };
    const who = () => `${process.name} starts "${key}" for dispatch ${dispatchId} under fence ${fence}`;
    const isExcused = this.#isExcused(process) || this.wasTaken(handler);
    let isAlone = true;
    let isSecond = false;
    for (const other of this.#handlers.get(key) ?? []) {
      if (other.process.state === 'dead') continue;
      const beside = () =>
        `${who()}, while it is ${other.phase} at ${other.process.name} for ${other.dispatchId} under fence ${other.fence}`;
      if (other.process === process) {
        isSecond = true;
        this.check(false, 'nobody starts what runs there already', beside);
      } else if (!this.#orphans.get(key)?.isHeldBack && (this.isOrphan(key, fence) || this.isOrphan(key, other.fence)))
        this.check(fence !== other.fence, 'beside a handler whose record was deleted, a fence protects', beside);
      else if (this.#isExcused(other.process) || this.#mayBeBeside(other))
        this.check(fence > other.fence, 'beside a handler that could not know, the fence protects', beside);
      else if (!this.#isExcused(process) && !this.#mayBeBeside(handler)) {
        isAlone = false;
        this.check(false, 'nobody starts beside a live handler', beside);
      }
    }
    if (isAlone) this.#judge('nobody starts beside a live handler');
    if (!isSecond) this.#judge('nobody starts what runs there already');
    // The lease is looked at before every call of the handler, and its clocks tell it how long it was frozen.
    const leftMs = (this.#renewedAt.get(process) ?? 0) + this.#leaseOf(process) - this.#options.scheduler.now();
    const hasLease = leftMs > 0 || process.clockSetAt !== undefined;
    this.check(hasLease, 'nobody starts without a lease', () => `${who()}, ${-leftMs} ms after its lease was over`);
    if (!isExcused && !this.isOrphan(key, fence)) {
      const { dispatches, jobs } = this.#options.services();
      const dispatch = dispatches.peek(dispatchId);
      const which = () => `${who()}, which is ${JSON.stringify(dispatch)}`;
      // A record that was deleted may be another one by now: that of a stop which named the dispatch at another key.
      const isItself = !this.#lost.record.has(dispatchId);
      if (isItself) this.check(dispatch?.status !== 'ended', 'what has ended does not start', which);
      if (isItself) this.check(dispatch?.status !== 'never-started', 'what was never started does not start', which);
      const job = jobs.peek(key);
      const isOwner =
        job !== undefined && isOwned(job) && job.fence === fence && job.dispatchId === dispatchId && job.owner.worker === process.name;
      this.check(!job || isOwner, 'whoever starts is the owner on record', () => `${who()}, but the record says ${JSON.stringify(job)}`);
    }
    let handlers = this.#handlers.get(key);
    if (!handlers) {
      handlers = new Set();
      this.#handlers.set(key, handlers);
    }
    handlers.add(handler);
    return handler;
  }

  up(handler: LiveHandler): void {
    if (handler.phase === 'starting') handler.phase = 'up';
    this.truthOf(handler.dispatchId).ups.push({ handler, at: handler.process.now(), trueAt: this.#options.scheduler.now() });
  }

  stopping(handler: LiveHandler, reason: StopReason): void {
    const { process, key, dispatchId } = handler;
    handler.phase = 'stopping';
    const job = this.#options.services().jobs.peek(key);
    const isOrdered = reason === 'stop-requested' || reason === 'replaced' || reason === 'pool-closed';
    const runs = job?.status === 'running' && job.dispatchId === dispatchId && job.owner.worker === process.name;
    // What is told to an orphan may be overtaken by its restoration.
    if (this.isOrphan(key, handler.fence)) return;
    const wasAsked = this.#stopsAsked.has(`dispatch ${dispatchId}`) || this.#stopsAsked.has(`key ${key}`);
    const stops = () => `${process.name} stops "${key}" (${reason}), though the record says that it runs there`;
    // Where the record of its dispatch was deleted, another request may have taken the id since: then it is not what that id stands for.
    if (isOrdered && this.lostOf(dispatchId) !== 'record') this.check(!runs, 'what runs by its record is not told to stop', stops);
    const unasked = () => `dispatch ${dispatchId} at "${key}" is stopped, and nobody asked for it`;
    if (reason === 'stop-requested' && job?.status === 'stopping') this.check(wasAsked, 'a stop was asked for', unasked);
  }

  stopFailed(handler: LiveHandler): void {
    if (handler.phase === 'stopping') handler.phase = 'up';
  }

  over(handler: LiveHandler, finished?: { readonly failed: boolean }): void {
    if (finished && handler.phase !== 'over')
      this.truthOf(handler.dispatchId).finishes.push({ process: handler.process, at: handler.process.now(), failed: finished.failed });
    handler.phase = 'over';
    this.#handlers.get(handler.key)?.delete(handler);
  }

  /** What a handler was given. */
  payload(dispatchId: string, key: string, bytes: Uint8Array): void {
    const dispatch = this.#options.services().dispatches.peek(dispatchId);
    const isAdmitted = this.#lost.record.has(dispatchId) || !dispatch?.fingerprint || dispatch.fingerprint === fingerprintOf(key, bytes);
    this.check(
      isAdmitted,
      'a handler is given what was admitted',
      () => `dispatch ${dispatchId} runs at "${key}" with another payload than it was admitted with`,
    );
  }

  /** The resource refused a handler that did not know that it was lost. */
  refusedWrite(process: Process, key: string, fence: number): void {
    const wasTaken = [...(this.#handlers.get(key) ?? [])].some((handler) => handler.process === process && this.#mayBeBeside(handler));
    const isExcused = this.#isExcused(process) || this.isOrphan(key, fence) || wasTaken;
    this.check(
      isExcused,
      'the resource refuses only whoever could not know',
      () => `the resource of "${key}" refused ${process.name} under fence ${fence}`,
    );
  }

  #renewed({ by, method, args }: Call, sentAt: number, result: CallResult): void {
    const isRenewal =
      'value' in result &&
      (method === 'register' || (method === 'heartbeat' && (result.value as { outcome: string }).outcome === 'renewed'));
    if (!isRenewal) return;
    if (method === 'register' && args[0]) this.#rows.set(by, args[0] as WorkerRow);
    const { scheduler } = this.#options;
    const leaseMs = this.#leaseOf(by);
    // What was sent before the last that succeeded renews nothing, nor what is answered when the lease is given up already.
    if (sentAt <= (this.#renewedAt.get(by) ?? -1) || scheduler.now() - sentAt >= (leaseMs * 2) / 3) return;
    this.#renewedAt.set(by, sentAt);
    const inMs = (after: number) => sentAt + after + SAME_MOMENT_MS - scheduler.now();
    scheduler.after(inMs((leaseMs * 2) / 3), () => this.#checkLease(by, sentAt, 'two thirds'));
    scheduler.after(inMs(leaseMs), () => this.#checkLease(by, sentAt, 'whole'));
  }

  #checkLease(process: Process, sentAt: number, part: 'two thirds' | 'whole'): void {
    if (this.#renewedAt.get(process) !== sentAt || process.state !== 'running' || this.#isExcused(process)) return;
    for (const handlers of this.#handlers.values()) {
      for (const { process: of, key, isLost } of handlers) {
        if (of !== process) continue;
        const since = () => `${process.name} was last renewed by what it sent ${this.#options.scheduler.now() - sentAt} ms ago`;
        if (part === 'whole') this.check(false, 'no handler is alive without a lease', () => `${since()}, and "${key}" is alive there`);
        else this.check(isLost, 'handlers know that they are lost by two thirds of a lease', () => `${since()}, and "${key}" does not`);
      }
    }
    if (part === 'whole') this.#judge('no handler is alive without a lease');
  }

  /** Frozen since it was last renewed, and not long enough back to have noticed. */
  #isExcused(process: Process): boolean {
    if (process.state === 'frozen') return true;
    const { resumedAt } = process;
    return resumedAt !== undefined && this.#options.scheduler.now() - resumedAt <= this.#leaseOf(process);
  }

  /** It was taken from its session by mistake, and something was assigned meanwhile. */
  #mayBeBeside(handler: LiveHandler): boolean {
    return this.wasTaken(handler) && !this.#mistaken.get(handler.session ?? '')?.isHeldBack;
  }

  #leaseOf(process: Process): number {
    return this.#rows.get(process)?.leaseMs ?? this.#options.leaseMs;
  }

  /** Judges once more whether a claim holds. */
  check(holds: boolean, claim: Claim, what: () => string): void {
    this.#judge(claim);
    if (!holds) this.#options.onViolation({ guarantee: CLAIMS[claim], claim, what: what() });
  }

  #judge(claim: Claim): void {
    this.judged.set(claim, (this.judged.get(claim) ?? 0) + 1);
  }
}

/** Plain data alike, whatever the order of its fields. */
export function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => isSame((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name]))
  );
}
