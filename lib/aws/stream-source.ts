import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { Delivery, Source } from '../pool/batch.ts';
import type { Ids } from '../pool/ports.ts';
import type { StreamRecord } from './change-record.ts';
import { translated } from './errors.ts';
import { deadLetterParams } from './sqs-source.ts';

export interface StreamSourceOptions {
  readonly sqs: SQSClient;
  /** A standard queue: the stream's own discarded batches go there too. */
  readonly deadLetterQueueUrl: string;
  readonly ids: Ids;
}

/**
 * The records of one invocation, as `processBatch` takes them: a group per record of the pool, each delivery's body the stream's record as
 * JSON. What fails is read again from there on, with everything behind it, by the stream's own schedule.
 */
export function streamBatch(
  records: readonly StreamRecord[],
  { sqs, deadLetterQueueUrl, ids }: StreamSourceOptions,
): { readonly deliveries: readonly Delivery[]; readonly source: Source } {
  const source: Source = {
    async retryAfter() {},
    async deadLetter({ group: _, ...delivery }, reason) {
      const params = deadLetterParams(deadLetterQueueUrl, delivery, reason, ids.next());
      await translated(`stream record "${delivery.id}"`, () => sqs.send(new SendMessageCommand(params)));
    },
  };
  return { deliveries: records.map(deliveryOf), source };
}

function deliveryOf(record: StreamRecord): Delivery {
  const { Keys: { pk, sk } = {}, SequenceNumber: id = '' } = record.dynamodb ?? {};
  return { id, body: JSON.stringify(record), group: JSON.stringify([pk?.S, sk?.S]), receiveCount: 1 };
}
