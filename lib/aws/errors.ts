import { TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import type { BatchResultErrorEntry } from '@aws-sdk/client-sqs';
import { PoolError, type PoolErrorCode } from '../pool/errors.ts';
import { WireError } from '../wire/index.ts';
import type { Item } from './item.ts';

/**
 * The one place that knows what AWS's errors are called. Services name the same thing in several ways, and so do the protocols
 * of one service, so errors are told apart by their code and not by class.
 */
interface Verdict {
  readonly code: PoolErrorCode;
  readonly retryable: boolean;
}

const throttled: Verdict = { code: 'throttled', retryable: true };
const unavailable: Verdict = { code: 'unavailable', retryable: true };
const notPermitted: Verdict = { code: 'not-permitted', retryable: false };
/** The provider fetches fresh credentials at the next call, or the clock's error is corrected. */
const notPermittedNow: Verdict = { code: 'not-permitted', retryable: true };
const invalid: Verdict = { code: 'invalid-request', retryable: false };
const notFound: Verdict = { code: 'not-found', retryable: false };
const noSuchPool: Verdict = { code: 'no-such-pool', retryable: false };

const verdicts: Readonly<Record<string, Verdict>> = {
  BandwidthLimitExceeded: throttled,
  ExecutionLimitExceeded: throttled,
  KmsThrottled: throttled,
  'KMS.ThrottlingException': throttled,
  LimitExceededException: throttled,
  OverLimit: throttled,
  PriorRequestNotComplete: throttled,
  ProvisionedThroughputExceeded: throttled,
  ProvisionedThroughputExceededException: throttled,
  RequestLimitExceeded: throttled,
  RequestThrottled: throttled,
  RequestThrottledException: throttled,
  SlowDown: throttled,
  ThrottledException: throttled,
  Throttling: throttled,
  ThrottlingError: throttled,
  ThrottlingException: throttled,
  TooManyRequestsException: throttled,

  InternalError: unavailable,
  InternalFailure: unavailable,
  InternalServerError: unavailable,
  QueueDeletedRecently: unavailable,
  'AWS.SimpleQueueService.QueueDeletedRecently': unavailable,
  ReplicatedWriteConflictException: unavailable,
  RequestTimeout: unavailable,
  RequestTimeoutException: unavailable,
  ServiceUnavailable: unavailable,
  ServiceUnavailableException: unavailable,
  TimeoutError: unavailable,
  TransactionConflict: unavailable,
  TransactionConflictException: unavailable,
  TransactionInProgressException: unavailable,

  AccessDenied: notPermitted,
  AccessDeniedException: notPermitted,
  AuthFailure: notPermitted,
  CredentialsProviderError: notPermitted,
  IncompleteSignature: notPermitted,
  InvalidAccessKeyId: notPermitted,
  InvalidClientTokenId: notPermitted,
  InvalidSignatureException: notPermitted,
  KmsAccessDenied: notPermitted,
  'KMS.AccessDeniedException': notPermitted,
  KmsDisabled: notPermitted,
  'KMS.DisabledException': notPermitted,
  KmsInvalidKeyUsage: notPermitted,
  'KMS.InvalidKeyUsageException': notPermitted,
  KmsInvalidState: notPermitted,
  'KMS.InvalidStateException': notPermitted,
  KmsNotFound: notPermitted,
  'KMS.NotFoundException': notPermitted,
  KmsOptInRequired: notPermitted,
  'KMS.OptInRequired': notPermitted,
  MissingAuthenticationToken: notPermitted,
  MissingAuthenticationTokenException: notPermitted,
  NotAuthorized: notPermitted,
  NotAuthorizedForDetailTypeException: notPermitted,
  NotAuthorizedForSourceException: notPermitted,
  OptInRequired: notPermitted,
  SignatureDoesNotMatch: notPermitted,
  TokenProviderError: notPermitted,
  UnauthorizedOperation: notPermitted,
  UnrecognizedClientException: notPermitted,

  ExpiredToken: notPermittedNow,
  ExpiredTokenException: notPermittedNow,
  RequestExpired: notPermittedNow,
  RequestInTheFuture: notPermittedNow,
  RequestTimeTooSkewed: notPermittedNow,
  TokenRefreshRequired: notPermittedNow,

  QueueDoesNotExist: notFound,
  'AWS.SimpleQueueService.NonExistentQueue': notFound,
  ParameterNotFound: noSuchPool,
  ResourceNotFoundException: noSuchPool,
  StateMachineDoesNotExist: noSuchPool,
  TableNotFoundException: noSuchPool,
};

/** Where no response came at all. */
const noResponse: ReadonlySet<string> = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
]);

