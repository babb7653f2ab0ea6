import { SendMessageBatchCommand, type SendMessageBatchRequestEntry, type SQSClient } from '@aws-sdk/client-sqs';
import type { PoolError } from '../pool/errors.ts';
import { maxBodyBytes } from '../wire/index.ts';
import { translate, translateEntry } from './errors.ts';

/** One message to send. */
export interface Message {
  /** Names it in errors. */
  readonly what: string;
  readonly body: string;
  /** On a FIFO queue alone. */
  readonly fifo?: {
    readonly group: string;
    /** Of this send alone, made before the first try. */
    readonly deduplicationId: string;
  };
}

/** What one call takes; in bytes it is as much as one message may have. */
const maxMessages = 10;

/** SQS may accept a batch in part: how often what it did not accept is sent in all. */
const maxTries = 3;

/**
 * Sends the messages, in order, in as few calls as SQS takes. One result per message, in order: undefined where the queue
 * has it, else why it may not have it.
 */
export async function sendInBatches(
  sqs: SQSClient,
  queueUrl: string,
  messages: readonly Message[],
): Promise<readonly (PoolError | undefined)[]> {
  const results: (PoolError | undefined)[] = [];
  for (const batch of batches(messages)) results.push(...(await sendBatch(sqs, queueUrl, batch)));
  return results;
}

async function sendBatch(sqs: SQSClient, queueUrl: string, batch: readonly Message[]): Promise<readonly (PoolError | undefined)[]> {
  const results: (PoolError | undefined)[] = batch.map(() => undefined);
  let open = batch.map((message, index) => ({ message, index }));
  for (let tries = 0; tries < maxTries && open.length > 0; tries += 1) {
    try {
      const Entries = open.map(({ message, index }) => entryOf(message, String(index)));
      const { Failed: failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
      for (const { message, index } of open) {
        const failure = failed.find(({ Id }) => Id === String(index));
        results[index] = failure && translateEntry(message.what, failure);
      }
    } catch (error) {
      for (const { message, index } of open) results[index] = translate(message.what, error);
      return results; // The client itself has tried that again.
    }
    open = open.filter(({ index }) => results[index]?.retryable);
  }
  return results;
}

function entryOf({ body, fifo }: Message, id: string): SendMessageBatchRequestEntry {
  return { Id: id, MessageBody: body, MessageGroupId: fifo?.group, MessageDeduplicationId: fifo?.deduplicationId };
}

export function batches(messages: readonly Message[]): readonly (readonly Message[])[] {
  const all: Message[][] = [];
  let bytes = 0;
  for (const message of messages) {
    const size = Buffer.byteLength(message.body);
    const last = all.at(-1);
    if (last && last.length < maxMessages && bytes + size <= maxBodyBytes) {
      last.push(message);
      bytes += size;
    } else {
      all.push([message]);
      bytes = size;
    }
  }
  return all;
}
