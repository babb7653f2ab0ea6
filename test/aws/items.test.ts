import { describe, expect, it } from 'vitest';
import { decodeDispatch, encodeDispatch } from '../../lib/aws/dispatch-item.ts';
import { type Attributes, type Item, isExpired, toItem, toSeconds } from '../../lib/aws/item.ts';
import { decodeJob, encodeJob } from '../../lib/aws/job-item.ts';
import { byOwner, jobsTable, pending, pendingShards } from '../../lib/aws/tables.ts';
import { decodeWorker, encodeWorker } from '../../lib/aws/worker-item.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Job } from '../../lib/pool/job.ts';
import { anAdmitted, anAssigned, anEnded, aPending, aRegistration, aRunning, at, everyJob, started } from '../conformance/samples.ts';

const retentionMs = 86_400_000;

/** As DynamoDB bills an item: names and values in UTF-8, numbers by their digits. */
function bytesOf(item: Item): number {
  const sizes = Object.entries(item).map(([name, { S, N, B }]) => {
    const value = S !== undefined ? Buffer.byteLength(S) : N !== undefined ? Math.ceil(N.length / 2) + 1 : (B?.byteLength ?? 1);
    return Buffer.byteLength(name) + value;
  });
  return sizes.reduce((sum, size) => sum + size, 0);
}

const longest = (length: number) => 'x'.repeat(length);

describe('a job record', () => {
  it.each(everyJob(at).map((job) => [job.status, job] as const))('of status %s comes back as it was', (_, job) => {
    expect(decodeJob(toItem(encodeJob(job, 'r1', retentionMs)))).toStrictEqual({ record: job, rev: 'r1' });
  });

  it('stays under the kilobyte that a write is billed by, for keys of 200 bytes and ids of any length', () => {
    const names = { key: longest(200), dispatchId: longest(128), next: longest(128) };
    const owner = { worker: longest(128), session: longest(26) };
    const jobs: readonly Job[] = [
      ...everyJob(at),
      aRunning({ ...names, owner, busyAnswers: 5 }),
      aPending({ ...names, because: 'start-failed', avoid: longest(128), only: owner, startedAt: at }),
    ];
    for (const job of jobs) expect(bytesOf(toItem(encodeJob(job, longest(26), retentionMs)))).toBeLessThan(1_024);
  });

  it('has its raw key once', () => {
    const job = aPending({ key: 'a#b' });
    const item = toItem(encodeJob(job, 'r1', retentionMs));
    expect(Object.entries(item).filter(([, { S }]) => S?.includes('a#b'))).toEqual([['pk', { S: 'job#a#b' }]]);
  });

  it('is in the index of owners while it is owned, in that of waiting jobs while something waits, and else in none', () => {
    const indexed = (job: Job) => {
      const item = toItem(encodeJob(job, 'r1', retentionMs));
      return [byOwner, pending].filter(({ partitionKey }) => item[partitionKey.name] !== undefined).map(({ name }) => name);
    };
    for (const job of everyJob(at)) {
      const waits = job.status === 'pending' || (job.status === 'ended' && job.next !== undefined);
      expect(indexed(job)).toEqual(waits ? [pending.name] : job.status === 'ended' ? [] : [byOwner.name]);
    }
  });

  it('waits in one shard for ever, and jobs spread over all of them (F47)', () => {
    const shardOf = (key: string) => encodeJob(aPending({ key }), 'r1', retentionMs)[pending.partitionKey.name];
    const shards = Array.from({ length: 200 }, (_, index) => shardOf(`k${index}`));
    expect(new Set(shards)).toEqual(new Set(Array.from({ length: pendingShards }, (_, shard) => shard)));
    expect(shardOf('k1')).toBe(shardOf('k1'));
  });

  it('is forgotten only once it ended and nothing waits behind it', () => {
    const ttlOf = (job: Job) => encodeJob(job, 'r1', retentionMs)[jobsTable.ttl];
    expect(ttlOf(anEnded({ recordedAt: at }))).toBe((at + retentionMs) / 1_000);
    expect(ttlOf(anEnded({ recordedAt: at, next: 'd2' }))).toBeUndefined();
    expect(ttlOf(aRunning())).toBeUndefined();
  });
});

