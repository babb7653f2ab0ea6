import { DeleteMessageCommand, ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { afterEach, expect, inject, onTestFinished, test, vi } from 'vitest';
import { variable } from '../../lib/aws/config.ts';
import { clientPorts, workerPorts } from '../../lib/aws/ports.ts';
import { LAST_RECEIVE } from '../../lib/pool/batch.ts';
import { DEFAULT_SETTINGS } from '../../lib/pool/settings.ts';
import { encodeRequest, groupIdOf, type Request } from '../../lib/wire/index.ts';
import { adapterPool } from '../support/adapter-pool.ts';

const { root: environment, produce: powerless } = inject('stack').environments;
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

type Handler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;
type Line = Readonly<Record<string, unknown>>;

/** The functions' own code, called here as Lambda calls it, on tables and queues that nobody else reads. */
async function setup() {
  const pool = await adapterPool();
  onTestFinished(() => pool.remove());
  const { config, root } = pool;
  const client = clientPorts(config, root);
  const worker = workerPorts(config, root);

  /** A fresh process of the function, with nothing in its caches, and the lines of JSON that it prints. */
  async function coldStart(name: 'request' | 'report', credentials = environment): Promise<{ handler: Handler; lines: () => Line[] }> {
    const settings = {
      ...credentials,
      [variable.poolConfig]: JSON.stringify(config),
      [variable.poolSettings]: JSON.stringify(DEFAULT_SETTINGS),
      [variable.requestDeadLetterQueue]: pool.requestDeadLetterQueueUrl,
      [variable.reportDeadLetterQueue]: pool.reportDeadLetterQueueUrl,
      POWERTOOLS_METRICS_NAMESPACE: 'Holdfast',
      POWERTOOLS_SERVICE_NAME: config.poolName,
      // To the console of this process, which is listened to.
      POWERTOOLS_DEV: 'true',
      POWERTOOLS_METRICS_DISABLED: 'false',
    };
    for (const [key, value] of Object.entries(settings)) vi.stubEnv(key, value);
    const printed: string[] = [];
    for (const method of ['log', 'info', 'warn'] as const) vi.spyOn(console, method).mockImplementation((line) => void printed.push(line));
    vi.resetModules();
    const { handler }: { handler: Handler } = await import(`../../functions/${name}.ts`);
    return { handler, lines: () => printed.map((line) => JSON.parse(line)) };
  }

  async function send(body: string | Request, group: string): Promise<void> {
    const text = typeof body === 'string' ? body : encodeRequest(body);
    const MessageDeduplicationId = worker.ids.next();
    const params = { QueueUrl: config.requestQueueUrl, MessageBody: text, MessageGroupId: group, MessageDeduplicationId };
    await root.sqs.send(new SendMessageCommand(params));
  }

  /** What is on the queue now, as Lambda gives it to the function; what the answer does not name is deleted, as Lambda does. */
  async function deliver(handler: Handler, queueUrl = config.requestQueueUrl, receiveCount?: number) {
    const receive = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageSystemAttributeNames: ['All' as const] };
    const { Messages: messages = [] } = await root.sqs.send(new ReceiveMessageCommand(receive));
    const records = messages.map(({ MessageId: messageId, ReceiptHandle: receiptHandle, Body: body, Attributes: attributes }) => ({
      ...{ messageId, receiptHandle, body },
      attributes: { ...attributes, ...(receiveCount !== undefined && { ApproximateReceiveCount: String(receiveCount) }) },
    })) as SQSRecord[];
    const context = { awsRequestId: 'r', functionName: 'f', memoryLimitInMB: '256', getRemainingTimeInMillis: () => 20_000 } as Context;
    const { batchItemFailures } = await handler({ Records: records }, context);
    const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    for (const { messageId, receiptHandle } of records) {
      if (!failed.has(messageId)) await root.sqs.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle: receiptHandle }));
    }
    return {
      bodies: records.map(({ body }) => body),
      failed: records.filter(({ messageId }) => failed.has(messageId)).map(({ body }) => body),
    };
  }

  async function deadLetters(): Promise<readonly { readonly body?: string; readonly reason?: string }[]> {
    const messages = await pool.take(pool.requestDeadLetterQueueUrl);
    return messages.map(({ Body: body, MessageAttributes: attributes }) => ({ body, reason: attributes?.reason?.StringValue }));
  }

  /** A worker whose row is there, and its inbox not yet: a start for it fails, and comes again. */
  async function registerWithoutInbox(): Promise<string> {
    const session = worker.ids.next();
    await worker.registry.register({ workerId: 'w', session, leaseMs: 30_000, capacity: 10, registeredAt: Date.now() });
    await worker.reports.send([{ type: 'registered', worker: 'w', session, at: Date.now() }]);
    const { handler } = await coldStart('report');
    expect(await deliver(handler, config.reportQueueUrl)).toMatchObject({ bodies: [expect.stringContaining(session)], failed: [] });
    return session;
  }

  return { config, client, worker, coldStart, send, deliver, deadLetters, registerWithoutInbox };
}

