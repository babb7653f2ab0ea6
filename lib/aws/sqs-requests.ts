import { SendMessageCommand, type SendMessageCommandInput, type SQSClient } from '@aws-sdk/client-sqs';
import type { RequestBatchSender } from '../client/ports.ts';
import { PoolError } from '../pool/errors.ts';
import type { Ids, RequestSender } from '../pool/ports.ts';
import { encodeRequest, groupIdOf, type Request } from '../wire/index.ts';
import { translate, translated } from './errors.ts';
import { type Message, sendInBatches } from './sqs-batch.ts';

export interface SqsRequestsOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly ids: Ids;
}

/**
 * The request queue: FIFO, a group per key. The deduplication id is of the one send and never made from what is sent: SQS would
 * swallow a start that conflicts with an earlier one, or a stop that is repeated, before anyone could answer it.
 */
export function sqsRequests({ sqs, queueUrl, ids }: SqsRequestsOptions): RequestSender {
  return {
    async send(requests) {
      const [request] = requests;
      if (request && requests.length === 1) {
        const deduplicationId = ids.next();
        await translated(nameOf(request), async () => sqs.send(new SendMessageCommand(requestParams(queueUrl, request, deduplicationId))));
        return;
      }
      const failure = (await sqsRequestBatches({ sqs, queueUrl, ids }).send(requests)).find((error) => error !== undefined);
      if (failure) throw failure;
    },
  };
}

/** The same, many at a time; a request that breaks a limit is not sent, and the others are. */
export function sqsRequestBatches({ sqs, queueUrl, ids }: SqsRequestsOptions): RequestBatchSender {
  return {
    async send(requests) {
      const encoded = requests.map((request) => messageOrError(request, ids.next()));
      const messages = encoded.flatMap((each) => (each instanceof PoolError ? [] : [each]));
      const results = (await sendInBatches(sqs, queueUrl, messages)).values();
      return encoded.map((each) => (each instanceof PoolError ? each : results.next().value));
    },
  };
}

function requestParams(queueUrl: string, request: Request, deduplicationId: string): SendMessageCommandInput {
  return {
    QueueUrl: queueUrl,
    MessageBody: encodeRequest(request),
    MessageGroupId: groupIdOf(request.key),
    MessageDeduplicationId: deduplicationId,
  };
}

function messageOrError(request: Request, deduplicationId: string): Message | PoolError {
  const what = nameOf(request);
  try {
    return { what, body: encodeRequest(request), fifo: { group: groupIdOf(request.key), deduplicationId } };
  } catch (error) {
    return translate(what, error);
  }
}

function nameOf({ op, key }: Request): string {
  return `${op} "${key}"`;
}
