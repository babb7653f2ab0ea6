import { describe, expect, it } from 'vitest';
import { deadLetterParams, retryParams, sqsBatch } from '../../lib/aws/sqs-source.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { maxBodyBytes } from '../../lib/wire/index.ts';
import { endpoint } from './endpoint.ts';

const delivery = { id: 'm1', body: 'not json', group: 'g1', receiveCount: 3 };
const reasonIn = (params: ReturnType<typeof deadLetterParams>) => params.MessageAttributes?.reason?.StringValue;

describe('a dead letter', () => {
  it('is the message as it came, with its reason, in its group', () => {
    expect(deadLetterParams('url', delivery, 'the body is not JSON', 'id')).toEqual({
      QueueUrl: 'url',
      MessageBody: 'not json',
      MessageGroupId: 'g1',
      MessageDeduplicationId: 'id',
      MessageAttributes: { reason: { DataType: 'String', StringValue: 'the body is not JSON' } },
    });
  });

  it('of a standard queue has no group', () => {
    const { group: _, ...standard } = delivery;
    const params = deadLetterParams('url', standard, 'why', 'id');
    expect(params).not.toHaveProperty('MessageGroupId');
    expect(params).not.toHaveProperty('MessageDeduplicationId');
  });

  it.each([
    ['', 'unknown'],
    ['ö\u0000\n"x"', '???"x"'],
    ['y'.repeat(5_000), 'y'.repeat(1_024)],
  ])('has a reason that an attribute can hold', (reason, held) => {
    expect(reasonIn(deadLetterParams('url', delivery, reason, 'id'))).toBe(held);
  });

  it('goes without its reason rather than not at all, where both are too large (F20)', () => {
    const fits = maxBodyBytes - Buffer.byteLength('reasonStringwhy');
    expect(reasonIn(deadLetterParams('url', { ...delivery, body: 'x'.repeat(fits) }, 'why', 'id'))).toBe('why');
    expect(reasonIn(deadLetterParams('url', { ...delivery, body: 'x'.repeat(fits + 1) }, 'why', 'id'))).toBeUndefined();
  });
});

describe('a message that is tried again', () => {
  it.each([
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [60_000, 60],
  ])('after %d ms comes again after %d s', (delayMs, seconds) => {
    expect(retryParams('url', 'receipt', delayMs)).toEqual({ QueueUrl: 'url', ReceiptHandle: 'receipt', VisibilityTimeout: seconds });
  });

  it('is found by its own receipt', async () => {
    const receipts: string[] = [];
    const { sqs } = await endpoint(({ input }) => {
      receipts.push(input.ReceiptHandle);
      return { status: 200, body: {} };
    });
    const record = (name: string) => ({
      ...{ messageId: `id-${name}`, receiptHandle: `receipt-${name}`, body: name },
      attributes: { ApproximateReceiveCount: '3', MessageGroupId: `group-${name}` },
    });
    const queues = { queueUrl: 'https://sqs.us-east-1.amazonaws.com/1/q', deadLetterQueueUrl: 'https://sqs.us-east-1.amazonaws.com/1/d' };
    const { deliveries, source } = sqsBatch([record('a'), record('b')], { sqs, ...queues, ids });
    expect(deliveries).toEqual([
      { id: 'id-a', body: 'a', group: 'group-a', receiveCount: 3 },
      { id: 'id-b', body: 'b', group: 'group-b', receiveCount: 3 },
    ]);
    for (const each of [...deliveries].reverse()) await source.retryAfter(each, 1_000);
    expect(receipts).toEqual(['receipt-b', 'receipt-a']);
  });
});
