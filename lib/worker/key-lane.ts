/**
 * One key at this worker: its lock, the job that lives here, and what ended.
 *
 * Everything about a key goes through its lane, one at a time: starts, stops, notifications, the job's own end, retries of a stop, hand-back
 * and the end of a session. So a handler is never called twice at once for a key, and what an answer says is true when it is given. Whether a
 * command still is for this session, and whether the lease is held, is looked at once it has the lock.
 *
 *     (none) ──start──► starting ──► up ──stop, own end──► (none), its end remembered by fence
 *                           └──── threw ──────────────────►
 *
 * What can hang is the handler. A hung `start` holds the lock (starting is bounded by nothing but the lease): a stop that comes meanwhile
 * fires the start's signal, reports `stop-failed` at its deadline, and goes on waiting. A hung `stop` gives the lock back at its deadline, and
 * whatever it comes to later is taken up under the lock again.
 *
 * All of it is in memory: with the process, handlers and answers are gone, and the control plane goes by the lease.
 */
import type { EpochMs, Fence } from '../pool/job.ts';
import type { Timer } from '../pool/ports.ts';
import type {
  Command,
  ConfirmCommand,
  FactReport,
  JobError,
  NotifyCommand,
  ReleaseCommand,
  ResyncCommand,
  StartCommand,
  StopCommand,
  StopReason,
  WorkerRefusal,
} from '../wire/index.ts';
import { backoffMs } from './backoff.ts';
import type { Deadline } from './deadline.ts';
import type { DropReason, Emit } from './events.ts';
import { decideEnding, decideStart, type EndReport, Ends, type KeyState, type RememberedEnd } from './fences.ts';
import { failureOf, type Handler } from './handler.ts';
import { Life, type StopResult } from './life.ts';
import type { Logger } from './logger.ts';

/** A command about one key. */
export type KeyCommand = Exclude<Command, ResyncCommand>;

/** What a lane needs of the worker that it belongs to. */
export interface LaneHost {
  readonly handler: Handler;
  readonly logger: Logger;
  readonly timer: Timer;
  readonly workerId: string;
  /** The session that is registered, or was last. */
  readonly session: string;
  readonly isDraining: boolean;
  /** Every job whose handler may be alive. */
  readonly lives: Set<Life>;
  readonly capacity: number;
  readonly emit: Emit;
  now(): EpochMs;
  /** Whether this session may call handlers now. Where its lease has run out unseen, that ends it here and now. */
  mayAct(session: string): boolean;
  /** By when a stop that begins now must have returned. */
  stopDeadline(): Deadline;
  /** Says it until the report queue has it; `end` is then marked as accepted. */
  report(report: FactReport, end?: RememberedEnd): void;
  drop(why: DropReason, command: KeyCommand): void;
  /** Looks at what changed: a life that is over, a lane with nothing left. */
  changed(lane: KeyLane): void;
  /** A rule of the runtime itself was broken. */
  crashed(error: unknown): void;
}

/** One way in which what lives here is made to end. */
interface Ending {
  readonly kind: 'stop' | 'release' | 'hand-back' | 'session-over';
  readonly reason: StopReason;
  readonly answer: 'stopped' | 'released';
  /** It ends every fence up to this one. */
  readonly upTo: Fence;
  /** To be answered for its own fence too. */
  readonly command?: StopCommand | ReleaseCommand;
}

const wholeKey = Number.MAX_SAFE_INTEGER;
const timedOut: JobError = { code: 'timeout', message: 'stop did not return by its deadline', retryable: true };
const firstRetryMs = 1_000;
const maxRetryMs = 60_000;

export class KeyLane {
  readonly key: string;
  readonly ends = new Ends();
  readonly #host: LaneHost;
  #life?: Life;
  #lock: Promise<void> = Promise.resolve();
  #holdersAndWaiters = 0;
  readonly #endingsWaiting = new Map<Ending, Deadline>();
  /** What the start that has not returned is to end for. */
  #interruption?: Ending;
  /** A stop that failed and will be tried again. */
  #retry?: { readonly ending: Ending; readonly cancel: () => void };

