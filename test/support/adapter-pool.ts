import { randomBytes } from 'node:crypto';
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  UpdateTimeToLiveCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import { CreateRoleCommand, DeleteRoleCommand, DeleteRolePolicyCommand, IAMClient, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteQueueCommand,
  ListQueuesCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { inject } from 'vitest';
import { actions, type Resource } from '../../lib/aws/actions.ts';
import { type AwsClients, awsClients, type RequestHandler } from '../../lib/aws/clients.ts';
import { inboxPrefix, type PoolConfig } from '../../lib/aws/config.ts';
import { jobsTable, type KeyAttribute, type TableLayout, workersTable } from '../../lib/aws/tables.ts';
import { clientConfig } from '../../stack/environment.ts';

/** The tables and queues of a pool that has no functions, so that nobody but the test touches what it writes. */
export interface AdapterPool {
  readonly config: PoolConfig;
  readonly requestDeadLetterQueueUrl: string;
  readonly reportDeadLetterQueueUrl: string;
  /** Clients that may do what `actions` lists for these ports, and nothing else. */
  clientsOf(ports: readonly (keyof typeof actions)[], requestHandler?: RequestHandler): Promise<AwsClients>;
  /** Clients that may do anything. */
  readonly root: AwsClients;
  /** Takes what is on the queue now and deletes it. */
  take(queueUrl: string): Promise<readonly Message[]>;
  remove(): Promise<void>;
}

export async function adapterPool(): Promise<AdapterPool> {
  const { environments, endpoint } = inject('stack');
  // As in any process of a pool, the clients under test find their endpoint here.
  process.env.AWS_ENDPOINT_URL = endpoint;
  const access = clientConfig(environments.root);
  const { region, credentials } = access;
  const poolName = `t-${randomBytes(6).toString('hex')}`;
  const name = `holdfast-${poolName}`;
  const dynamo = new DynamoDBClient(access);
  const sqs = new SQSClient(access);
  const iam = new IAMClient(access);
  const sts = new STSClient(access);
  const { Account: account } = await sts.send(new GetCallerIdentityCommand({}));

  async function table(kind: string, layout: TableLayout): Promise<string> {
    const TableName = `${name}-${kind}`;
    await dynamo.send(new CreateTableCommand({ TableName, ...tableParams(layout) }));
    await waitUntilTableExists({ client: dynamo, maxWaitTime: 30, minDelay: 0.1 }, { TableName });
    if (layout.ttl !== undefined) {
      await dynamo.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { AttributeName: layout.ttl, Enabled: true } }));
    }
    return TableName;
  }

  async function queue(kind: string, type: 'fifo' | 'standard'): Promise<string> {
    const fifo = type === 'fifo' && { QueueName: `${name}-${kind}.fifo`, Attributes: { FifoQueue: 'true' } };
    const { QueueUrl: url = '' } = await sqs.send(new CreateQueueCommand(fifo || { QueueName: `${name}-${kind}` }));
    return url;
  }

  const [jobs, workers, requestQueueUrl, reportQueueUrl, requestDeadLetterQueueUrl, reportDeadLetterQueueUrl] = await Promise.all([
    table('jobs', jobsTable),
    table('workers', workersTable),
    queue('requests', 'fifo'),
    queue('reports', 'standard'),
    queue('dead-requests', 'fifo'),
    queue('dead-reports', 'standard'),
  ]);
  const config: PoolConfig = {
    v: 1,
    poolName,
    region,
    requestQueueUrl,
    reportQueueUrl,
    resyncMachineArn: `arn:aws:states:${region}:${account}:stateMachine:${name}`,
    jobsTable: jobs,
    workersTable: workers,
    leaseMs: 30_000,
    retentionMs: 86_400_000,
  };

  const queueArn = (queueName: string) => `arn:aws:sqs:${region}:${account}:${queueName}`;
  const tableArn = (tableName: string) => `arn:aws:dynamodb:${region}:${account}:table/${tableName}`;
  const arns: Readonly<Record<Resource, readonly string[]>> = {
    jobsTable: [tableArn(jobs)],
    jobsTableIndexes: jobsTable.indexes.map((index) => `${tableArn(jobs)}/index/${index.name}`),
    workersTable: [tableArn(workers)],
    requestQueue: [queueArn(`${name}-requests.fifo`)],
    reportQueue: [queueArn(`${name}-reports`)],
    inboxes: [queueArn(`${inboxPrefix(poolName)}*`)],
    sourceQueue: [queueArn(`${name}-requests.fifo`), queueArn(`${name}-reports`)],
    deadLetterQueue: [queueArn(`${name}-dead-requests.fifo`), queueArn(`${name}-dead-reports`)],
    anything: ['*'],
    resyncMachine: [config.resyncMachineArn],
    configParameter: [`arn:aws:ssm:${region}:${account}:parameter/holdfast/${poolName}/config`],
  };

  const roles: string[] = [];

  async function clientsOf(ports: readonly (keyof typeof actions)[], requestHandler?: RequestHandler): Promise<AwsClients> {
    const RoleName = `${name}-${roles.length}`;
    roles.push(RoleName);
    const trust = { Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${account}:root` }, Action: 'sts:AssumeRole' };
    await iam.send(new CreateRoleCommand({ RoleName, AssumeRolePolicyDocument: policy([trust]) }));
    const statements = ports.flatMap((port) =>
      Object.entries(actions[port]).map(([resource, allowed]) => ({
        Effect: 'Allow',
        Action: withBatches(allowed),
        Resource: arns[resource as Resource],
      })),
    );
    await iam.send(new PutRolePolicyCommand({ RoleName, PolicyName: 'port', PolicyDocument: policy(statements) }));
    const RoleArn = `arn:aws:iam::${account}:role/${RoleName}`;
    const { Credentials: taken } = await sts.send(new AssumeRoleCommand({ RoleArn, RoleSessionName: 'conformance' }));
    const { AccessKeyId: accessKeyId = '', SecretAccessKey: secretAccessKey = '', SessionToken: sessionToken } = taken ?? {};
    return awsClients({ region, credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }, requestHandler });
  }

  async function take(QueueUrl: string): Promise<readonly Message[]> {
    const received = await sqs.send(
      new ReceiveMessageCommand({
        ...{ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: 60 },
        ...{ MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] },
      }),
    );
    const messages = received.Messages ?? [];
    if (messages.length > 0) {
      const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
    return messages;
  }

  async function remove(): Promise<void> {
    const { QueueUrls: urls = [] } = await sqs.send(new ListQueuesCommand({ QueueNamePrefix: name }));
    await Promise.all([
      ...[jobs, workers].map((TableName) => dynamo.send(new DeleteTableCommand({ TableName }))),
      ...urls.map((QueueUrl) => sqs.send(new DeleteQueueCommand({ QueueUrl }))),
      ...roles.map(async (RoleName) => {
        await iam.send(new DeleteRolePolicyCommand({ RoleName, PolicyName: 'port' }));
        await iam.send(new DeleteRoleCommand({ RoleName }));
      }),
    ]);
    for (const client of [dynamo, sqs, iam, sts]) client.destroy();
  }

  const root = awsClients({ region, credentials });
  return { config, requestDeadLetterQueueUrl, reportDeadLetterQueueUrl, clientsOf, root, take, remove };
}

/** AWS allows a batch to whom it allows the single action; MiniStack asks for the batch by a name of its own. */
function withBatches(allowed: readonly string[]): readonly string[] {
  const batched = ['sqs:SendMessage', 'sqs:DeleteMessage'];
  return allowed.flatMap((action) => (batched.includes(action) ? [action, `${action}Batch`] : [action]));
}

function policy(Statement: readonly object[]): string {
  return JSON.stringify({ Version: '2012-10-17', Statement });
}

function tableParams(layout: TableLayout) {
  const keyed = [layout, ...layout.indexes];
  const attributes = keyed.flatMap(({ partitionKey, sortKey }) => (sortKey ? [partitionKey, sortKey] : [partitionKey]));
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
