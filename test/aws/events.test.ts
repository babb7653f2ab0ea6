import { createHash } from 'node:crypto';
import type { PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import fc from 'fast-check';
import { ulid } from 'ulid';
import { describe, expect, it } from 'vitest';
import { changeIn, type StreamRecord, tellingWrites } from '../../lib/aws/change-record.ts';
import { encodeDispatch, headKey, payloadKey } from '../../lib/aws/dispatch-item.ts';
import { dynamoRegistry } from '../../lib/aws/dynamo-workers.ts';
import { entryOf, eventBridgeBus } from '../../lib/aws/eventbridge-bus.ts';
import { type Item, toItem } from '../../lib/aws/item.ts';
import { encodeJob } from '../../lib/aws/job-item.ts';
import { streamBatch } from '../../lib/aws/stream-source.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { encodeWorker } from '../../lib/aws/worker-item.ts';
import { processBatch } from '../../lib/pool/batch.ts';
import { decideEvents } from '../../lib/pool/decide-events.ts';
import type { Job } from '../../lib/pool/job.ts';
import { tellChange } from '../../lib/pool/tell-change.ts';
import type { WorkerRow } from '../../lib/pool/worker.ts';
import type { PoolEvent } from '../../lib/wire/index.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import {
  aName,
  anAdmitted,
  anEnded,
  aPending,
  aRegistration,
  aRunning,
  at,
  cancelled,
  ended,
  everyJob,
  started,
} from '../conformance/samples.ts';
import { endpoint } from './endpoint.ts';

const facts = { pool: 'feeds', generation: 1 };
const retentionMs = 86_400_000;
const rev = ulid(at);
let sequence = 0;

/** What the stream tells of a write. */
function recordOf(before: Item | undefined, after: Item | undefined): StreamRecord {
  const { pk, sk } = after ?? before ?? {};
  sequence += 1;
  return {
    eventName: after ? (before ? 'MODIFY' : 'INSERT') : 'REMOVE',
    dynamodb: {
      ...{ Keys: { ...(pk && { pk }), ...(sk && { sk }) }, SequenceNumber: String(sequence).padStart(21, '0') },
      ...(before && { OldImage: before }),
      ...(after && { NewImage: after }),
    },
  };
}

const jobItem = (job: Job, revision = rev) => toItem(encodeJob(job, revision, retentionMs));
const workerItem = (row: WorkerRow) => toItem(encodeWorker(row, rev));
const told = (record: StreamRecord): readonly PoolEvent[] => {
  const change = changeIn(record);
  return change ? decideEvents(change, facts) : [];
};

describe('a write in the stream', () => {
  it('tells when it was made, by its revision, which is a ULID', () => {
    const [event] = told(recordOf(undefined, jobItem(aPending())));
    expect(event?.detail).toMatchObject({ id: rev, recordedAt: at });
  });

  it('is decoded as the store decodes it', () => {
    for (const job of everyJob(at)) {
      expect(changeIn(recordOf(jobItem(aPending()), jobItem(job)))).toMatchObject({ type: 'job', after: job, rev });
    }
    const admitted = anAdmitted();
    const up = started(admitted);
    expect(changeIn(recordOf(toItem(encodeDispatch(admitted, rev)), toItem(encodeDispatch(up, rev))))).toStrictEqual({
      ...{ type: 'dispatch', rev, recordedAt: at, before: admitted, after: up },
    });
  });

  it('of a payload, a round, the state of the pool or anything else tells nothing', () => {
    const items = [payloadKey(anAdmitted()), { pk: 'round#t', sk: 'head' }, { pk: 'round#t', sk: 'page#1' }, { pk: 'pool', sk: 'head' }];
    for (const keys of items) expect(changeIn(recordOf(undefined, toItem({ ...keys, v: 1, rev })))).toBeUndefined();
    expect(changeIn({})).toBeUndefined();
  });

  it('tells nothing where a record goes, whether it expired or an operator deleted it', () => {
    const over = ended(started(anAdmitted()), at);
    for (const item of [jobItem(anEnded()), jobItem(aRunning()), toItem(encodeDispatch(over, rev)), workerItem(aRow('lost'))]) {
      expect(told(recordOf(item, undefined))).toEqual([]);
    }
  });

  it('over an expired record tells as if there had been none: the same outcome of the same id is told again', () => {
    const { dispatchId } = anAdmitted();
    const over = (expiresAt: number) =>
      toItem(encodeDispatch(cancelled(anAdmitted(new Uint8Array(), { dispatchId, key: 'k' }), expiresAt), rev));
    expect(told(recordOf(over(at - 1_000), over(at + retentionMs)))).toHaveLength(2);
    expect(told(recordOf(over(at), over(at + retentionMs)))).toEqual([]);
    const job = { key: 'k', dispatchId };
    const expired = jobItem(anEnded({ ...job, recordedAt: at - retentionMs - 1_000 }));
    const [event] = told(recordOf(expired, jobItem(aPending(job))));
    expect(event?.detail).not.toHaveProperty('from');
  });

  it('of a format that newer code writes is read again; what nobody can read is not', () => {
    const newer = { ...jobItem(aRunning()), v: { N: '2' } };
    expect(() => changeIn(recordOf(undefined, newer))).toThrow(expect.objectContaining({ code: 'corrupt-record', retryable: true }));
    for (const broken of [
      { ...jobItem(aRunning()), fence: { S: 'x' } },
      { ...jobItem(aRunning()), rev: { S: 'edited' } },
    ]) {
      expect(() => changeIn(recordOf(undefined, broken))).toThrow(expect.objectContaining({ code: 'corrupt-record', retryable: false }));
    }
  });
});