  constructor(key: string, host: LaneHost) {
    this.key = key;
    this.#host = host;
  }

  get life(): Life | undefined {
    return this.#life;
  }

  /** Nothing lives, waits or is remembered here. */
  get isIdle(): boolean {
    return !this.#life && this.#holdersAndWaiters === 0 && this.ends.isEmpty;
  }

  accept(command: KeyCommand): void {
    if (command.op === 'stop' || command.op === 'release') {
      const { op: kind, reason, fence: upTo } = command;
      this.#end({ kind, reason, answer: kind === 'stop' ? 'stopped' : 'released', upTo, command });
    } else {
      this.#underLock(() => this.#obey(command));
    }
  }

  /** Stops what lives here, so that it runs elsewhere. */
  handBack(): void {
    this.#end({ kind: 'hand-back', reason: 'worker-draining', answer: 'released', upTo: wholeKey });
  }

  /** Stops what lives here, because this worker may no longer run it. */
  loseSession(reason: 'lease-lost' | 'evicted', leaseEnd: Deadline): void {
    this.lose(reason, leaseEnd);
    this.#end({ kind: 'session-over', reason, answer: 'released', upTo: wholeKey });
  }

  /** Fires `lost`. */
  lose(reason: StopReason, deadline: Deadline): void {
    this.#life?.lose(reason, deadline);
  }

  #underLock(work: () => void | Promise<void>): void {
    this.#holdersAndWaiters += 1;
    this.#lock = this.#lock
      .then(() => {
        this.#takeOwnEnd();
        return work();
      })
      .catch((error: unknown) => this.#host.crashed(error))
      .then(() => {
        this.#holdersAndWaiters -= 1;
        this.#host.changed(this);
      });
  }

  #state(): KeyState {
    const { lives, capacity, isDraining } = this.#host;
    return { up: this.#up(), ends: this.ends, hasRoom: lives.size < capacity, isDraining };
  }

