import { randomBytes } from 'node:crypto';
import { CreateTableCommand, DeleteTableCommand, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import { CreateQueueCommand, DeleteQueueCommand, ListQueuesCommand } from '@aws-sdk/client-sqs';
import type { AwsClients } from '../lib/aws/clients.ts';
import type { PoolConfig } from '../lib/aws/config.ts';
import { jobsTable, type KeyAttribute, type TableLayout, workersTable } from '../lib/aws/tables.ts';

/** Tables and queues of a pool that has no functions: whoever made it takes what is on its queues. */
export interface BarePool extends AsyncDisposable {
  readonly config: PoolConfig;
  readonly deadLetterQueueUrl: string;
}

export async function makeBarePool({ dynamo, sqs }: AwsClients, region: string): Promise<BarePool> {
  const poolName = `bench-${randomBytes(6).toString('hex')}`;
  const name = `holdfast-${poolName}`;

  async function table(kind: string, layout: TableLayout): Promise<string> {
    const TableName = `${name}-${kind}`;
    await dynamo.send(new CreateTableCommand({ TableName, ...tableParams(layout) }));
    await waitUntilTableExists({ client: dynamo, maxWaitTime: 60, minDelay: 0.1 }, { TableName });
    return TableName;
  }

  async function queue(kind: string, isFifo: boolean): Promise<string> {
    const params = isFifo ? { QueueName: `${name}-${kind}.fifo`, Attributes: { FifoQueue: 'true' } } : { QueueName: `${name}-${kind}` };
    const { QueueUrl: url = '' } = await sqs.send(new CreateQueueCommand(params));
    return url;
  }

  const [jobs, workers] = await Promise.all([table('jobs', jobsTable), table('workers', workersTable)]);
  const [requestQueueUrl, reportQueueUrl, deadLetterQueueUrl] = await Promise.all([
    queue('requests', true),
    queue('reports', false),
    queue('dead-requests', true),
  ]);
  const config: PoolConfig = {
    ...{ v: 1, poolName, region, requestQueueUrl, reportQueueUrl, jobsTable: jobs, workersTable: workers },
    // Nobody here is silent, so no round is ever started.
    ...{ resyncMachineArn: 'none', leaseMs: 30_000, retentionMs: 86_400_000 },
  };
  return {
    config,
    deadLetterQueueUrl,
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
