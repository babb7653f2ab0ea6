import {
  ConditionalCheckFailedException,
  DynamoDBServiceException,
  InternalServerError,
  ItemCollectionSizeLimitExceededException,
  ProvisionedThroughputExceededException,
  RequestLimitExceeded,
  ResourceNotFoundException,
  TransactionCanceledException,
  TransactionConflictException,
} from '@aws-sdk/client-dynamodb';
import { ExecutionLimitExceeded, StateMachineDoesNotExist } from '@aws-sdk/client-sfn';
import {
  BatchRequestTooLong,
  InvalidMessageContents,
  KmsAccessDenied,
  KmsThrottled,
  OverLimit,
  QueueDeletedRecently,
  QueueDoesNotExist,
  RequestThrottled,
  SQSServiceException,
} from '@aws-sdk/client-sqs';
import { AccessDeniedException, ParameterNotFound } from '@aws-sdk/client-ssm';
import { describe, expect, it } from 'vitest';
import { cancellation, conditionFailure, isMissingQueue, translate, translated, translateEntry } from '../../lib/aws/errors.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import { refuse, WireError } from '../../lib/wire/refusal.ts';

const options = { message: 'as the service says', $metadata: { httpStatusCode: 400 } };

/** An error that the SDK has no class of its own for. */
function dynamoError(name: string, $fault: 'client' | 'server' = 'client', httpStatusCode = 400): Error {
  return new DynamoDBServiceException({ name, $fault, message: 'as the service says', $metadata: { httpStatusCode } });
}
function sqsError(name: string): Error {
  return new SQSServiceException({ name, $fault: 'client', message: 'as the service says', $metadata: { httpStatusCode: 400 } });
}
function cancelled(...codes: readonly string[]): Error {
  return new TransactionCanceledException({ ...options, CancellationReasons: codes.map((Code) => ({ Code })) });
}
function systemError(code: string): Error {
  return Object.assign(new Error('as the system says'), { code });
}

describe('an error of the SDK', () => {
  it.each([
    ['throttled', new ProvisionedThroughputExceededException(options)],
    ['throttled', new RequestLimitExceeded(options)],
    ['throttled', dynamoError('ThrottlingException')],
    ['throttled', dynamoError('Unheard', 'client', 429)],
    ['throttled', new RequestThrottled(options)],
    ['throttled', new OverLimit(options)],
    ['throttled', new KmsThrottled(options)],
    ['throttled', new ExecutionLimitExceeded(options)],
    ['unavailable', new TransactionConflictException(options)],
    ['unavailable', cancelled('None', 'TransactionConflict')],
    ['throttled', cancelled('ThrottlingError', 'None')],
    ['throttled', cancelled('None', 'ProvisionedThroughputExceeded')],
    ['unavailable', new InternalServerError(options)],
    ['unavailable', dynamoError('ServiceUnavailable', 'server', 503)],
    ['unavailable', dynamoError('Unheard', 'server', 500)],
    ['unavailable', new QueueDeletedRecently(options)],
    ['unavailable', Object.assign(new Error('request timed out'), { name: 'TimeoutError' })],
    ['unavailable', Object.assign(new SyntaxError('half a response'), { $metadata: { httpStatusCode: 200 } })],
    ['unavailable', systemError('ECONNRESET')],
    ['unavailable', systemError('ECONNREFUSED')],
    ['unavailable', systemError('EPIPE')],
    ['unavailable', systemError('ENOTFOUND')],
    ['not-permitted', dynamoError('ExpiredTokenException')],
    ['not-permitted', sqsError('ExpiredToken')],
    ['not-permitted', sqsError('RequestExpired')],
  ])('is %s and may be tried again: %s', (code, error) => {
    expect(translate('job "a:17"', error)).toMatchObject({ code, retryable: true, cause: error });
  });

  it.each([
    ['not-permitted', dynamoError('AccessDeniedException')],
    ['not-permitted', sqsError('AccessDenied')],
    ['not-permitted', new AccessDeniedException({ ...options, Message: 'as the service says' })],
    ['not-permitted', dynamoError('UnrecognizedClientException')],
    ['not-permitted', sqsError('InvalidClientTokenId')],
    ['not-permitted', sqsError('SignatureDoesNotMatch')],
    ['not-permitted', new KmsAccessDenied(options)],
    ['not-permitted', Object.assign(new Error('no credentials'), { name: 'CredentialsProviderError' })],
    ['invalid-request', cancelled('None', 'ValidationError')],
    ['invalid-request', dynamoError('ValidationException')],
    ['invalid-request', new ItemCollectionSizeLimitExceededException(options)],
    ['invalid-request', new InvalidMessageContents(options)],
    ['invalid-request', new BatchRequestTooLong(options)],
    ['invalid-request', sqsError('InvalidParameterValue')],
    ['invalid-request', sqsError('Unheard')],
    ['invalid-request', new WireError(refuse('key', 'is empty', 'something'))],
    ['not-found', new QueueDoesNotExist(options)],
    ['not-found', sqsError('AWS.SimpleQueueService.NonExistentQueue')],
    ['no-such-pool', new ResourceNotFoundException(options)],
    ['no-such-pool', new ParameterNotFound(options)],
    ['no-such-pool', new StateMachineDoesNotExist(options)],
  ])('is %s and no retry mends it: %s', (code, error) => {
    expect(translate('job "a:17"', error)).toMatchObject({ code, retryable: false, cause: error });
  });

  it('names the thing and the fact', () => {
    const error = translate('job "a:17"', new TransactionConflictException(options));
    expect(error.message).toBe('job "a:17": as the service says (TransactionConflictException)');
  });

  it('names the fact where the service says nothing', () => {
    expect(translate('job "a:17"', new TransactionConflictException({ ...options, message: '' })).message).toBe(
      'job "a:17": TransactionConflictException (TransactionConflictException)',
    );
  });
});

