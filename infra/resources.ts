import { ArnFormat, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { AttributeType, BillingMode, ProjectionType, StreamViewType, Table } from 'aws-cdk-lib/aws-dynamodb';
import {
  type DeadLetterQueue,
  DeduplicationScope,
  FifoThroughputLimit,
  Queue,
  QueueEncryption,
  type QueueProps,
} from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { inboxPrefix } from '../lib/aws/config.ts';
import { jobsTable, type KeyAttribute, type TableLayout, workersTable } from '../lib/aws/tables.ts';

/** What holds a pool's state and what carries its messages. The ids here name tables that outlive deployments: never change one. */
export interface PoolResources {
  readonly jobsTable: Table;
  readonly workersTable: Table;
  readonly requestQueue: Queue;
  readonly reportQueue: Queue;
  readonly requestDeadLetters: Queue;
  readonly reportDeadLetters: Queue;
  /** Where changes go that could not be told; only where they are told at all, and only then have the tables streams. */
  readonly eventDeadLetters?: Queue;
  /** Matches the ARN of every inbox of this pool, and of no other's. */
  readonly inboxArns: string;
  /** Of the resync state machine: made of its name, because functions and machine need each other. */
  readonly machineArn: string;
}

export function makeResources(
  scope: Construct,
  poolName: string,
  { removalPolicy, tells }: { readonly removalPolicy: RemovalPolicy /** Its changes are told on a bus. */; readonly tells: boolean },
): PoolResources {
  const requestDeadLetters = makeQueue(scope, 'RequestDeadLetters', { fifo: true, retentionPeriod: DEAD_LETTER_RETENTION });
  const reportDeadLetters = makeQueue(scope, 'ReportDeadLetters', { retentionPeriod: DEAD_LETTER_RETENTION });
  return {
    jobsTable: makeTable(scope, 'Jobs', jobsTable, { removalPolicy, tells }),
    workersTable: makeTable(scope, 'Workers', workersTable, { removalPolicy, tells }),
    requestQueue: makeQueue(scope, 'Requests', { fifo: true, ...fed(requestDeadLetters) }),
    reportQueue: makeQueue(scope, 'Reports', fed(reportDeadLetters)),
    requestDeadLetters,
    reportDeadLetters,
    ...(tells && { eventDeadLetters: makeQueue(scope, 'EventDeadLetters', { retentionPeriod: DEAD_LETTER_RETENTION }) }),
    machineArn: Stack.of(scope).formatArn({
      service: 'states',
      resource: 'stateMachine',
      resourceName: machineName(poolName),
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    }),
    inboxArns: Stack.of(scope).formatArn({ service: 'sqs', resource: `${inboxPrefix(poolName)}*`, arnFormat: ArnFormat.NO_RESOURCE_NAME }),
  };
}

export function machineName(poolName: string): string {
  return `holdfast-${poolName}-resync`;
}

/** Of a queue's function. Long enough for ten messages of one key, each with its retries; short, because a batch that times out waits for `VISIBILITY`. */
export const CONSUMER_TIMEOUT = Duration.seconds(20);

/** Six function timeouts, as AWS advises: a message must not come again while a batch with it is still being handled. */
const VISIBILITY = Duration.seconds(6 * CONSUMER_TIMEOUT.toSeconds());

export const QUEUE_RETENTION = Duration.days(4);
export const DEAD_LETTER_RETENTION = Duration.days(14);

/**
 * As often a message is received before SQS itself takes it out. The function dead-letters it at its last receive, with the reason; this is
 * for the message that no function lives to see the end of.
 */
const MAX_RECEIVES = 20;

function fed(queue: Queue): {
  readonly visibilityTimeout: Duration;
  readonly retentionPeriod: Duration;
  readonly deadLetterQueue: DeadLetterQueue;
} {
  return { visibilityTimeout: VISIBILITY, retentionPeriod: QUEUE_RETENTION, deadLetterQueue: { queue, maxReceiveCount: MAX_RECEIVES } };
}

function makeQueue(scope: Construct, id: string, props: QueueProps): Queue {
  return new Queue(scope, id, {
    ...props,
    encryption: QueueEncryption.SQS_MANAGED,
    enforceSSL: true,
    maxMessageSizeBytes: 1_048_576,
    // Every key a group of its own, at no charge; deduplication ids are unique per send, whatever their scope.
    ...(props.fifo && {
      fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
      deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
    }),
  });
}

function makeTable(
  scope: Construct,
  id: string,
  { partitionKey, sortKey, ttl, indexes }: TableLayout,
  { removalPolicy, tells }: { readonly removalPolicy: RemovalPolicy; readonly tells: boolean },
): Table {
  const table = new Table(scope, id, {
    partitionKey: attribute(partitionKey),
    ...(sortKey && { sortKey: attribute(sortKey) }),
    ...(ttl !== undefined && { timeToLiveAttribute: ttl }),
    ...(tells && { stream: StreamViewType.NEW_AND_OLD_IMAGES }),
    billingMode: BillingMode.PAY_PER_REQUEST,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    deletionProtection: removalPolicy !== RemovalPolicy.DESTROY,
    removalPolicy,
  });
  for (const index of indexes) {
    table.addGlobalSecondaryIndex({
      indexName: index.name,
      partitionKey: attribute(index.partitionKey),
      ...(index.sortKey && { sortKey: attribute(index.sortKey) }),
      projectionType: ProjectionType.KEYS_ONLY,
    });
  }
  return table;
}

function attribute({ name, type }: KeyAttribute): { readonly name: string; readonly type: AttributeType } {
  return { name, type: type === 'S' ? AttributeType.STRING : AttributeType.NUMBER };
}
