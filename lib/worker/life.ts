import type { EpochMs, Fence } from '../pool/job.ts';
import { cutResult, type FinishedReport, type JobError, type StartCommand, type StopReason } from '../wire/index.ts';
import type { Deadline } from './deadline.ts';
import { failureOf, type Handler, type Job, type Running, StoppingError } from './handler.ts';
import { type Logger, withFields } from './logger.ts';

export type StopResult = 'stopped' | { readonly error: JobError };

/** What a job's `done` came to. */
export interface Done {
  readonly at: EpochMs;
  readonly outcome: Pick<FinishedReport, 'error' | 'result' | 'resultOmitted'>;
}

/**
 * One job's handler, from the call of its `start` until nothing of it is left. Whoever calls it holds the key's lock, but for `interrupt` and
 * `lose`, which may come at any time.
 */
export class Life {
  readonly command: StartCommand;
  /** At least that of the start; a repeated start raises it. */
  fence: Fence;
  startedAt?: EpochMs;
  /** The job ended by itself. */
  ownEnd?: Done;
  /** Calls of `stop` in a row that failed. */
  stopFailures = 0;
  readonly #lost = new AbortController();
  readonly #interrupted = new AbortController();
  #running?: Running<Uint8Array>;
  #stopping?: Promise<StopResult>;
  #doneWhileEnding?: Done;

  constructor(command: StartCommand) {
    this.command = command;
    this.fence = command.fence;
  }

  get phase(): 'starting' | 'up' {
    return this.#running ? 'up' : 'starting';
  }

  /** A stop was called and has not returned. */
  get isStopping(): boolean {
    return this.#stopping !== undefined;
  }

  get isLost(): boolean {
    return this.#lost.signal.aborted;
  }

  get takesNotifications(): boolean {
    return this.#running?.notify !== undefined;
  }

  /** Resolves to why it is not up, or to nothing. `ended` is called where it ends by itself later. */
  async start(handler: Handler, logger: Logger, now: () => EpochMs, ended: () => void): Promise<{ readonly error: JobError } | undefined> {
    try {
      this.#running = await handler.start(this.#job(logger));
    } catch (error) {
      return { error: failureOf(error) };
    }
    this.startedAt = now();
    const settle = (done: Done) => {
      // What a stop or `lost` brings about is not the job's own end.
      if (this.#stopping || this.isLost) {
        this.#doneWhileEnding = done;
      } else {
        this.ownEnd = done;
        ended();
      }
    };
    const { done } = this.#running;
    if (done) {
      void Promise.resolve(done).then(
        (result) => settle({ at: now(), outcome: resultOf(result) }),
        (error) => settle({ at: now(), outcome: { error: failureOf(error) } }),
      );
    }
    return undefined;
  }

  /** Asks the handler to stop, or joins the call that has not returned yet. */
  stop(reason: StopReason, deadline: Deadline): Promise<StopResult> {
    this.#stopping ??= this.#stop({ reason, mayWrite: !this.isLost, deadline: deadline.signal });
    return this.#stopping;
  }

  async #stop(stopping: Parameters<Running<never>['stop']>[0]): Promise<StopResult> {
    try {
      // In a function of its own, so that a throw comes no earlier than any other rejection.
      await (async () => this.#running?.stop(stopping))();
      return 'stopped';
    } catch (error) {
      if (!this.#doneWhileEnding) return { error: failureOf(error) };
      if (this.isLost) return 'stopped';
      // It would not stop, and then it ended by itself.
      this.ownEnd = this.#doneWhileEnding;
      return 'stopped';
    } finally {
      this.#stopping = undefined;
    }
  }

  /** Throws what the handler throws. */
  async notify(payload: Uint8Array, id: string): Promise<void> {
    await this.#running?.notify?.(payload, id);
  }

  /** Tells a start that has not returned that it is not wanted any more. */
  interrupt(reason: StopReason, deadline: Deadline): void {
    this.#interrupted.abort(this.#stoppingError(reason, deadline));
  }

  /** Fires `lost`: this worker may no longer act for the key. */
  lose(reason: StopReason, deadline: Deadline): void {
    const error = new StoppingError({ reason, mayWrite: false, deadline: deadline.signal });
    this.#lost.abort(error);
    if (this.phase === 'starting') this.#interrupted.abort(error);
  }

  #stoppingError(reason: StopReason, deadline: Deadline): StoppingError {
    return new StoppingError({ reason, mayWrite: !this.isLost, deadline: deadline.signal });
  }

  #job(logger: Logger): Job<Uint8Array> {
    const { key, dispatchId, payload, attempt } = this.command;
    const fence = () => this.fence;
    return {
      key,
      payload,
      dispatchId,
      get fence() {
        return fence();
      },
      attempt,
      lost: this.#lost.signal,
      signal: this.#interrupted.signal,
      log: withFields(logger, () => ({ key, dispatchId, fence: fence() })),
    };
  }
}

/** A copy: the report may be sent when the handler has long gone on with the object. */
function resultOf(value: unknown): Done['outcome'] {
  const cut = cutResult(value);
  if (cut.result === undefined) return cut;
  try {
    return { result: JSON.parse(JSON.stringify(cut.result)) };
  } catch {
    return { resultOmitted: true };
  }
}