describe('what is no error of the SDK', () => {
  it('stays what it is: a mistake in the code is not taken for an outage', async () => {
    const mistake = new TypeError('undefined is not a function');
    expect(() => translate('job "a:17"', mistake)).toThrow(mistake);
    await expect(translated('job "a:17"', async () => Promise.reject(mistake))).rejects.toBe(mistake);
  });

  it('stays what it is: an error of ours', () => {
    const ours = new PoolError('corrupt-record', 'job "a:17": no key', { retryable: false });
    expect(translate('table "t"', ours)).toBe(ours);
  });
});

describe('a message of a batch that was not accepted', () => {
  it.each([
    [{ Code: 'InternalError', SenderFault: false }, 'unavailable', true],
    [{ Code: 'ServiceUnavailable', SenderFault: false }, 'unavailable', true],
    [{ Code: 'Unheard', SenderFault: false }, 'unavailable', true],
    [{ Code: 'RequestThrottled', SenderFault: true }, 'throttled', true],
    [{ Code: 'InvalidMessageContents', SenderFault: true }, 'invalid-request', false],
    [{ Code: 'KmsAccessDenied', SenderFault: true }, 'not-permitted', false],
  ])('%o is %s', (entry, code, retryable) => {
    expect(translateEntry('start "a:17"', { Id: '0', ...entry })).toMatchObject({ code, retryable });
  });
});

describe('an expected end', () => {
  it('of a conditional write is told from other errors, with the item that stands there', () => {
    const Item = { rev: { S: 'r1' } };
    expect(conditionFailure(new ConditionalCheckFailedException({ ...options, Item }))).toEqual({ item: Item });
    expect(conditionFailure(new ConditionalCheckFailedException(options))).toEqual({});
    expect(conditionFailure(new TransactionConflictException(options))).toBeUndefined();
  });

  it('of a transaction is told from other errors, with the items that stand where conditions failed', () => {
    const Item = { rev: { S: 'r1' } };
    const CancellationReasons = [{ Code: 'None' }, { Code: 'ConditionalCheckFailed', Item }, { Code: 'TransactionConflict' }];
    expect(cancellation(new TransactionCanceledException({ ...options, CancellationReasons }))).toEqual([undefined, Item, undefined]);
    expect(cancellation(cancelled('None', 'TransactionConflict'))).toBeUndefined();
    expect(cancellation(new TransactionConflictException(options))).toBeUndefined();
  });

  it('of a queue that is gone is told from a table that is', () => {
    expect(isMissingQueue(new QueueDoesNotExist(options))).toBe(true);
    expect(isMissingQueue(new ResourceNotFoundException(options))).toBe(false);
  });
});
