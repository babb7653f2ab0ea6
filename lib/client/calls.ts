import { PoolError } from '../pool/errors.ts';
import { type Request, WireError } from '../wire/index.ts';
import { abortable } from './abortable.ts';
import type { ClientPorts } from './ports.ts';
import { Waits } from './waits.ts';

export interface Abortable {
  readonly signal?: AbortSignal;
}

export interface Wait extends Abortable {
  /** Milliseconds, from 1 to 2147483647 (24 days). */
  readonly timeoutMs: number;
}

/** The construct's method that gives the permission. */
export type Grant = 'grantProduce' | 'grantObserve' | 'grantOperate';

/** The way of every method to the ports, so that all of them end alike: on abort, on disposal, and in errors that name the method. */
export class Calls {
  readonly ports: ClientPorts;
  readonly waits: Waits;
  readonly #disposal = new AbortController();

  constructor(ports: ClientPorts) {
    this.ports = ports;
    this.waits = new Waits(ports);
  }

  /** Fires when no call is taken any more. */
  get disposed(): AbortSignal {
    return this.#disposal.signal;
  }

  async run<T>(method: string, grant: Grant, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    this.disposed.throwIfAborted();
    try {
      return await abortable(signal, work);
    } catch (error) {
      throw named(error, method, grant);
    }
  }

  /** Resolves when the queue has it. */
  async send(request: Request): Promise<void> {
    const [error] = await this.ports.requests.send([request]);
    if (error) throw error;
  }

  dispose(): void {
    const reason = new PoolError('unavailable', 'the pool was disposed of', { retryable: false });
    this.#disposal.abort(reason);
    this.waits.end(reason);
  }
}

/**
 * The error as the method's own: what was wrong with its arguments, or which grant it lacks. What is not permitted now but may be soon is
 * a matter of credentials and not of grants.
 */
export function named<E>(error: E, method: string, grant: string): E | PoolError {
  if (error instanceof WireError) return invalid(`${method}(): ${error.message}`, error);
  if (!(error instanceof PoolError && error.code === 'not-permitted' && !error.retryable)) return error;
  return new PoolError('not-permitted', `${method}() needs ${grant}; ${error.message}`, { retryable: false, cause: error });
}

export function invalid(message: string, cause?: unknown): PoolError {
  return new PoolError('invalid-request', message, { retryable: false, cause });
}

/** The longest that a timer can be set for; above it, it would fire at once. */
const MAX_TIMEOUT_MS = 2_147_483_647;

export function checkedTimeout(method: string, timeoutMs: unknown): number {
  if (typeof timeoutMs === 'number' && timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS) return timeoutMs;
  throw invalid(`${method}(): timeoutMs is ${timeoutMs}; allowed: milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
}