function aRow(state: WorkerRow['state'], change: Partial<WorkerRow> = {}): WorkerRow {
  return { ...aRegistration({ workerId: 'w', session: 's' }), state, beat: 7, running: 1, ...change };
}

describe('the filters of the event sources', () => {
  /** As EventBridge patterns match, as far as these go. */
  function matches(pattern: unknown, value: unknown): boolean {
    if (Array.isArray(pattern))
      return pattern.some((each) => each === value || (typeof value === 'string' && value.startsWith(each.prefix)));
    return Object.entries(pattern as object).every(([name, inner]) =>
      matches(inner, (value as Record<string, unknown> | undefined)?.[name]),
    );
  }
  const passes = (table: keyof typeof tellingWrites, record: StreamRecord) =>
    tellingWrites[table].some((pattern) => matches(pattern, record));
  const pairs = (items: readonly Item[]) => [undefined, ...items].flatMap((before) => items.map((after) => recordOf(before, after)));

  it('let through every write of the Jobs table that tells something, and none of payloads, rounds and the pool', () => {
    const admitted = anAdmitted();
    const dispatches = [admitted, started(admitted), ended(started(admitted), at), cancelled(admitted, at)];
    const records = [
      ...pairs(everyJob(at).map((job) => jobItem(job))),
      ...pairs(dispatches.map((each) => toItem(encodeDispatch(each, rev)))),
    ];
    const telling = records.filter((record) => told(record).length > 0);
    expect(telling.length).toBeGreaterThan(100);
    for (const record of telling) expect(passes('jobs', record), JSON.stringify(record)).toBe(true);
    for (const keys of [payloadKey(admitted), { pk: 'round#t', sk: 'head' }, { pk: 'pool', sk: 'head' }]) {
      expect(passes('jobs', recordOf(undefined, toItem({ ...keys, v: 1 })))).toBe(false);
    }
    for (const keys of [headKey('d'), { pk: 'job#k', sk: 'head' }]) expect(passes('jobs', recordOf(toItem(keys), undefined))).toBe(false);
  });

  it('let through every change of state or session of a worker that can happen, and no heartbeat of one that is active', () => {
    // A session registers with beat 0, and never comes back to active once it left it.
    const beats = [0, 1, 7];
    const registered = aRow('active', { beat: 0, session: 's2' });
    const left = (['draining', 'revoked', 'lost', 'left'] as const).flatMap((state) => beats.map((beat) => aRow(state, { beat })));
    const changes = [
      ...[undefined, aRow('active'), ...left].map((before) => recordOf(before && workerItem(before), workerItem(registered))),
      ...[...beats.map((beat) => aRow('active', { beat })), ...left].flatMap((before) =>
        left.map((after) => recordOf(workerItem(before), workerItem(after))),
      ),
    ];
    const telling = changes.filter((record) => told(record).length > 0);
    expect(telling.length).toBeGreaterThan(100);
    for (const record of telling) expect(passes('workers', record), JSON.stringify(record)).toBe(true);
    const beating = recordOf(workerItem(aRow('active')), workerItem(aRow('active', { beat: 8, answered: 't', generation: 2, round: 'r' })));
    expect(passes('workers', beating)).toBe(false);
  });

  it.each([
    ['drains', (registry: Registry) => registry.drain('w', 's')],
    ['leaves', (registry: Registry) => registry.leave('w', 's')],
  ])('a worker that %s gives its row a revision of its own, so that no two changes are told under one id', async (_, change) => {
    const updates: { ExpressionAttributeValues: Item }[] = [];
    const { dynamo } = await endpoint(({ input }) => {
      updates.push(input);
      return { status: 200, body: {} };
    });
    await change(dynamoRegistry({ dynamo, table: 't', ids: { next: () => rev } }));
    expect(updates.map(({ ExpressionAttributeValues: values }) => values[':rev'])).toEqual([{ S: rev }]);
  });
});

