import { randomBytes } from 'node:crypto';
import { CreateTableCommand, DeleteTableCommand, UpdateTimeToLiveCommand, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import { CreateQueueCommand, DeleteQueueCommand, ListQueuesCommand } from '@aws-sdk/client-sqs';
import type { AwsClients } from '../lib/aws/clients.ts';
import type { PoolConfig } from '../lib/aws/config.ts';
import { jobsTable, type KeyAttribute, type TableLayout, workersTable } from '../lib/aws/tables.ts';

/**
 * Tables and queues of a pool that has no functions and no state machine: whoever made it takes what is on its queues. Disposed of, they are
 * gone, and the inboxes that were made meanwhile.
 */
export interface BarePool extends AsyncDisposable {
  readonly config: PoolConfig;
  readonly requestDeadLetterQueueUrl: string;
  readonly reportDeadLetterQueueUrl: string;
}

export async function makeBarePool({ dynamo, sqs }: Pick<AwsClients, 'dynamo' | 'sqs'>, region: string): Promise<BarePool> {
  const poolName = `bare-${randomBytes(6).toString('hex')}`;
  const name = `holdfast-${poolName}`;

  async function table(kind: string, layout: TableLayout): Promise<string> {
    const TableName = `${name}-${kind}`;
    await dynamo.send(new CreateTableCommand({ TableName, ...tableParams(layout) }));
    await waitUntilTableExists({ client: dynamo, maxWaitTime: 60, minDelay: 0.1 }, { TableName });
    if (layout.ttl !== undefined) {
      await dynamo.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { AttributeName: layout.ttl, Enabled: true } }));
    }
    return TableName;
  }

  async function queue(kind: string, isFifo: boolean): Promise<string> {
    const params = isFifo ? { QueueName: `${name}-${kind}.fifo`, Attributes: { FifoQueue: 'true' } } : { QueueName: `${name}-${kind}` };
    const { QueueUrl: url = '' } = await sqs.send(new CreateQueueCommand(params));
    return url;
  }

  const [jobs, workers, requestQueueUrl, reportQueueUrl, requestDeadLetterQueueUrl, reportDeadLetterQueueUrl] = await Promise.all([
    table('jobs', jobsTable),
    table('workers', workersTable),
    queue('requests', true),
    queue('reports', false),
    queue('dead-requests', true),
    queue('dead-reports', false),
  ]);
  const config: PoolConfig = {
    ...{ v: 1, poolName, region, requestQueueUrl, reportQueueUrl, jobsTable: jobs, workersTable: workers },
    ...{ resyncMachineArn: 'none', leaseMs: 30_000, retentionMs: 86_400_000 },
  };
  return {
    config,
    requestDeadLetterQueueUrl,
    reportDeadLetterQueueUrl,
    async [Symbol.asyncDispose]() {
      const { QueueUrls: urls = [] } = await sqs.send(new ListQueuesCommand({ QueueNamePrefix: name }));
      await Promise.all(urls.map((QueueUrl) => sqs.send(new DeleteQueueCommand({ QueueUrl }))));
      await Promise.all([jobs, workers].map((TableName) => dynamo.send(new DeleteTableCommand({ TableName }))));
    },
  };
}

function tableParams(layout: TableLayout) {
  const attributes = [layout, ...layout.indexes].flatMap(({ partitionKey, sortKey }) =>
    sortKey ? [partitionKey, sortKey] : [partitionKey],
  );
  const indexes = layout.indexes.map((index) => ({
    IndexName: index.name,
    KeySchema: keySchema(index),
    Projection: { ProjectionType: 'KEYS_ONLY' as const },
  }));
  return {
    BillingMode: 'PAY_PER_REQUEST' as const,
    AttributeDefinitions: attributes.map(({ name: AttributeName, type: AttributeType }) => ({ AttributeName, AttributeType })),
    KeySchema: keySchema(layout),
    ...(indexes.length > 0 && { GlobalSecondaryIndexes: indexes }),
  };
}

function keySchema({ partitionKey, sortKey }: { readonly partitionKey: KeyAttribute; readonly sortKey?: KeyAttribute }) {
  const hash = { AttributeName: partitionKey.name, KeyType: 'HASH' as const };
  return sortKey ? [hash, { AttributeName: sortKey.name, KeyType: 'RANGE' as const }] : [hash];
}