describe('a record that cannot be read', () => {
  const job = (change: Attributes) => () => decodeJob(toItem({ ...encodeJob(anAssigned({ key: 'a:17' }), 'r1', retentionMs), ...change }));
  const dispatch = (change: Attributes) => () =>
    decodeDispatch(toItem({ ...encodeDispatch(anAdmitted(), 'r1'), dispatchId: 'd1', ...change }));
  const row = { ...aRegistration(), state: 'active', beat: 0, running: 0 } as const;
  const worker = (change: Attributes) => () => decodeWorker(toItem({ ...encodeWorker(row, 'r1'), ...change }));

  it.each([
    ['a missing field', job({ session: undefined }), 'job "a:17": attribute "session": Invalid input: expected string, received undefined'],
    ['an unknown status', job({ status: 'paused' }), 'job "a:17": attribute "status": Invalid'],
    ['a field of another type', job({ fence: '7' }), 'job "a:17": attribute "fence": Invalid input: expected number, received string'],
    ['text that is not JSON', job({ status: 'ended', settled: '{' }), 'job "a:17": attribute "settled": is not JSON'],
    [
      'JSON that says nothing known',
      job({ status: 'ended', settled: '{}', recordedAt: 1 }),
      'job "a:17": attribute "settled": Invalid input',
    ],
    ['a dispatch without a key', dispatch({ pk: 'dispatch#d1', key: undefined }), 'dispatch "d1": attribute "key": Invalid input'],
    ['a worker of no known state', worker({ pk: 'worker#w1', state: 'asleep' }), 'worker "w1": attribute "state": Invalid option'],
  ])('names the record and the attribute: %s', (_, decode, message) => {
    expect(decode).toThrow(
      expect.objectContaining({ code: 'corrupt-record', retryable: false, message: expect.stringContaining(message) }),
    );
  });

  it.each([
    ['job', job({ v: 2 }), 'job "a:17": format version is 2, known is 1'],
    ['job without one', job({ v: undefined }), 'job "a:17": format version is missing, known is 1'],
    ['dispatch', dispatch({ pk: 'dispatch#d1', v: 2 }), 'dispatch "d1": format version is 2, known is 1'],
    ['worker', worker({ pk: 'worker#w1', v: 2 }), 'worker "w1": format version is 2, known is 1'],
  ])('is tried again where newer code may know its format (P17): %s', (_, decode, message) => {
    expect(decode).toThrow(expect.objectContaining({ code: 'corrupt-record', retryable: true, message }));
  });
});

describe('attributes', () => {
  it.each([2 ** 53, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('take no number that would come back as another: %d (F24)', (fence) => {
    expect(() => toItem({ fence })).toThrow(PoolError);
  });

  it('that are unknown to this version are ignored', () => {
    const item = toItem({ ...encodeDispatch(started(anAdmitted()), 'r1'), later: 'addition' });
    expect(decodeDispatch(item)).not.toHaveProperty('later');
  });

  it('of a row of a worker come back as they were', () => {
    const row = { ...aRegistration(), state: 'draining', beat: 7, running: 3, generation: 2, answered: 'r' } as const;
    expect(decodeWorker(toItem(encodeWorker(row, 'r1')))).toStrictEqual(row);
  });
});

describe('an expiry', () => {
  it.each([0, 1, 500, 999])('is never early, %d ms into a second', (ms) => {
    const item = toItem({ ttl: toSeconds(at + ms) });
    expect(isExpired(item, at + ms)).toBe(false);
    expect(isExpired(item, at + 2_000)).toBe(true);
  });
});