/** Does `call`, with the SDK's errors as `PoolError`s. `what` is the thing that was asked for, such as `job "a:17"`. */
export async function translated<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw translate(what, error);
  }
}

/** Throws what it is given where that is neither the SDK's nor ours: a mistake in the code stays what it is. */
export function translate(what: string, error: unknown): PoolError {
  if (error instanceof PoolError) return error;
  if (error instanceof WireError) return new PoolError('invalid-request', `${what}: ${error.message}`, { retryable: false, cause: error });
  const verdict = error instanceof Error ? verdictOn(error) : undefined;
  if (!verdict) throw error;
  const { name, message } = error as Error;
  return new PoolError(verdict.code, `${what}: ${message || name} (${name})`, { retryable: verdict.retryable, cause: error });
}

/** The first reason that is one. */
function reasonOf(error: Error): string {
  if (!(error instanceof TransactionCanceledException)) return error.name;
  return error.CancellationReasons?.find(({ Code: code }) => code !== undefined && code !== 'None')?.Code ?? error.name;
}

interface AwsError extends Error {
  readonly code?: unknown;
  readonly $fault?: 'client' | 'server';
  readonly $metadata?: { readonly httpStatusCode?: number };
}

function verdictOn(error: AwsError): Verdict | undefined {
  const known = verdicts[reasonOf(error)];
  if (known) return known;
  if (typeof error.code === 'string' && noResponse.has(error.code)) return unavailable;
  const status = error.$metadata?.httpStatusCode;
  if (status === 429) return throttled;
  if (error.$fault === 'server' || (status !== undefined && status >= 500)) return unavailable;
  // A response that could not be read: nobody knows whether the call was performed.
  if (status !== undefined && status < 300) return unavailable;
  return error.$fault === 'client' ? invalid : undefined;
}

/** The error of one message in a batch of which others were accepted. */
export function translateEntry(
  what: string,
  { Code: code = 'no code', Message: message, SenderFault: ours }: BatchResultErrorEntry,
): PoolError {
  const verdict = verdicts[code] ?? (ours ? invalid : unavailable);
  return new PoolError(verdict.code, `${what}: ${message ?? 'not accepted'} (${code})`, { retryable: verdict.retryable });
}

/** The item that is there instead, where the error says that a write's condition did not hold; the endpoint may leave it out. */
export function conditionFailure(error: unknown): { readonly item?: Item } | undefined {
  if (!(error instanceof Error && error.name === 'ConditionalCheckFailedException')) return undefined;
  const { Item: item } = error as Error & { readonly Item?: Item };
  return item ? { item } : {};
}

/** What stands where a transaction's conditions failed, in the order of its writes; undefined where none failed. */
export function cancellation(error: unknown): readonly (Item | undefined)[] | undefined {
  if (!(error instanceof TransactionCanceledException)) return undefined;
  const reasons = error.CancellationReasons ?? [];
  const failed = reasons.some(({ Code: code }) => code === 'ConditionalCheckFailed');
  return failed ? reasons.map(({ Item: item }) => item) : undefined;
}

export function isMissingQueue(error: unknown): boolean {
  return error instanceof Error && verdicts[error.name]?.code === 'not-found';
}

/** An execution of this name runs, or ran within the last 90 days. */
export function isNameTaken(error: unknown): boolean {
  return error instanceof Error && error.name === 'ExecutionAlreadyExists';
}

/** The task was answered, timed out, or is not known: its execution has gone on without it. */
export function isTaskOver(error: unknown): boolean {
  return error instanceof Error && ['TaskTimedOut', 'TaskDoesNotExist', 'InvalidToken'].includes(error.name);
}
