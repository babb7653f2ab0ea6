import { CreateRoleCommand, DeleteRoleCommand, DeleteRolePolicyCommand, IAMClient, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { inject } from 'vitest';
import { actions, type Resource } from '../../lib/aws/actions.ts';
import { type AwsClients, awsClients, type RequestHandler } from '../../lib/aws/clients.ts';
import { inboxPrefix, type PoolConfig } from '../../lib/aws/config.ts';
import { jobsTable } from '../../lib/aws/tables.ts';
import { makeBarePool } from '../../stack/bare-pool.ts';
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
  const root = awsClients({ region, credentials });
  const iam = new IAMClient(access);
  const sts = new STSClient(access);
  const { Account: account } = await sts.send(new GetCallerIdentityCommand({}));

  const bare = await makeBarePool(root, region);
  const { requestDeadLetterQueueUrl, reportDeadLetterQueueUrl } = bare;
  const name = `holdfast-${bare.config.poolName}`;
  const config: PoolConfig = { ...bare.config, resyncMachineArn: `arn:aws:states:${region}:${account}:stateMachine:${name}` };
  const { poolName, requestQueueUrl, reportQueueUrl } = config;

  const queueArn = (url: string) => `arn:aws:sqs:${region}:${account}:${url.slice(url.lastIndexOf('/') + 1)}`;
  const tableArn = (tableName: string) => `arn:aws:dynamodb:${region}:${account}:table/${tableName}`;
  const arns: Readonly<Record<Resource, readonly string[]>> = {
    jobsTable: [tableArn(config.jobsTable)],
    jobsTableIndexes: jobsTable.indexes.map((index) => `${tableArn(config.jobsTable)}/index/${index.name}`),
    workersTable: [tableArn(config.workersTable)],
    requestQueue: [queueArn(requestQueueUrl)],
    reportQueue: [queueArn(reportQueueUrl)],
    inboxes: [queueArn(`${inboxPrefix(poolName)}*`)],
    sourceQueue: [requestQueueUrl, reportQueueUrl].map(queueArn),
    deadLetterQueue: [requestDeadLetterQueueUrl, reportDeadLetterQueueUrl].map(queueArn),
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
    const received = await root.sqs.send(
      new ReceiveMessageCommand({
        ...{ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: 60 },
        ...{ MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] },
      }),
    );
    const messages = received.Messages ?? [];
    if (messages.length > 0) {
      const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
      await root.sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
    return messages;
  }

  async function remove(): Promise<void> {
    await Promise.all([
      bare[Symbol.asyncDispose](),
      ...roles.map(async (RoleName) => {
        await iam.send(new DeleteRolePolicyCommand({ RoleName, PolicyName: 'port' }));
        await iam.send(new DeleteRoleCommand({ RoleName }));
      }),
    ]);
    for (const client of [root, iam, sts]) client.destroy();
  }

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
