import type { StandardSchemaV1 } from '@standard-schema/spec';
import { cutMessage, type JobError, type StopReason } from '../wire/index.ts';
import type { Logger } from './logger.ts';

/** What a handler knows of the job that it runs. */
export interface Job<P> {
  readonly key: string;
  /** As the schema gave it; without a schema a `Raw`. */
  readonly payload: P;
  readonly dispatchId: string;
  /** Fencing token: hand it to the resource, which refuses a lower one than it has seen. It is live: a repeated start may raise it. */
  readonly fence: number;
  /** 1 for the first try; rises with each retry or restart. */
  readonly attempt: number;
  /** This worker may no longer act for the key: write nothing more. Never fires for an ordinary stop. */
  readonly lost: AbortSignal;
  /**
   * In `run`: fires for every way to end but the job's own, `lost` included. In `start`: fires where a stop or `lost` comes before `start` has
   * returned; afterwards `stop` says it. Its reason is a `StoppingError`.
   */
  readonly signal: AbortSignal;
  /** Adds key, dispatch id and fence to each line. */
  readonly log: Logger;
}

/** A job that is up. */
export interface Running<N> {
  /** Resolves: the job succeeded by itself, with this result. Rejects: it failed. Absent: it runs until it is stopped. */
  readonly done?: PromiseLike<unknown>;
  /** Returns once nothing of the job is left. A throw means that it still runs as before. */
  stop(stopping: Stopping): void | PromiseLike<void>;
  /** Absent: notifications are dropped and counted. `id` is the same in each repeat. A throw is logged and counted, and the job goes on. */
  notify?(payload: N, id: string): void | PromiseLike<void>;
}

export interface Stopping {
  readonly reason: StopReason;
  /** False once `lost` has fired: another worker may be at work for the key already. */
  readonly mayWrite: boolean;
  /** Fires when the stop should have returned. */
  readonly deadline: AbortSignal;
}

/** Payload or notification bytes where no schema is given. */
export interface Raw {
  readonly bytes: Uint8Array;
  /** Throws where the bytes are no UTF-8. */
  text(): string;
  json(): unknown;
}

/** Any Standard Schema: zod, valibot, arktype and others. It reads the JSON in the bytes. */
export type Schema = StandardSchemaV1;
type RawSchema = StandardSchemaV1<unknown, Raw>;
type Out<S extends Schema> = StandardSchemaV1.InferOutput<S>;

export type HandlerOptions<S extends Schema, N extends Schema> = {
  readonly payload?: S;
  readonly notification?: N;
} & (
  | { start(job: Job<Out<S>>): Running<Out<N>> | PromiseLike<Running<Out<N>>>; readonly run?: never }
  | { run(job: Job<Out<S>>): PromiseLike<unknown>; readonly start?: never }
);

/** A handler as the runtime calls it: with bytes. Made by `defineHandler`. */
export interface Handler {
  start(job: Job<Uint8Array>): Promise<Running<Uint8Array>>;
}

/**
 * Defines what a worker does for a job: `run`, a function that works until its `signal` fires, or `start`, which brings the job up and
 * returns how to stop it.
 *
 * ```ts
 * export const follower = defineHandler({
 *   payload: z.object({ url: z.url() }),
 *   async run(job) {
 *     for await (const line of follow(job.payload.url, { signal: job.signal })) await sink.write(job.key, job.fence, line);
 *   },
 * });
 * ```
 *
 * A handler may rely on this:
 * 1. A repeated start never reaches it: as long as a job is up, or its end is remembered, a start that comes again is answered by the
 *    runtime, and a conflicting one is refused without touching the job.
 * 2. Calls for one key never overlap, except that `lost` may fire during any of them.
 * 3. `start` throwing means "not up, nothing left behind".
 * 4. After `lost` another worker may start the key at once.
 * 5. A suspended process can be late to know that it lost a job: compare `fence` at the resource and refuse a lower one.
 * 6. `notify` arrives in order per key, at least once, with an `id` that repeats share. A notification for a job that is not up is dropped
 *    and counted.
 * 7. A throw in `notify` is logged and counted; it does not end the job.
 *
 * `stop` is called on every path but the job's own end, never twice at once. Where it throws, the job keeps running, and a stop (not a
 * move) is tried again. A `run` that settles after its signal fired was stopped, however it settles.
 *
 * A `RetryableError` from `start`, `run` or `done` has the job tried again. Any other throw of `start`, and a payload that its schema refuses,
 * is the end of it; a rejected `run` or `done` is subject to the pool's restart policy. What `run` or `done` resolves to is kept as the
 * end's `result` where it is JSON of at most 1 KiB.
 */
