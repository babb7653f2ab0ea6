import { describe, expect, it } from 'vitest';
import { type AwsClients, nodeRequestHandler } from '../../lib/aws/clients.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { dynamoRecords } from '../../lib/aws/dynamo-records.ts';
import { toItem } from '../../lib/aws/item.ts';
import { encodeJob } from '../../lib/aws/job-item.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { anAssigned, aRunning } from '../conformance/samples.ts';
import { type Call, endpoint, type Reaction } from './endpoint.ts';

const retentionMs = 86_400_000;
const jobsOf = ({ dynamo }: AwsClients) => dynamoJobs({ dynamo, table: 'jobs', retentionMs, clock, ids });
const error = (status: number, name: string): Reaction => ({ status, body: { __type: `com.amazonaws.dynamodb.v20120810#${name}` } });

/** Reacts with each in turn, and with the last for ever. */
function inTurn(...reactions: readonly Reaction[]): { react(): Reaction; calls: number } {
  const turn = {
    calls: 0,
    react: () => {
      turn.calls += 1;
      return reactions[Math.min(turn.calls, reactions.length) - 1] as Reaction;
    },
  };
  return turn;
}

describe.concurrent('an outage', () => {
  it.each([
    ['the service is unavailable', error(503, 'ServiceUnavailable'), 'unavailable'],
    ['the service has an error', error(500, 'InternalServerError'), 'unavailable'],
    ['the connection breaks', 'reset', 'unavailable'],
    ['the service keeps silent', 'silence', 'unavailable'],
    ['the service throttles', error(400, 'ProvisionedThroughputExceededException'), 'throttled'],
  ] as const)('is retried, then told as such: %s', { timeout: 30_000 }, async (_, reaction, code) => {
    const always = inTurn(reaction);
    const clients = await endpoint(always.react, nodeRequestHandler({ requestTimeout: 200 }));
    await expect(jobsOf(clients).get('a:17')).rejects.toMatchObject({ name: 'PoolError', code, retryable: true });
    expect(always.calls).toBe(4);
  });

  it.each([
    ['access is denied', error(400, 'AccessDeniedException'), 'not-permitted', false],
    ['the table is missing', error(400, 'ResourceNotFoundException'), 'no-such-pool', false],
    ['the item is too large', error(400, 'ValidationException'), 'invalid-request', false],
    ['the credentials have expired', error(400, 'ExpiredTokenException'), 'not-permitted', true],
  ] as const)('is not one, and not retried: %s', async (_, reaction, code, retryable) => {
    const always = inTurn(reaction);
    await expect(jobsOf(await endpoint(always.react)).get('a:17')).rejects.toMatchObject({ name: 'PoolError', code, retryable });
    expect(always.calls).toBe(1);
  });

  it('that passes while it is retried is not noticed', async () => {
    const passing = inTurn('reset', error(500, 'InternalServerError'), { status: 200, body: {} });
    expect(await jobsOf(await endpoint(passing.react)).get('a:17')).toBeUndefined();
    expect(passing.calls).toBe(3);
  });
});

describe('an endpoint that returns no item with a failed condition', () => {
  const holder = aRunning({ key: 'a:17' });
  const failing = (item: object | undefined) => (call: Call) =>
    call.action === 'PutItem' ? error(400, 'ConditionalCheckFailedException') : { status: 200, body: item ? { Item: item } : {} };

  it('is asked who won (F5)', async () => {
    const clients = await endpoint(failing(toItem(encodeJob(holder, 'r1', retentionMs))));
    const lost = await jobsOf(clients).commit(anAssigned({ key: 'a:17' }), undefined);
    expect(lost).toEqual({ outcome: 'lost', current: { record: holder, rev: 'r1' } });
  });

  it('is asked whether it was this write (F4)', async () => {
    let written: object | undefined;
    const clients = await endpoint((call) => {
      if (call.action === 'PutItem') written = call.input.Item;
      return failing(written)(call);
    });
    expect(await jobsOf(clients).commit(holder, undefined)).toEqual({ outcome: 'won' });
  });

  it('may have none at all', async () => {
    expect(await jobsOf(await endpoint(failing(undefined))).commit(holder, 'r1')).toEqual({ outcome: 'lost' });
  });
});

describe('a read of many records', () => {
  const keysOf = ({ input }: Call) => input.RequestItems.jobs.Keys as { pk: { S: string } }[];
  const answer = (read: readonly { pk: { S: string } }[], left: readonly object[]): Reaction => ({
    status: 200,
    body: {
      Responses: { jobs: read.map(({ pk }) => toItem(encodeJob(aRunning({ key: pk.S.slice('job#'.length) }), 'r1', retentionMs))) },
      UnprocessedKeys: left.length > 0 ? { jobs: { Keys: left } } : {},
    },
  });
  const recordsOf = ({ dynamo }: AwsClients) => dynamoRecords({ dynamo, jobsTable: 'jobs', workersTable: 'workers', clock });
  const keys = Array.from({ length: 250 }, (_, index) => `k${index}`);

  it('goes on with what was left out, at most a hundred at a time', async () => {
    const asked: number[] = [];
    const clients = await endpoint((call) => {
      const all = keysOf(call);
      asked.push(all.length);
      return answer(all.slice(0, 60), all.slice(60));
    });
    expect([...(await recordsOf(clients).jobs(keys)).keys()].sort()).toEqual([...keys].sort());
    expect(Math.max(...asked)).toBe(100);
  });

  it('says throttled where nothing is read any more', async () => {
    const clients = await endpoint((call) => answer([], keysOf(call)));
    await expect(recordsOf(clients).jobs(keys)).rejects.toMatchObject({ code: 'throttled', retryable: true });
  });
});
