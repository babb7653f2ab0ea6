/** Why something unexpected ended; a closed list, so that callers switch on it and never on a message. */
export type PoolErrorCode =
  | 'not-permitted'
  | 'deadline-exceeded'
  | 'throttled'
  | 'unavailable'
  | 'not-found'
  | 'invalid-request'
  | 'no-such-pool'
  | 'corrupt-record'
  | 'contended'
  | 'record-missing';

/**
 * The one error class for what nobody expects in good times. Expected ends (refusals, failures, lost races) are values.
 *
 * `retryable`: the same call may succeed later. `cause`: what the service said.
 */
export class PoolError extends Error {
  override readonly name = 'PoolError';
  readonly code: PoolErrorCode;
  readonly retryable: boolean;

  constructor(code: PoolErrorCode, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable;
  }
}

/** What to tell of whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** It is the deployment that is wrong, and not the message, the job or the worker at which that shows: a permission or a resource is missing. */
export function isDeploymentWrong(error: unknown): boolean {
  return error instanceof PoolError && (error.code === 'not-permitted' || error.code === 'no-such-pool');
}
