import {
  CreateQueueCommand,
  type CreateQueueCommandInput,
  DeleteMessageBatchCommand,
  type DeleteMessageBatchCommandInput,
  DeleteQueueCommand,
  ListQueuesCommand,
  ReceiveMessageCommand,
  type ReceiveMessageCommandInput,
  SendMessageCommand,
  type SendMessageCommandInput,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { PoolError } from '../pool/errors.ts';
import type { CommandSender, Ids, InboxKeeper, Timer } from '../pool/ports.ts';
import { type Command, encodeCommand, groupIdOf } from '../wire/index.ts';
import type { Inboxes } from '../worker/ports.ts';
import { inboxName, inboxPrefix, type PoolConfig } from './config.ts';
import { isMissingQueue, translate, translated } from './errors.ts';

/** What inboxes are found by: their queues stand beside the pool's request queue. */
export type InboxPlace = Pick<PoolConfig, 'poolName' | 'requestQueueUrl' | 'encryptionKeyArn'>;

/** A command that nobody took by then is of no use: rounds send again what was lost. */
const retentionSeconds = 60 * 60;
/** A command is deleted on receipt; only one whose deletion failed waits for this, and the rest of its key's with it. */
const visibilitySeconds = 5;

/** SQS's own limits of one call. */
const maxMessages = 10;
const maxWaitSeconds = 20;
/** How long a response may take beyond the wait. */
const marginMs = 5_000;

/** A new queue is known everywhere about a second after its creation. */
const probeDelayMs = 250;
const maxProbes = 40;

export interface SqsInboxesOptions {
  readonly sqs: SQSClient;
  readonly place: InboxPlace;
  readonly timer: Timer;
  readonly ids: Ids;
}

/** The worker's side of its inbox. */
export function sqsInboxes({ sqs, place, timer, ids }: SqsInboxesOptions): Inboxes {
  async function isThere(session: string): Promise<boolean> {
    return (await unlessMissing(session, () => sqs.send(new ReceiveMessageCommand(probeParams(place, session))))) !== undefined;
  }

  return {
    async create(session) {
      await translated(nameOf(session), () => sqs.send(new CreateQueueCommand(createParams(place, session))));
      // Its absence would mean that the session is over, so it is not given out before it is found.
      for (let probes = 0; !(await isThere(session)); probes += 1) {
        if (probes === maxProbes)
          throw new PoolError('unavailable', `${nameOf(session)}: not found after its creation`, { retryable: true });
        await new Promise<void>((resolve) => {
          timer.after(probeDelayMs, resolve);
        });
      }
    },
    async receive(session, waitMs, givenUp) {
      const params = receiveParams(place, session, waitMs, ids.next());
      const options = { requestTimeout: waitMs + marginMs, abortSignal: givenUp };
      const received = await unlessMissing(session, () => sqs.send(new ReceiveMessageCommand(params), options));
      if (!received) return 'no-inbox';
      return (received.Messages ?? []).map(({ Body: body = '', ReceiptHandle: receipt = '' }) => ({ body, receipt }));
    },
    async delete(session, receipts) {
      for (let from = 0; from < receipts.length; from += maxMessages) {
        const params = deleteParams(place, session, receipts.slice(from, from + maxMessages));
        // What is not deleted, for whatever reason, comes again and says nothing new.
        await unlessMissing(session, () => sqs.send(new DeleteMessageBatchCommand(params)));
      }
    },
  };
}

/** The control plane's side: FIFO, a group per key and one for rounds. */
export function sqsCommands({ sqs, place, ids }: Omit<SqsInboxesOptions, 'timer'>): CommandSender {
  return {
    async send(command) {
      const deduplicationId = ids.next();
      const sent = await unlessMissing(command.session, async () =>
        sqs.send(new SendMessageCommand(commandParams(place, command, deduplicationId))),
      );
      return sent ? 'sent' : 'no-inbox';
    },
  };
}

/** The sweep's side. */
export function sqsInboxKeeper({ sqs, place }: Pick<SqsInboxesOptions, 'sqs' | 'place'>): InboxKeeper {
  return {
    async *sessions() {
      const prefix = inboxPrefix(place.poolName);
      let NextToken: string | undefined;
      do {
        const params = { QueueNamePrefix: prefix, MaxResults: 1_000, NextToken };
        const page = await translated(`inboxes "${prefix}*"`, () => sqs.send(new ListQueuesCommand(params)));
        for (const url of page.QueueUrls ?? []) yield sessionOf(url, prefix);
        NextToken = page.NextToken;
      } while (NextToken !== undefined);
    },
    async remove(session) {
      await unlessMissing(session, () => sqs.send(new DeleteQueueCommand({ QueueUrl: inboxUrl(place, session) })));
    },
  };
}

function sessionOf(url: string, prefix: string): string {
  return url.slice(url.lastIndexOf('/') + 1 + prefix.length, -'.fifo'.length);
}

export function inboxUrl({ poolName, requestQueueUrl }: InboxPlace, session: string): string {
  return requestQueueUrl.slice(0, requestQueueUrl.lastIndexOf('/') + 1) + inboxName(poolName, session);
}

/** With the same parameters again it changes nothing, so they must not differ between tries. */
function createParams({ poolName, encryptionKeyArn }: InboxPlace, session: string): CreateQueueCommandInput {
  return {
    QueueName: inboxName(poolName, session),
    Attributes: {
      FifoQueue: 'true',
      // Thousands of messages a second instead of hundreds.
      DeduplicationScope: 'messageGroup',
      FifoThroughputLimit: 'perMessageGroupId',
      MessageRetentionPeriod: String(retentionSeconds),
      VisibilityTimeout: String(visibilitySeconds),
      ...(encryptionKeyArn === undefined ? { SqsManagedSseEnabled: 'true' } : { KmsMasterKeyId: encryptionKeyArn }),
    },
  };
}

/** What it finds is visible again at once. */
function probeParams(place: InboxPlace, session: string): ReceiveMessageCommandInput {
  return { QueueUrl: inboxUrl(place, session), MaxNumberOfMessages: 1, VisibilityTimeout: 0, WaitTimeSeconds: 0 };
}

/** Where a response is lost, a further try under the same attempt id gets the messages that it carried. */
function receiveParams(place: InboxPlace, session: string, waitMs: number, attemptId: string): ReceiveMessageCommandInput {
  return {
    QueueUrl: inboxUrl(place, session),
    MaxNumberOfMessages: maxMessages,
    WaitTimeSeconds: Math.min(Math.ceil(waitMs / 1_000), maxWaitSeconds),
    ReceiveRequestAttemptId: attemptId,
  };
}

function deleteParams(place: InboxPlace, session: string, receipts: readonly string[]): DeleteMessageBatchCommandInput {
  const Entries = receipts.map((receipt, index) => ({ Id: String(index), ReceiptHandle: receipt }));
  return { QueueUrl: inboxUrl(place, session), Entries };
}

function commandParams(place: InboxPlace, command: Command, deduplicationId: string): SendMessageCommandInput {
  return {
    QueueUrl: inboxUrl(place, command.session),
    MessageBody: encodeCommand(command),
    MessageGroupId: command.op === 'resync' ? 'resync' : groupIdOf(command.key),
    MessageDeduplicationId: deduplicationId,
  };
}

/** Undefined where the session has no inbox, or none any more. */
async function unlessMissing<T>(session: string, call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (isMissingQueue(error)) return undefined;
    throw translate(nameOf(session), error);
  }
}

function nameOf(session: string): string {
  return `inbox of session "${session}"`;
}
