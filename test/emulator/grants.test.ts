import {
  DeleteItemCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  ScanCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { SendTaskSuccessCommand, SFNClient, StartExecutionCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import {
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ListQueuesCommand,
  PurgeQueueCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { configParameter, inboxName } from '../../lib/aws/config.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { byOwner, pending } from '../../lib/aws/tables.ts';
import { encodeRequest } from '../../lib/wire/index.ts';
import { clientConfig } from '../../stack/environment.ts';

// What the role of each grant may not do, tried as that role: what is not named by its policy is denied by the endpoint itself.

const { poolConfig, pool, environments } = inject('stack');
const { jobsTable, workersTable, requestQueueUrl, reportQueueUrl, resyncMachineArn: stateMachineArn } = poolConfig;
const grants = ['produce', 'work', 'observe', 'operate'] as const;
type Grant = (typeof grants)[number];

const root = new SQSClient(clientConfig(environments.root));
const inbox = inboxName(pool, ids.next());
const { QueueUrl: inboxUrl = '' } = await root.send(new CreateQueueCommand({ QueueName: inbox, Attributes: { FifoQueue: 'true' } }));
afterAll(() => root.send(new DeleteQueueCommand({ QueueUrl: inboxUrl })));

const Key = { pk: { S: 'job#somebody' }, sk: { S: 'head' } };
const row = { pk: { S: 'worker#somebody' } };
const executionArn = `${stateMachineArn.replace(':stateMachine:', ':execution:')}:somebody`;
const nobody = JSON.stringify({ worker: 'nobody', session: 's', step: { silence: { rounds: 0 } } });
/** Of the pool's record, were it written: it is not. */
const nothing = { pk: { S: 'pool' }, sk: { S: 'head' }, nothing: { S: 'here' } };
const onlyIfThere = { ConditionExpression: 'nothing = :here', ExpressionAttributeValues: { ':here': { S: 'there' } } };
const under = (pk: { S: string }) => ({ KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } });
const message = { MessageBody: 'm', MessageGroupId: 'g', MessageDeduplicationId: 'd' };

type Access = ReturnType<typeof clientConfig>;
const dynamo = (command: object) => (access: Access) => new DynamoDBClient(access).send(command as GetItemCommand);
const sqs = (command: object) => (access: Access) => new SQSClient(access).send(command as ListQueuesCommand);
const states = (command: object) => (access: Access) => new SFNClient(access).send(command as StopExecutionCommand);

interface Deed {
  /** Who may do it after all. */
  readonly by: readonly Grant[];
  /** Who may do it to other keys, by a condition that the endpoint does not know: the policy itself is held to that in test/infra. */
  readonly untold?: readonly Grant[];
  readonly as: (access: Access) => Promise<unknown>;
}

const deeds: Readonly<Record<string, Deed>> = {
  'read the job record of a key': { by: ['operate'], as: dynamo(new GetItemCommand({ TableName: jobsTable, Key })) },
  'write a job record': {
    by: [],
    untold: ['operate'],
    as: dynamo(new PutItemCommand({ TableName: jobsTable, Item: Key, ...onlyIfThere })),
  },
  'write the record of the pool': {
    by: ['operate'],
    as: dynamo(new PutItemCommand({ TableName: jobsTable, Item: nothing, ...onlyIfThere })),
  },
  'change a job record': { by: [], as: dynamo(new UpdateItemCommand({ TableName: jobsTable, Key })) },
  'delete a job record': { by: [], as: dynamo(new DeleteItemCommand({ TableName: jobsTable, Key })) },
  'read every record': { by: [], as: dynamo(new ScanCommand({ TableName: jobsTable })) },
  'walk the table by key': { by: [], untold: ['operate'], as: dynamo(new QueryCommand({ TableName: jobsTable, ...under(Key.pk) })) },
  'read what a recovery found': { by: ['operate'], as: dynamo(new QueryCommand({ TableName: jobsTable, ...under({ S: 'recovery#2' }) })) },
  'walk the index of owners': { by: ['operate'], as: dynamo(new ScanCommand({ TableName: jobsTable, IndexName: byOwner.name })) },
  'walk the index of waiting jobs': { by: [], as: dynamo(new ScanCommand({ TableName: jobsTable, IndexName: pending.name })) },
  'delete a worker row': { by: [], as: dynamo(new DeleteItemCommand({ TableName: workersTable, Key: row })) },
  'write a worker row': {
    by: ['work'],
    as: dynamo(new PutItemCommand({ TableName: workersTable, Item: row, ConditionExpression: 'attribute_exists(pk)' })),
  },
  'change a worker row': {
    by: ['work', 'operate'],
    as: dynamo(new UpdateItemCommand({ TableName: workersTable, Key: row, ConditionExpression: 'attribute_exists(pk)' })),
  },
  'send a request': {
    by: ['produce', 'operate'],
    as: sqs(new SendMessageCommand({ QueueUrl: requestQueueUrl, ...message, MessageBody: encodeRequest({ op: 'stop', key: 'nobody' }) })),
  },
  'take a request': { by: [], as: sqs(new ReceiveMessageCommand({ QueueUrl: requestQueueUrl })) },
  'take a report': { by: [], as: sqs(new ReceiveMessageCommand({ QueueUrl: reportQueueUrl })) },
  'delete a report': { by: [], as: sqs(new DeleteMessageCommand({ QueueUrl: reportQueueUrl, ReceiptHandle: 'r' })) },
  'purge the requests': { by: [], as: sqs(new PurgeQueueCommand({ QueueUrl: requestQueueUrl })) },
  'send a command to a worker': { by: [], as: sqs(new SendMessageCommand({ QueueUrl: inboxUrl, ...message })) },
  'see how full the inbox of a worker is': {
    by: ['operate'],
    as: sqs(new GetQueueAttributesCommand({ QueueUrl: inboxUrl, AttributeNames: ['ApproximateNumberOfMessages'] })),
  },
  'take the commands of a worker': { by: ['work'], as: sqs(new ReceiveMessageCommand({ QueueUrl: inboxUrl })) },
  'delete an inbox': { by: [], as: sqs(new DeleteQueueCommand({ QueueUrl: inboxUrl })) },
  'make an inbox of another pool': {
    by: [],
    as: sqs(new CreateQueueCommand({ QueueName: inboxName(`${pool}-2`, ids.next()), Attributes: { FifoQueue: 'true' } })),
  },
  'list queues': { by: [], as: sqs(new ListQueuesCommand({})) },
  'have a worker asked': { by: ['operate'], as: states(new StartExecutionCommand({ stateMachineArn, name: ids.next(), input: nobody })) },
  'stop an execution': { by: [], as: states(new StopExecutionCommand({ executionArn })) },
  'wake an execution': { by: [], as: states(new SendTaskSuccessCommand({ taskToken: 't', output: '{}' })) },
  'change where the pool is': {
    by: [],
    as: (access) => new SSMClient(access).send(new PutParameterCommand({ Name: configParameter(pool), Value: '{}', Overwrite: true })),
  },
};

describe.each(grants)('the role of %s', (grant) => {
  const denied = Object.entries(deeds).filter(([, { by, untold = [] }]) => ![...by, ...untold].includes(grant));
  it.each(denied)('may not %s', async (_, { as }) => {
    await expect(as(clientConfig(environments[grant]))).rejects.toThrow(/not authorized/);
  });

  const allowed = Object.entries(deeds).filter(([, { by }]) => by.includes(grant));
  it.each(allowed)('may %s', async (_, { as }) => {
    // There may be nothing to do it to.
    const met = await as(clientConfig(environments[grant])).catch((error: Error) => error.message);
    expect(String(met)).not.toMatch(/not authorized/);
  });
});
