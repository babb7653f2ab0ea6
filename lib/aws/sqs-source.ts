import {
  ChangeMessageVisibilityCommand,
  type ChangeMessageVisibilityCommandInput,
  SendMessageCommand,
  type SendMessageCommandInput,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { Delivery, Source } from '../pool/batch.ts';
import type { Ids } from '../pool/ports.ts';
import { maxBodyBytes } from '../wire/index.ts';
import { translated } from './errors.ts';

/** What Lambda hands to a function of one message. */
export interface SqsRecord {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly attributes: { readonly ApproximateReceiveCount: string; readonly MessageGroupId?: string | undefined };
}

export interface SqsSourceOptions {
  readonly sqs: SQSClient;
  /** Where the records came from. */
  readonly queueUrl: string;
  /** Of the same kind as the queue: FIFO or standard. */
  readonly deadLetterQueueUrl: string;
  readonly ids: Ids;
}

/** The records of one invocation, as `processBatch` takes them, and the queue that they came from. */
export function sqsBatch(
  records: readonly SqsRecord[],
  { sqs, queueUrl, deadLetterQueueUrl, ids }: SqsSourceOptions,
): { readonly deliveries: readonly Delivery[]; readonly source: Source } {
  const receipts = new Map(records.map(({ messageId, receiptHandle }) => [messageId, receiptHandle]));
  const source: Source = {
    async retryAfter({ id }, delayMs) {
      const params = retryParams(queueUrl, receipts.get(id), delayMs);
      await translated(`message "${id}"`, () => sqs.send(new ChangeMessageVisibilityCommand(params)));
    },
    async deadLetter(delivery, reason) {
      const params = deadLetterParams(deadLetterQueueUrl, delivery, reason, ids.next());
      await translated(`message "${delivery.id}"`, () => sqs.send(new SendMessageCommand(params)));
    },
  };
  return { deliveries: records.map(deliveryOf), source };
}

function deliveryOf({ messageId, body, attributes }: SqsRecord): Delivery {
  const { ApproximateReceiveCount: receiveCount, MessageGroupId: group } = attributes;
  return { id: messageId, body, receiveCount: Number(receiveCount), ...(group === undefined ? {} : { group }) };
}

/** Rounded up: a message never comes again too early. */
export function retryParams(queueUrl: string, receipt: string | undefined, delayMs: number): ChangeMessageVisibilityCommandInput {
  return { QueueUrl: queueUrl, ReceiptHandle: receipt, VisibilityTimeout: Math.ceil(delayMs / 1_000) };
}

/** Name of the message attribute that says why a message was dead-lettered. */
const reasonAttribute = 'reason';
const maxReasonLength = 1_024;

/** The message as it came, with its reason; without, where both do not fit one message. */
export function deadLetterParams(
  queueUrl: string,
  { body, group }: Delivery,
  reason: string,
  deduplicationId: string,
): SendMessageCommandInput {
  const attribute = { DataType: 'String', StringValue: attributeText(reason) };
  const bytes = Buffer.byteLength(body) + reasonAttribute.length + attribute.DataType.length + attribute.StringValue.length;
  return {
    QueueUrl: queueUrl,
    MessageBody: body,
    ...(bytes <= maxBodyBytes && { MessageAttributes: { [reasonAttribute]: attribute } }),
    ...(group !== undefined && { MessageGroupId: group, MessageDeduplicationId: deduplicationId }),
  };
}

/** An attribute must not be empty and takes only some characters. */
function attributeText(reason: string): string {
  return reason.slice(0, maxReasonLength).replaceAll(/[^\x20-\x7e]/g, '?') || 'unknown';
}