function start(key: string, dispatchId: string): Request {
  return { op: 'start', key, dispatchId, payload: Buffer.from('{}'), ifBusy: 'reject' };
}

test('what cannot be read is dead-lettered once, with its reason, and its neighbours of the same and other keys are handled (F20)', async () => {
  const { client, coldStart, send, deliver, deadLetters } = await setup();
  const { handler } = await coldStart('request');
  const group = groupIdOf('poisoned');
  const poison = ['not json', '{}', '[]', 'null', '{"v":99}', '{"v":1,"op":"start","key":"poisoned","dispatchID":"d","payload":""}'];
  await send(start('poisoned', 'before'), group);
  for (const body of poison) await send(body, group);
  await send(start('healthy', 'other'), groupIdOf('healthy'));
  await send({ op: 'stop', key: 'poisoned', dispatchId: 'before' }, group);
  while ((await deliver(handler)).bodies.length > 0);

  const dead = await deadLetters();
  expect(dead.map(({ body }) => body)).toEqual(poison);
  for (const { reason } of dead) expect(reason).toMatch(/; allowed: /);
  expect(await deadLetters()).toEqual([]);
  const dispatches = await client.records.dispatches(['before', 'other']);
  expect(dispatches.get('before')?.status).toBe('never-started');
  expect(dispatches.get('other')?.status).toBe('admitted');
});

test('each decision is a line that names the key, and each count a metric that does not', async () => {
  const { config, coldStart, send, deliver } = await setup();
  const { handler, lines } = await coldStart('request');
  await send(start('k', 'd'), groupIdOf('k'));
  await send('not json', groupIdOf('k'));
  await deliver(handler);
  expect(lines()).toContainEqual(expect.objectContaining({ level: 'INFO', subject: 'start', key: 'k', function_request_id: 'r' }));
  const metrics = lines().filter((line) => '_aws' in line);
  const described = { CloudWatchMetrics: [expect.objectContaining({ Namespace: 'Holdfast', Dimensions: [['service']] })] };
  expect(metrics).toEqual([{ 'dead-lettered': 1, service: config.poolName, _aws: expect.objectContaining(described) }]);
});

test('what fails comes again within seconds, takes the rest of its key along, and nothing of another one (F15)', async () => {
  const { worker, coldStart, send, deliver, registerWithoutInbox } = await setup();
  const session = await registerWithoutInbox();
  const { handler } = await coldStart('request');
  const stop: Request = { op: 'stop', key: 'failing', dispatchId: 'd1' };
  await send(start('failing', 'd1'), groupIdOf('failing'));
  await send(stop, groupIdOf('failing'));
  await send({ op: 'stop', key: 'idle' }, groupIdOf('idle'));
  const first = await deliver(handler);
  expect(first.failed).toEqual([encodeRequest(start('failing', 'd1')), encodeRequest(stop)]);
  expect(first.bodies).toHaveLength(3);

  await worker.inboxes.create(session);
  const commands: string[] = [];
  const since = performance.now();
  while (commands.length < 2) {
    await deliver(handler);
    const received = await worker.inboxes.receive(session, 0);
    if (received === 'no-inbox') throw new Error('the inbox is gone');
    commands.push(...received.map(({ body }) => JSON.parse(body).op));
    await worker.inboxes.delete(
      session,
      received.map(({ receipt }) => receipt),
    );
    expect(performance.now() - since, 'it waited for the visibility timeout of the queue').toBeLessThan(15_000);
  }
  expect(commands).toEqual(['start', 'stop']);
});

test('at its last receive a message is dead-lettered by the function, with the reason, before SQS takes it without one', async () => {
  const { config, coldStart, send, deliver, deadLetters, registerWithoutInbox } = await setup();
  await registerWithoutInbox();
  const { handler } = await coldStart('request');
  await send(start('k', 'd'), groupIdOf('k'));
  expect(await deliver(handler, config.requestQueueUrl, LAST_RECEIVE)).toMatchObject({ failed: [] });
  expect(await deadLetters()).toEqual([{ body: encodeRequest(start('k', 'd')), reason: expect.stringContaining('no inbox of session') }]);
});

test('where the deployment lacks a permission the invocation fails, and no message is taken for it', async () => {
  const { coldStart, send, deliver, deadLetters } = await setup();
  await send(start('k', 'd'), groupIdOf('k'));
  const { handler } = await coldStart('request', powerless);
  await expect(deliver(handler)).rejects.toMatchObject({ code: 'not-permitted' });
  expect(await deadLetters()).toEqual([]);
});