  #up(): KeyState['up'] {
    const life = this.#life;
    if (life?.startedAt === undefined) return undefined;
    const { fence, startedAt, command } = life;
    return { dispatchId: command.dispatchId, fingerprint: command.fingerprint, fence, startedAt };
  }

  async #obey(command: StartCommand | NotifyCommand | ConfirmCommand): Promise<void> {
    if (!this.#host.mayAct(command.session)) return this.#host.drop('other-session', command);
    if (command.op === 'start') return this.#meetStart(command);
    const up = this.#life;
    if (up?.startedAt === undefined || up.fence !== command.fence) return this.#host.drop('not-up', command);
    return command.op === 'notify' ? this.#notify(up, command) : this.#confirm(up, up.startedAt);
  }

  async #meetStart(command: StartCommand): Promise<void> {
    const decision = decideStart(command, this.#state());
    switch (decision.do) {
      case 'start':
        return this.#start(command);
      case 'keep':
        return this.#keep(decision.fence);
      case 'refuse':
        return this.#refuse(command, decision.refusal);
      case 'answer':
        return this.#remember(ended(decision.type, this.#fact(command, command.fence), decision.reason));
      case 'repeat':
        return this.#host.report(decision.report);
      case 'drop':
        return this.#host.drop(decision.why, command);
      default:
        return decision satisfies never;
    }
  }

  async #start(command: StartCommand): Promise<void> {
    const { handler, logger, lives, emit, now } = this.#host;
    const life = new Life(command);
    this.#life = life;
    this.#interruption = undefined;
    lives.add(life);
    for (const [ending, deadline] of this.#endingsWaiting) this.#interrupt(ending, deadline);
    const failed = await life.start(handler, logger, now, () => this.#underLock(() => {}));
    const { key, dispatchId, fence, attempt } = command;
    if (!failed) {
      emit({ type: 'job-started', key, dispatchId, fence, attempt });
      return this.#reportStarted(life);
    }
    // Not up because a stop came: that is what the stop is answered with, not a failed start.
    if (this.#interruption) return this.#over(life, this.#interruption);
    emit({ type: 'job-start-failed', key, dispatchId, fence, ...failed });
    return this.#gone(life, { type: 'start-failed', ...this.#fact(command, fence), ...failed });
  }

  #keep(fence: Fence): void {
    const life = this.#life as Life;
    life.fence = Math.max(life.fence, fence);
    this.#reportStarted(life);
  }

  #reportStarted({ command, fence, startedAt = this.#host.now() }: Life): void {
    this.#host.report({ type: 'started', ...this.#fact(command, fence), startedAt });
  }

  #refuse(command: StartCommand, refusal: WorkerRefusal): void {
    const { key, dispatchId, fence } = command;
    this.#host.emit({ type: 'job-refused', key, dispatchId, fence, reason: refusal.reason });
    this.#remember({ type: 'refused', ...this.#fact(command, fence), ...refusal });
  }

  async #notify(up: Life, command: NotifyCommand): Promise<void> {
    const { emit, drop } = this.#host;
    // A stop that passed its deadline still is a call of the handler, and calls never overlap.
    if (up.isStopping) return drop('stopping', command);
    if (!up.takesNotifications) return drop('no-notify', command);
    try {
      await up.notify(command.payload, command.id);
    } catch (error) {
      const { key, id, fence } = command;
      emit({ type: 'notify-failed', key, dispatchId: up.command.dispatchId, fence, id, error: failureOf(error) });
    }
  }

  async #confirm({ command, fence }: Life, startedAt: EpochMs): Promise<void> {
    this.ends.confirm(fence);
    this.#host.report({ type: 'confirmed', ...this.#fact(command, fence), startedAt, payload: command.payload });
  }

  #end(ending: Ending): void {
    // It counts from here, not from when the lock is free: a handler that hangs in `start` or `notify` may hold it.
    const deadline = this.#host.stopDeadline();
    this.#endingsWaiting.set(ending, deadline);
    this.#interrupt(ending, deadline);
    void deadline.passed.then(() => {
      const life = this.#life;
      if (this.#endingsWaiting.has(ending) && life && life.fence <= ending.upTo) this.#reportStopFailed(life, ending, timedOut);
    });
    this.#underLock(async () => {
      this.#endingsWaiting.delete(ending);
      if (!deadline.isPast) await this.#carryOut(ending, deadline);
      else if (ending.kind !== 'release') await this.#carryOut(ending);
    });
  }

  #interrupt(ending: Ending, deadline: Deadline): void {
    const life = this.#life;
    if (life?.phase !== 'starting' || life.fence > ending.upTo) return;
    this.#interruption ??= ending;
    life.interrupt(ending.reason, deadline);
  }

  async #carryOut(ending: Ending, deadline = this.#host.stopDeadline()): Promise<void> {
    const { command, answer, reason } = ending;
    if (command) {
      if (!this.#host.mayAct(command.session)) return this.#host.drop('other-session', command);
      const decision = decideEnding(command, this.#state());
      if (decision.do === 'drop') return this.#host.drop(decision.why, command);
      if (decision.do === 'repeat') return this.#host.report(decision.report);
      // Whatever becomes of the stop: a start below it that is still on its way is not to run.
      this.ends.cutOff({ upTo: command.fence, answer, reason });
    }
    const life = this.#life;
    if (!life || (await this.#stop(life, ending, deadline))) this.#answer(ending, life);
  }

  /** Whether nothing of the job is left. */
  async #stop(life: Life, ending: Ending, deadline: Deadline): Promise<boolean> {
    const call = life.stop(ending.reason, deadline);
    const result = await Promise.race([call, deadline.passed]);
    deadline.cancel();
    if (result) return this.#stopped(life, ending, result);
    this.#reportStopFailed(life, ending, timedOut);
    // What was let go too late to be a release is stopped: the control plane takes it to be running, and places it again.
    const late: Ending = ending.kind === 'release' ? { ...ending, answer: 'stopped' } : ending;
    void call.then((result) =>
      this.#underLock(() => {
        if (this.#life !== life || this.#stopped(life, late, result)) this.#answer(late, life);
      }),
    );
    return false;
  }

  #stopped(life: Life, ending: Ending, result: StopResult): boolean {
    if (result === 'stopped') {
      if (life.ownEnd) this.#takeOwnEnd();
      else this.#over(life, ending);
      return true;
    }
    this.#reportStopFailed(life, ending, result.error);
    if (ending.kind === 'release') return false;
    life.stopFailures += 1;
    this.#retry?.cancel();
    const delayMs = backoffMs(life.stopFailures, firstRetryMs, maxRetryMs);
    const cancel = this.#host.timer.after(delayMs, () => this.#underLock(() => this.#stopAgain(life, ending)));
    this.#retry = { ending, cancel };
    return false;
  }

  async #stopAgain(life: Life, ending: Ending): Promise<void> {
    if (this.#life !== life || life.fence > ending.upTo) return;
    if (await this.#stop(life, ending, this.#host.stopDeadline())) this.#answer(ending, life);
  }

  /** Answers the command for its own fence, where that is not the one that was stopped. */
  #answer({ command, answer, reason }: Ending, stopped: Life | undefined): void {
    if (!command) return;
    const known = this.ends.at(command.fence);
    if (known) {
      if (stopped?.fence !== command.fence) this.#host.report(known);
      return;
    }
    const startedAt = stopped?.command.dispatchId === command.dispatchId ? stopped.startedAt : undefined;
    this.#remember(ended(answer, this.#fact(command, command.fence, startedAt), reason));
  }

  #over(life: Life, { answer, reason }: Ending): void {
    const { command, fence, startedAt } = life;
    const { key, dispatchId } = command;
    this.ends.cutOff({ upTo: fence, answer, reason });
    this.#host.emit({ type: answer === 'stopped' ? 'job-stopped' : 'job-released', key, dispatchId, fence, reason });
    this.#gone(life, ended(answer, this.#fact(command, fence, startedAt), reason));
  }

  #takeOwnEnd(): void {
    const life = this.#life;
    if (!life?.ownEnd) return;
    const { command, fence, startedAt = this.#host.now(), ownEnd } = life;
    const { key, dispatchId } = command;
    const { at, outcome } = ownEnd;
    this.#host.emit({ type: 'job-ended', key, dispatchId, fence, ...(outcome.error && { error: outcome.error }) });
    this.#gone(life, { type: 'finished', ...this.#fact(command, fence, startedAt), at, startedAt, ...outcome });
  }

  /** Nothing of it is left. A stop that would have been tried again has got what it wanted. */
  #gone(life: Life, end: EndReport): void {
    this.#life = undefined;
    this.#host.lives.delete(life);
    this.#remember(end);
    const retry = this.#retry;
    this.#retry = undefined;
    retry?.cancel();
    if (retry && life.fence <= retry.ending.upTo) this.#answer(retry.ending, life);
  }

  #reportStopFailed(life: Life, { reason, command }: Ending, error: JobError): void {
    const { fence, startedAt } = life;
    const { key, dispatchId } = life.command;
    this.#host.emit({ type: 'job-stop-failed', key, dispatchId, fence, reason, error });
    this.#host.report({ type: 'stop-failed', ...this.#fact(life.command, fence, startedAt), error });
    if (command && command.fence !== fence) this.#host.report({ type: 'stop-failed', ...this.#fact(command, command.fence), error });
  }

  #remember(report: EndReport): void {
    const end = this.ends.record(report);
    this.#host.report(end.report, end);
  }

  #fact({ dispatchId, fingerprint }: StartCommand | StopCommand | ReleaseCommand, fence: Fence, startedAt?: EpochMs) {
    const { workerId: worker, session } = this.#host;
    return {
      key: this.key,
      dispatchId,
      fingerprint,
      fence,
      worker,
      session,
      at: this.#host.now(),
      ...(startedAt !== undefined && { startedAt }),
    };
  }
}

function ended<F extends object>(type: 'stopped' | 'released', fact: F, reason: StopReason | undefined) {
  return type === 'released' ? { ...fact, type } : { ...fact, type, ...(reason && { reason }) };
}
