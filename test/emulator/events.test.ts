import { randomUUID } from 'node:crypto';
import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import {
  DeleteRuleCommand,
  EventBridgeClient,
  PutEventsCommand,
  PutRuleCommand,
  PutTargetsCommand,
  RemoveTargetsCommand,
} from '@aws-sdk/client-eventbridge';
import {
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ListQueuesCommand,
  ReceiveMessageCommand,
  SetQueueAttributesCommand,
} from '@aws-sdk/client-sqs';
import { expect, it } from 'vitest';
import { toItem } from '../../lib/aws/item.ts';
import { jobKey } from '../../lib/aws/job-item.ts';
import { eventSchemas } from '../../lib/wire/event.ts';
import type { PoolEvent } from '../../lib/wire/index.ts';
import { clientConfig } from '../../stack/environment.ts';
import { deployedPool } from '../support/deployed-pool.ts';

// A pool of its own that was given a bus, on the endpoint of this run: its streams, its function under its role, the bus, a rule, a queue.

const { ending, poolConfig, environments, producer, observer, aWorker, root } = await deployedPool('telling', { eventBus: 'default' });
const eventBridge = new EventBridgeClient(clientConfig(environments.root));
ending.defer(() => eventBridge.destroy());

/** A queue that hears all that pool tells. */
async function listen(): Promise<string> {
  const name = `heard-${randomUUID()}`;
  const { QueueUrl: url } = await root.sqs.send(new CreateQueueCommand({ QueueName: name }));
  const { Attributes: { QueueArn: arn } = {} } = await root.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['QueueArn'] }),
  );
  const statement = { Effect: 'Allow', Principal: { Service: 'events.amazonaws.com' }, Action: 'sqs:SendMessage', Resource: arn };
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
  await root.sqs.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes: { Policy } }));
  const EventPattern = JSON.stringify({ source: ['holdfast'], detail: { pool: [poolConfig.poolName] } });
  await eventBridge.send(new PutRuleCommand({ Name: name, EventPattern }));
  await eventBridge.send(new PutTargetsCommand({ Rule: name, Targets: [{ Id: 'queue', Arn: arn }] }));
  ending.defer(async () => {
    await eventBridge.send(new RemoveTargetsCommand({ Rule: name, Ids: ['queue'] }));
    await eventBridge.send(new DeleteRuleCommand({ Name: name }));
    await root.sqs.send(new DeleteQueueCommand({ QueueUrl: url }));
  });
  return url ?? '';
}

/** What comes, message by message, until `isEnough`. */
async function hear<T>(
  queueUrl: string,
  read: (body: string) => T,
  isEnough: (all: readonly T[]) => boolean | Promise<boolean>,
): Promise<readonly T[]> {
  const all: T[] = [];
  const deadline = performance.now() + 50_000;
  while (!(await isEnough(all))) {
    expect(performance.now(), `heard only ${JSON.stringify(all)}`).toBeLessThan(deadline);
    const receive = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: ['All'] };
    const { Messages: messages = [] } = await root.sqs.send(new ReceiveMessageCommand(receive));
    for (const { Body: body = '', ReceiptHandle } of messages) {
      all.push(read(body));
      await root.sqs.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
    }
  }
  return all;
}

/** Without repeats. */
function once(events: readonly PoolEvent[]): readonly PoolEvent[] {
  return [...new Map(events.toReversed().map((event) => [event.detail.id, event] as const)).values()].toReversed();
}
const ofKind = <T extends PoolEvent['detail-type']>(events: readonly PoolEvent[], type: T) =>
  once(events).flatMap((event) =>
    event['detail-type'] === type ? [event.detail as Extract<PoolEvent, { 'detail-type': T }>['detail']] : [],
  );

it('nobody else may publish: the bus is closed to whoever holds a grant', async () => {
  const entry = { Source: 'holdfast', DetailType: 'Holdfast Job Change', Detail: '{}' };
  for (const grant of ['produce', 'work', 'observe', 'operate'] as const) {
    const client = new EventBridgeClient(clientConfig(environments[grant]));
    await expect(client.send(new PutEventsCommand({ Entries: [entry] }))).rejects.toThrow(/not authorized/);
    client.destroy();
  }
});

it('each applied change is told once it is durable, in order per key, without a payload, by a function that may do no more (R13)', async () => {
  const queue = await listen();
  const key = ` ${randomUUID()}#a/é:"\\'\n\u0001😀 `;
  const worker = await aWorker('w');
  const { workerId } = worker;
  const { dispatchId } = await producer.start(key, 'not to be told');
  const dispatch = observer.dispatch(dispatchId);
  const outcome = await dispatch.outcome({ timeoutMs: 100_000 });
  await producer.stop(key, { dispatchId });
  const end = await dispatch.ended({ timeoutMs: 100_000 });
  await worker[Symbol.asyncDispose]();

  const bodies: string[] = [];
  const events = await hear(
    queue,
    (body) => {
      bodies.push(body);
      const event = JSON.parse(body);
      return eventSchemas[event['detail-type'] as PoolEvent['detail-type']].parse(event);
    },
    (all) => ofKind(all, 'Holdfast Dispatch End').length > 0 && ofKind(all, 'Holdfast Worker Change').some(({ to }) => to === 'left'),
  );
  const changes = ofKind(events, 'Holdfast Job Change');
  expect(changes.map(({ from, to, why }) => `${from ?? '-'} > ${to} ${why ?? ''}`.trim())).toEqual([
    ...['- > assigned', 'assigned > running', 'running > stopping stop-requested', 'stopping > ended stopped'],
  ]);
  for (const change of changes) expect(change).toMatchObject({ pool: 'telling', generation: 1, key, dispatchId, worker: workerId });
  expect(ofKind(events, 'Holdfast Dispatch Outcome')).toEqual([expect.objectContaining({ key, dispatchId, ...outcome })]);
  expect(ofKind(events, 'Holdfast Dispatch End')).toEqual([expect.objectContaining({ key, dispatchId, ...end })]);
  expect(ofKind(events, 'Holdfast Worker Change').map(({ worker: who, to }) => [who, to])).toEqual([
    ...[
      [workerId, 'active'],
      [workerId, 'draining'],
      [workerId, 'left'],
    ],
  ]);
  expect(bodies.join()).not.toContain('not to be told');
}, 240_000);

it('a record that nobody can read is put aside with its reason, and what is written after it is told', async () => {
  const queue = await listen();
  const [broken, healthy] = [`broken-${randomUUID()}`, `healthy-${randomUUID()}`];
  const { QueueUrls: [deadLetters = ''] = [] } = await root.sqs.send(
    new ListQueuesCommand({ QueueNamePrefix: `Holdfast-${poolConfig.poolName}-PoolEventDeadLetters` }),
  );
  const item = toItem({ ...jobKey(broken), v: 1, rev: '01KQW2Z3GN6M9V4T8R0Y5XB7CD', status: 'edited by hand' });
  await root.dynamo.send(new PutItemCommand({ TableName: poolConfig.jobsTable, Item: item }));
  await producer.start(healthy, 'p');
  await hear(
    queue,
    (body): PoolEvent => JSON.parse(body),
    (all) => ofKind(all, 'Holdfast Job Change').some(({ key }) => key === healthy),
  );
  const [dead] = await hear(
    deadLetters,
    (body) => JSON.parse(body),
    (all) => all.length > 0,
  );
  expect(dead.dynamodb.Keys.pk).toEqual({ S: `job#${broken}` });
});