export function defineHandler<S extends Schema = RawSchema, N extends Schema = RawSchema>(options: HandlerOptions<S, N>): Handler {
  const start = options.start ? options.start.bind(options) : startOfRun<Out<S>>(options.run.bind(options));
  return {
    async start(job) {
      const payload = (await read('payload', job.payload, options.payload)) as Out<S>;
      job.signal.throwIfAborted();
      const running: Running<Out<N>> = await start(viewOf(job, payload, job.signal));
      if (typeof running?.stop !== 'function') throw new TypeError('start must return an object with a function stop');
      return {
        done: running.done,
        stop: (stopping) => running.stop(stopping),
        notify:
          running.notify &&
          (async (bytes, id) => running.notify?.((await read('notification', bytes, options.notification)) as Out<N>, id)),
      };
    },
  };
}

function startOfRun<P>(run: (job: Job<P>) => PromiseLike<unknown>): (job: Job<P>) => Running<never> {
  return (job) => {
    const ending = new AbortController();
    job.lost.addEventListener('abort', () => ending.abort(job.lost.reason), { once: true });
    const done = (async () => run(viewOf(job, job.payload, ending.signal)))();
    return {
      done,
      async stop(stopping) {
        ending.abort(new StoppingError(stopping));
        await done.catch(() => undefined);
      },
    };
  };
}

/** The job with another payload and signal, its fence still live. */
function viewOf<P>(job: Job<unknown>, payload: P, signal: AbortSignal): Job<P> {
  const { key, dispatchId, attempt, lost, log } = job;
  return {
    key,
    payload,
    dispatchId,
    get fence() {
      return job.fence;
    },
    attempt,
    lost,
    signal,
    log,
  };
}

async function read(what: 'payload' | 'notification', bytes: Uint8Array, schema: Schema | undefined): Promise<unknown> {
  const raw: Raw = {
    bytes,
    text: () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
    json: () => JSON.parse(raw.text()),
  };
  if (!schema) return raw;
  let value: unknown;
  try {
    value = raw.json();
  } catch (cause) {
    throw new InvalidInput(what, 'is not JSON', cause);
  }
  const result = await schema['~standard'].validate(value);
  if (result.issues) throw new InvalidInput(what, result.issues.map(textOf).join('; '), result.issues);
  return result.value;
}

function textOf({ path = [], message }: StandardSchemaV1.Issue): string {
  const at = path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
  return at === '' ? message : `${at}: ${message}`;
}

/** A payload or notification that does not fit the handler's schema. */
class InvalidInput extends Error {
  override readonly name = 'InvalidInput';
  readonly code: string;

  constructor(what: 'payload' | 'notification', fact: string, cause: unknown) {
    super(fact, { cause });
    this.code = `invalid-${what}`;
  }
}

/**
 * Throw it where trying again may help: from `start`, from `run`, or as the rejection of `done`.
 *
 * `retryAfterMs` is honoured within the pool's longest backoff; what is no number of 0 or more counts as absent.
 */
export class RetryableError extends Error {
  override readonly name = 'RetryableError';
  readonly retryAfterMs?: number;

  constructor(message: string, options: { readonly cause?: unknown; readonly retryAfterMs?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const { retryAfterMs } = options;
    if (typeof retryAfterMs === 'number' && retryAfterMs >= 0)
      this.retryAfterMs = Math.min(Math.round(retryAfterMs), Number.MAX_SAFE_INTEGER);
  }
}

/** The reason of `signal` and of `lost`. */
export class StoppingError extends Error implements Stopping {
  override readonly name = 'StoppingError';
  readonly reason: StopReason;
  readonly mayWrite: boolean;
  readonly deadline: AbortSignal;

  constructor({ reason, mayWrite, deadline }: Stopping) {
    super(`the job is to stop: ${reason}`);
    this.reason = reason;
    this.mayWrite = mayWrite;
    this.deadline = deadline;
  }
}

/** What a report says of something that was thrown. */
export function failureOf(thrown: unknown): JobError {
  const retryable = thrown instanceof RetryableError;
  return {
    code: codeOf(thrown),
    message: cutMessage(messageOf(thrown)),
    retryable,
    ...(retryable && thrown.retryAfterMs !== undefined && { retryAfterMs: thrown.retryAfterMs }),
  };
}

/** Anything can be thrown, also what has no text. */
function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return `a ${typeof thrown} without text was thrown`;
  }
}

/** An error's own `code` where it has one that a report can carry, as Node's and the SDK's errors do; else its name. */
function codeOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return 'Error';
  const { code } = thrown as { readonly code?: unknown };
  return [code, thrown.name].find(isCode) ?? 'Error';
}

function isCode(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,128}$/.test(value);
}
