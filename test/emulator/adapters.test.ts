import { DeleteItemCommand, GetItemCommand, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { type Message, ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterAll, describe, expect, it } from 'vitest';
import { awsClients } from '../../lib/aws/clients.ts';
import { headKey, payloadKey } from '../../lib/aws/dispatch-item.ts';
import { dynamoDispatches, payloadParams } from '../../lib/aws/dynamo-dispatches.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { dynamoWorkers } from '../../lib/aws/dynamo-workers.ts';
import { toItem } from '../../lib/aws/item.ts';
import { jobKey } from '../../lib/aws/job-item.ts';
import { sqsRequests } from '../../lib/aws/sqs-requests.ts';
import { type SqsRecord, sqsBatch } from '../../lib/aws/sqs-source.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { workerKey } from '../../lib/aws/worker-item.ts';
import { processBatch } from '../../lib/pool/batch.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import { silent } from '../../lib/testing/memory-services.ts';
import { aKey, aName, anAdmitted, aPending, aStart, cancelled, ended, started } from '../conformance/samples.ts';
import { adapterPool } from '../support/adapter-pool.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { jobsTable, workersTable, retentionMs, requestQueueUrl, reportQueueUrl, region } = pool.config;
const { dynamo, sqs } = await pool.clientsOf(['jobs', 'dispatches', 'workers', 'requests', 'source']);
const jobs = dynamoJobs({ dynamo, table: jobsTable, retentionMs, clock, ids });
const dispatches = dynamoDispatches({ dynamo, table: jobsTable, clock, ids });
const later = Math.ceil(clock.now() / 1_000) * 1_000 + 3_600_000;

/** The sort keys of everything that is stored of a dispatch. */
async function stored(dispatchId: string): Promise<readonly (string | undefined)[]> {
  const { Items: items = [] } = await pool.root.dynamo.send(
    new QueryCommand({
      TableName: jobsTable,
      KeyConditionExpression: 'pk = :pk',
      ExpressionAttributeValues: toItem({ ':pk': headKey(dispatchId).pk }),
      ConsistentRead: true,
    }),
  );
  return items.map(({ sk }) => sk?.S);
}

describe('a large payload', () => {
  const payload = new Uint8Array(2_049).fill(1);
  const apart = (dispatch: Parameters<typeof payloadKey>[0]) => payloadKey(dispatch).sk;

  it('is an item of its own from 2,049 bytes on, and the head does not grow by it', async () => {
    const [small, large] = [anAdmitted(payload.slice(1)), anAdmitted(payload)];
    await dispatches.admit(small, payload.slice(1));
    await dispatches.admit(large, payload);
    expect(await stored(small.dispatchId)).toEqual(['head']);
    expect(await stored(large.dispatchId)).toEqual(['head', apart(large)]);
    const { Item: head } = await dynamo.send(new GetItemCommand({ TableName: jobsTable, Key: toItem(headKey(large.dispatchId)) }));
    expect(head).not.toHaveProperty('payload');
  });

  it.each(['ended', 'never started'])('is deleted when the dispatch is over: %s', async (how) => {
    const admitted = anAdmitted(payload);
    await dispatches.admit(admitted, payload);
    if (how === 'ended') {
      await dispatches.change(started(admitted), 'admitted');
      await dispatches.change(ended(started(admitted), later), 'started');
    } else {
      await dispatches.change(cancelled(admitted, later), 'admitted');
    }
    expect(await stored(admitted.dispatchId)).toEqual(['head']);
  });

  it('alone admits nothing: a start that died after it is admitted when it comes again', async () => {
    const admitted = anAdmitted(payload);
    await pool.root.dynamo.send(new PutItemCommand(payloadParams(jobsTable, admitted, payload)));
    expect(await dispatches.get(admitted.dispatchId)).toBeUndefined();
    expect(await dispatches.payload(admitted.dispatchId)).toBeUndefined();
    expect(await dispatches.admit(admitted, payload)).toEqual({ outcome: 'won' });
    expect(await dispatches.payload(admitted.dispatchId)).toEqual(payload);
  });

  it('of a start that died is never another start’s', async () => {
    const dead = anAdmitted(payload);
    await pool.root.dynamo.send(new PutItemCommand(payloadParams(jobsTable, dead, payload)));
    const other = new Uint8Array(5_000).fill(2);
    const admitted = anAdmitted(other, { dispatchId: dead.dispatchId });
    expect(await dispatches.admit(admitted, other)).toEqual({ outcome: 'won' });
    expect(await dispatches.payload(admitted.dispatchId)).toEqual(other);
  });

  it('of a start that lost its dispatch id does not stay', async () => {
    const winner = anAdmitted(payload);
    await dispatches.admit(winner, payload);
    const other = new Uint8Array(5_000).fill(2);
    await dispatches.admit(anAdmitted(other, { dispatchId: winner.dispatchId }), other);
    expect(await stored(winner.dispatchId)).toEqual(['head', apart(winner)]);
    await dispatches.change(cancelled(winner, later), 'admitted');
    await dispatches.admit(winner, payload);
    expect(await stored(winner.dispatchId)).toEqual(['head']);
  });

  it.each(['read', 'settled again', 'asked for'])(
    'left behind by an end that died is deleted when the dispatch is next %s',
    async (how) => {
      const admitted = anAdmitted(payload);
      const { dispatchId } = admitted;
      await dispatches.admit(admitted, payload);
      await dispatches.change(cancelled(admitted, later), 'admitted');
      await pool.root.dynamo.send(new PutItemCommand(payloadParams(jobsTable, admitted, payload)));
      if (how === 'read') await dispatches.get(dispatchId);
      else if (how === 'settled again') await dispatches.change(cancelled(admitted, later), 'admitted');
      else expect(await dispatches.payload(dispatchId)).toBeUndefined();
      expect(await stored(dispatchId)).toEqual(['head']);
    },
  );

  it('that was lost is missing, and its dispatch is not', async () => {
    const admitted = anAdmitted(payload);
    await dispatches.admit(admitted, payload);
    await pool.root.dynamo.send(new DeleteItemCommand({ TableName: jobsTable, Key: toItem(payloadKey(admitted)) }));
    expect(await dispatches.payload(admitted.dispatchId)).toBeUndefined();
    expect(await dispatches.get(admitted.dispatchId)).toEqual(admitted);
  });
});

describe('a service that says no', () => {
  it('to a role without the permission: not-permitted, naming what was asked for', async () => {
    const other = await pool.clientsOf(['requests']);
    const refused = dynamoJobs({ dynamo: other.dynamo, table: jobsTable, retentionMs, clock, ids }).get('a:17');
    await expect(refused).rejects.toMatchObject({
      code: 'not-permitted',
      retryable: false,
      message: expect.stringMatching(/^job "a:17": /),
    });
  });

  it('to credentials that it does not know: not-permitted', async () => {
    const stranger = awsClients({ region, credentials: { accessKeyId: 'AKIAUNKNOWN', secretAccessKey: 'unknown' } });
    const refused = sqsRequests({ sqs: stranger.sqs, queueUrl: requestQueueUrl, ids }).send([aStart({ key: 'a:17' })]);
    await expect(refused).rejects.toMatchObject({ code: 'not-permitted', message: expect.stringMatching(/^start "a:17": /) });
    stranger.destroy();
  });

  it('to a table that is missing: no-such-pool', async () => {
    const lost = dynamoJobs({ dynamo: pool.root.dynamo, table: `${jobsTable}-of-before`, retentionMs, clock, ids });
    await expect(lost.get('a:17')).rejects.toMatchObject({ code: 'no-such-pool', retryable: false });
    await expect(lost.commit(aPending(), undefined)).rejects.toMatchObject({ code: 'no-such-pool' });
    await expect(lost.due(clock.now(), 10)).rejects.toMatchObject({ code: 'no-such-pool' });
  });

  it('to a queue that is missing: not-found', async () => {
    const queueUrl = requestQueueUrl.replace('-requests', '-requests-of-before');
    const refused = sqsRequests({ sqs: pool.root.sqs, queueUrl, ids }).send([aStart()]);
    await expect(refused).rejects.toMatchObject({ code: 'not-found', retryable: false });
  });

  it('to an item that is too large: invalid-request', async () => {
    const payload = new Uint8Array(410_000);
    const refused = dispatches.admit(anAdmitted(payload), payload);
    await expect(refused).rejects.toMatchObject({ code: 'invalid-request', retryable: false });
  });
});

describe('what cannot be read', () => {
  const { root } = pool;

  it('is named where it is asked for, and may be written over by nobody', async () => {
    const key = aKey();
    await root.dynamo.send(new PutItemCommand({ TableName: jobsTable, Item: toItem({ ...jobKey(key), v: 1, status: 'lost' }) }));
    const corrupt = { code: 'corrupt-record', retryable: false, message: expect.stringContaining(`job "${key}"`) };
    await expect(jobs.get(key)).rejects.toMatchObject(corrupt);
    await expect(jobs.commit(aPending({ key }), undefined)).rejects.toMatchObject(corrupt);
  });

  it("does not keep a worker's other jobs from being asked about, and the worker from being given up on", async () => {
    const [corrupt, newer, job] = [aKey(), aKey(), aPending()];
    await jobs.commit(job, undefined);
    for (const item of [
      { ...jobKey(corrupt), v: 1, status: 'lost' },
      { ...jobKey(newer), v: 2 },
    ]) {
      await root.dynamo.send(new PutItemCommand({ TableName: jobsTable, Item: toItem(item) }));
    }
    expect(await jobs.getMany([corrupt, job.key, newer])).toEqual([job]);
  });

  it('does not keep the other workers from being seen', async () => {
    const [workerId, newer] = [aName('w'), aName('w')];
    const readable = { v: 1, session: 's', state: 'active', beat: 0, leaseMs: 30_000, capacity: 1, running: 0, registeredAt: 1 };
    for (const item of [
      { ...readable, ...workerKey(workerId) },
      { ...readable, ...workerKey(newer), v: 2 },
    ]) {
      await root.dynamo.send(new PutItemCommand({ TableName: workersTable, Item: toItem(item) }));
    }
    const workers = dynamoWorkers({ dynamo, workersTable, jobsTable, clock, ids });
    const seen = (await workers.list()).map((row) => row.workerId);
    expect(seen).toContain(workerId);
    expect(seen).not.toContain(newer);
    await expect(workers.get(newer)).rejects.toMatchObject({ code: 'corrupt-record', retryable: true });
  });
});

describe.each([
  { type: 'fifo', queueUrl: requestQueueUrl, deadLetterQueueUrl: pool.requestDeadLetterQueueUrl },
  { type: 'standard', queueUrl: reportQueueUrl, deadLetterQueueUrl: pool.reportDeadLetterQueueUrl },
])('a batch of a $type queue', ({ type, queueUrl, deadLetterQueueUrl }) => {
  const fifo = (group: string) => (type === 'fifo' ? { MessageGroupId: group, MessageDeduplicationId: ids.next() } : {});

  async function send(body: string, group: string): Promise<void> {
    await pool.root.sqs.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: body, ...fifo(group) }));
  }

  /** As Lambda receives: hidden for longer than the test waits. */
  async function receive(count: number): Promise<readonly SqsRecord[]> {
    const records: SqsRecord[] = [];
    await expect
      .poll(
        async () => {
          const options = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: 600 };
          const received = await pool.root.sqs.send(new ReceiveMessageCommand({ ...options, MessageSystemAttributeNames: ['All'] }));
          records.push(...(received.Messages ?? []).map(recordOf));
          return records.length;
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThanOrEqual(count);
    return records;
  }

  function recordOf({
    MessageId: messageId = '',
    ReceiptHandle: receiptHandle = '',
    Body: body = '',
    Attributes = {},
  }: Message): SqsRecord {
    const { ApproximateReceiveCount = '', MessageGroupId } = Attributes;
    return { messageId, receiptHandle, body, attributes: { ApproximateReceiveCount, ...(MessageGroupId && { MessageGroupId }) } };
  }

  it('puts what is broken aside with its reason, and what failed back to come again soon, while the rest is handled (F15, F20)', async () => {
    await send('healthy', 'g1');
    await send('broken', 'g2');
    await send('failing', 'g3');
    const { deliveries, source } = sqsBatch(await receive(3), { sqs, queueUrl, deadLetterQueueUrl, ids });
    const handled: string[] = [];
    const failed = await processBatch(
      deliveries,
      async ({ body }) => {
        if (body === 'broken') throw new PoolError('invalid-request', 'the body is not JSON', { retryable: false });
        if (body === 'failing') throw new PoolError('unavailable', 'not now', { retryable: true });
        handled.push(body);
      },
      source,
      silent,
    );
    expect(handled).toEqual(['healthy']);
    expect(failed).toEqual(deliveries.filter(({ body }) => body === 'failing').map(({ id }) => id));
    // The queue would have hidden it for ten minutes.
    const [again] = await receive(1);
    expect(again).toMatchObject({ body: 'failing', attributes: { ApproximateReceiveCount: '2' } });
    const [dead] = await takeSome(deadLetterQueueUrl);
    expect(dead).toMatchObject({ Body: 'broken', MessageAttributes: { reason: { StringValue: 'the body is not JSON' } } });
    if (type === 'fifo') expect(dead?.Attributes).toMatchObject({ MessageGroupId: 'g2' });
  });

  it('puts the same aside as often as it is told to, redriven ones included (F6)', async () => {
    const { deliveries, source } = sqsBatch(
      [{ messageId: 'm', receiptHandle: 'r', body: 'same', attributes: { ApproximateReceiveCount: '20', MessageGroupId: 'g' } }],
      { sqs, queueUrl, deadLetterQueueUrl, ids },
    );
    const delivery = type === 'fifo' ? deliveries[0] : deliveries.map(({ group: _, ...each }) => each)[0];
    if (!delivery) throw new Error('no delivery');
    for (let times = 0; times < 3; times += 1) await source.deadLetter(delivery, 'why');
    const dead: Message[] = [];
    while (dead.length < 3) dead.push(...(await takeSome(deadLetterQueueUrl)));
    expect(dead.map(({ Body }) => Body)).toEqual(['same', 'same', 'same']);
  });

  async function takeSome(url: string): Promise<readonly Message[]> {
    const taken: Message[] = [];
    await expect
      .poll(
        async () => {
          taken.push(...(await pool.take(url)));
          return taken.length;
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThan(0);
    return taken;
  }
});