/** The function's own composition on a bus and a dead-letter queue that react as told: `answer` gives an error code, or takes the event. */
async function telling(answer: (event: { readonly key: string; readonly id: string }) => string | undefined) {
  const published: { key: string; id: string }[] = [];
  const calls: (readonly PutEventsRequestEntry[])[] = [];
  const deadLetters: string[] = [];
  const clients = await endpoint(({ action, input }) => {
    if (action === 'SendMessage') {
      deadLetters.push(input.MessageAttributes.reason.StringValue);
      return { status: 200, body: { MessageId: 'm', MD5OfMessageBody: createHash('md5').update(input.MessageBody).digest('hex') } };
    }
    calls.push(input.Entries);
    const Entries = input.Entries.map(({ Detail }: { Detail: string }) => {
      const event = JSON.parse(Detail);
      const code = answer(event);
      if (code !== undefined) return { ErrorCode: code, ErrorMessage: 'not now' };
      published.push(event);
      return { EventId: event.id };
    });
    return { status: 200, body: { FailedEntryCount: 0, Entries } };
  });
  const bus = eventBridgeBus({ eventBridge: clients.eventBridge, bus: 'feeds' });
  const workers = { poolState: async () => ({ state: 'open', generation: 1 }) as const };
  const telemetry = { decided() {}, count() {}, gauge() {}, failed() {} };
  async function deliver(records: readonly StreamRecord[]): Promise<readonly string[]> {
    const { deliveries, source } = streamBatch(records, { sqs: clients.sqs, deadLetterQueueUrl: 'https://sqs/dead', ids });
    return processBatch(
      deliveries,
      async ({ body }) => tellChange({ bus, workers }, 'feeds', changeIn(JSON.parse(body))),
      source,
      telemetry,
    );
  }
  /** As Lambda does: what failed is given again with all that is behind it, until nothing fails. */
  async function deliverAll(records: readonly StreamRecord[]): Promise<void> {
    for (let left = records; left.length > 0; ) {
      const [first] = (await deliver(left)).toSorted();
      left = first === undefined ? [] : left.slice(left.findIndex(({ dynamodb }) => dynamodb?.SequenceNumber === first));
    }
  }
  return { published, calls, deadLetters, deliver, deliverAll };
}

/** A job that waits, runs, waits, runs ... : each write a change. */
function lifeOf(key: string, writes: number): readonly StreamRecord[] {
  const dispatchId = aName('d');
  const records: StreamRecord[] = [];
  let before: Item | undefined;
  for (let index = 0; index < writes; index += 1) {
    const job = index % 2 ? aRunning({ key, dispatchId, fence: index }) : aPending({ key, dispatchId, fence: index });
    const after = jobItem(job, ids.next());
    records.push(recordOf(before, after));
    before = after;
  }
  return records;
}

const revisionsOf = (records: readonly StreamRecord[]) => records.map(({ dynamodb }) => dynamodb?.NewImage?.rev?.S);

describe('publishing', () => {
  it('is in order per key and leaves nothing out, whatever the bus refuses for a while, once repeats are dropped by id (R13)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(3), { minLength: 1, maxLength: 40 }), fc.infiniteStream(fc.nat(3)), async (picks, chance) => {
        const lives = ['a', 'b', 'c', 'd'].map((key) => [...lifeOf(key, 40)]);
        const records = picks.map((pick) => lives[pick]?.shift() as StreamRecord);
        let refusals = 30;
        const { published, deliverAll } = await telling(() => {
          if (refusals === 0 || chance.next().value !== 0) return undefined;
          refusals -= 1;
          return 'ThrottlingException';
        });
        // In the order of the shard, which is that of the picks.
        const inOrder = records.map((record, index) => ({
          ...record,
          dynamodb: { ...record.dynamodb, SequenceNumber: String(index).padStart(21, '0') },
        }));
        await deliverAll(inOrder);
        for (const key of ['a', 'b', 'c', 'd']) {
          const seen = published.filter((event) => event.key === key).map(({ id }) => id);
          const written = revisionsOf(records.filter(({ dynamodb }) => dynamodb?.Keys?.pk?.S === `job#${key}`));
          expect([...new Set(seen)]).toEqual(written);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('shares calls among keys, ten events to a call, and never puts two events of one key into one', async () => {
    const { calls, deliver } = await telling(() => undefined);
    const lives = Array.from({ length: 25 }, (_, index) => lifeOf(`k${index}`, 2));
    expect(await deliver(lives.flat())).toEqual([]);
    expect(calls.map(({ length }) => length).toSorted()).toEqual([10, 10, 10, 10, 5, 5]);
    for (const call of calls) {
      const keys = call.map(({ Detail = '' }) => JSON.parse(Detail).key);
      expect(new Set(keys).size).toBe(keys.length);
    }
  });

  it('tells the outcome of a dispatch before its end, and neither where the first fails', async () => {
    const admitted = anAdmitted();
    const record = recordOf(toItem(encodeDispatch(admitted, rev)), toItem(encodeDispatch(ended(started(admitted), at), rev)));
    let isDown = true;
    const { published, deliver } = await telling(() => (isDown ? 'InternalFailure' : undefined));
    expect(await deliver([record])).toHaveLength(1);
    expect(published).toEqual([]);
    isDown = false;
    expect(await deliver([record])).toEqual([]);
    expect(published.map(({ id }) => id)).toEqual([`${rev}.outcome`, `${rev}.end`]);
  });

  it('of a repeated record gives the same ids', async () => {
    const { published, deliver } = await telling(() => undefined);
    const records = lifeOf('k', 3);
    await deliver(records);
    await deliver(records);
    expect(published.map(({ id }) => id)).toEqual([...revisionsOf(records), ...revisionsOf(records)]);
  });

  it('goes on past a record that nobody can read, which is dead-lettered with its reason', async () => {
    const { published, deadLetters, deliver } = await telling(() => undefined);
    const broken = { ...jobItem(aRunning({ key: 'k' })), fence: { S: 'x' } };
    const [first, second, ...rest] = lifeOf('k', 4);
    expect(await deliver([first, recordOf(undefined, broken), second, ...rest].filter((each) => each !== undefined))).toEqual([]);
    expect(published).toHaveLength(4);
    expect(deadLetters).toEqual([expect.stringContaining('job "k": attribute "fence"')]);
  });

  it('goes on past an event that the bus calls wrong, and stops where the deployment is wrong', async () => {
    const malformed = await telling(({ key }) => (key === 'k' ? 'MalformedDetail' : undefined));
    expect(await malformed.deliver([...lifeOf('k', 1), ...lifeOf('other', 1)])).toEqual([]);
    expect(malformed.deadLetters).toEqual([expect.stringContaining('MalformedDetail')]);
    expect(malformed.published).toHaveLength(1);
    for (const code of ['AccessDeniedException', 'NotAuthorizedForSourceException']) {
      const denied = await telling(() => code);
      await expect(denied.deliver(lifeOf('k', 1))).rejects.toMatchObject({ code: 'not-permitted' });
      expect(denied.deadLetters).toEqual([]);
    }
  });

  it('has an answer for every event where the bus gives none, or fails whole', async () => {
    const { eventBridge } = await endpoint(() => ({ status: 200, body: { FailedEntryCount: 0, Entries: [] } }));
    const bus = eventBridgeBus({ eventBridge, bus: 'feeds' });
    const [event] = told(recordOf(undefined, jobItem(aPending())));
    await expect(bus.publish(event as PoolEvent)).rejects.toMatchObject({ code: 'unavailable', retryable: true });
    const broken = await endpoint(() => ({ status: 400, body: { __type: 'ValidationException', message: 'no' } }));
    const other = eventBridgeBus({ eventBridge: broken.eventBridge, bus: 'feeds' });
    const all = await Promise.allSettled([other.publish(event as PoolEvent), other.publish(event as PoolEvent)]);
    expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it('never has a call that is too large: ten of the largest events are less than half of 256 KiB', () => {
    const worst = (length: number) => '\u0001'.repeat(length);
    const names = { key: worst(1_024), dispatchId: worst(128) };
    const error = { code: worst(128), message: worst(256) };
    const outcome = { outcome: 'started', at } as const;
    const jobs = [aRunning({ ...names, owner: { worker: worst(128), session: 's' } })];
    const admitted = anAdmitted(new Uint8Array(), names);
    const { status: _, ...rest } = admitted;
    const dispatches = [
      { ...rest, status: 'ended', outcome, end: { status: 'failed', finishedAt: at, error }, expiresAt: at },
      { ...rest, status: 'ended', outcome, end: { status: 'succeeded', finishedAt: at, result: 'r'.repeat(1_022) }, expiresAt: at },
      { ...rest, status: 'never-started', outcome: { outcome: 'start-failed', error, attempts: 5 }, expiresAt: at },
    ] as const;
    const events = [
      ...jobs.flatMap((job) => told(recordOf(undefined, jobItem(job)))),
      ...dispatches.flatMap((dispatch) => told(recordOf(undefined, toItem(encodeDispatch(dispatch, rev))))),
    ];
    expect(events).toHaveLength(7);
    for (const event of events) {
      const { Source = '', DetailType = '', Detail = '' } = entryOf('feeds', event);
      expect(Detail).toMatch(/^[ -~]+$/);
      expect(10 * (14 + Source.length + DetailType.length + Detail.length)).toBeLessThan(128 * 1_024);
    }
  });
});
