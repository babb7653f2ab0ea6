import { randomUUID } from 'node:crypto';
import { type AttributeValue, BatchWriteItemCommand, ScanCommand, type WriteRequest } from '@aws-sdk/client-dynamodb';
import { expect, test } from 'vitest';
import { placeKey } from '../../lib/pool/placement.ts';
import { defineHandler } from '../../lib/worker/handler.ts';
import { becomes, deployedPool } from '../support/deployed-pool.ts';

// A pool of its own, as deployed: its functions, its state machine and its roles. What copies the table is an administrator.

const WAIT = { timeoutMs: 60_000 };

const { poolConfig, operatorPorts, producer, observer, operator, aWorker, root } = await deployedPool('recover', { leaseSeconds: '10' });
const { dynamo } = root;

/** A handler that is up. */
interface Life {
  readonly key: string;
  readonly worker: string;
  readonly job: { readonly dispatchId: string; readonly fence: number };
  finish(result: unknown): void;
}
const lives = new Set<Life>();
const starts: { readonly key: string; readonly worker: string; readonly fence: number }[] = [];
/** Keys at which a handler was started beside another one. */
const doubled: string[] = [];

/** Tells of each life of its jobs. */
function handlerOf(workerId: string) {
  return defineHandler({
    start(job) {
      const { promise: done, resolve: finish } = Promise.withResolvers<unknown>();
      const life: Life = { key: job.key, worker: workerId, job, finish };
      if (lifeAt(job.key)) doubled.push(job.key);
      lives.add(life);
      starts.push({ key: job.key, worker: workerId, fence: job.fence });
      const over = () => void lives.delete(life);
      return { done: done.finally(over), stop: over };
    },
  });
}

function lifeAt(key: string): Life | undefined {
  return [...lives].find((life) => life.key === key);
}

/** Starts a job at a key that placement gives to that worker, once it is up there. */
async function upAt({ workerId }: { readonly workerId: string }, name: string): Promise<string> {
  for (;;) {
    const rows = await operatorPorts.records.workers();
    const keys = Array.from({ length: 1_000 }, () => `${name}-${randomUUID()}`);
    const key = keys.find((each) => placeKey(each, rows, { generation: 1 })?.worker === workerId);
    if (key === undefined) throw new Error(`nothing is placed on ${workerId}`);
    await producer.start(key, `payload of ${key}`, { dispatchId: `${key}-first` });
    await becomes(true, () => lifeAt(key) !== undefined);
    if (lifeAt(key)?.worker === workerId) {
      await becomes('running', async () => (await observer.describe(key))?.status);
      return key;
    }
    // It went by a list of workers that is some seconds old.
    await producer.stop(key);
    await observer.dispatch(`${key}-first`).ended(WAIT);
  }
}

const fenceInUse = (key: string) => lifeAt(key)?.job.fence;

type Items = readonly Record<string, AttributeValue>[];

async function scanned(): Promise<Items> {
  const items: Record<string, AttributeValue>[] = [];
  let after: Record<string, AttributeValue> | undefined;
  do {
    const page = await dynamo.send(new ScanCommand({ TableName: poolConfig.jobsTable, ConsistentRead: true, ExclusiveStartKey: after }));
    items.push(...(page.Items ?? []));
    after = page.LastEvaluatedKey;
  } while (after);
  return items;
}

/** Makes the table what it was, all but the record of the pool. */
async function copyBack(backup: Items): Promise<void> {
  const name = ({ pk, sk }: Items[number]) => `${pk?.S} ${sk?.S}`;
  const isPool = ({ pk }: Items[number]) => pk?.S === 'pool';
  const kept = new Set(backup.map(name));
  const added = (await scanned()).filter((item) => !isPool(item) && !kept.has(name(item)));
  const writes: readonly WriteRequest[] = [
    ...added.map(({ pk = { S: '' }, sk = { S: '' } }) => ({ DeleteRequest: { Key: { pk, sk } } })),
    ...backup.filter((item) => !isPool(item)).map((Item) => ({ PutRequest: { Item } })),
  ];
  for (let from = 0; from < writes.length; from += 25) {
    const some = [...writes.slice(from, from + 25)];
    const { UnprocessedItems: left = {} } = await dynamo.send(
      new BatchWriteItemCommand({ RequestItems: { [poolConfig.jobsTable]: some } }),
    );
    expect(left).toEqual({});
  }
}

test('a Jobs table is put back to an earlier moment under running workers, and recovered: what really runs goes on, alone, under the fence that it has; ends that are lost are named (G1, G2, G5, P6, P16)', {
  timeout: 420_000,
}, async () => {
  const staying = await aWorker('staying', handlerOf);
  const leaving = await aWorker('leaving', handlerOf);
  const kept = await upAt(staying, 'kept');
  const moved = await upAt(leaving, 'moved');
  const gone = await upAt(leaving, 'gone');
  const finished = await upAt(staying, 'finished');
  const stopped = await upAt(staying, 'stopped');
  const replaced = await upAt(staying, 'replaced');
  const backup = await scanned();

  // Since then: jobs move, end, are stopped and replaced, and others are started.
  await operator.worker(leaving.workerId).drain({ timeoutMs: 90_000 });
  await becomes([staying.workerId, staying.workerId], () => [moved, gone].map((key) => lifeAt(key)?.worker));
  for (const key of [moved, gone]) await becomes('running', async () => (await observer.describe(key))?.status);
  const coming = await aWorker('coming', handlerOf);
  lifeAt(finished)?.finish('well');
  lifeAt(gone)?.finish('well');
  await producer.stop(stopped);
  const [endedAs] = await Promise.all([finished, gone, stopped].map((key) => observer.dispatch(`${key}-first`).ended(WAIT)));
  await producer.start(replaced, 'another payload', { dispatchId: `${replaced}-second`, ifBusy: 'replace' });
  await becomes(`${replaced}-second`, () => lifeAt(replaced)?.job.dispatchId);
  const fresh = await upAt(coming, 'fresh');
  const live = [kept, moved, replaced, fresh];
  for (const key of live) await becomes('running', async () => (await observer.describe(key))?.status);
  const before = await Promise.all(live.map((key) => observer.describe(key)));
  const upBefore = [...lives];
  const startedBefore = starts.length;

  const report = await operator.recover({ timeoutMs: 240_000, putBack: () => copyBack(backup) });

  // No handler was stopped or started for what ran, and each has the record that it had, with the fence that is in use.
  for (const life of upBefore) expect(lives).toContain(life);
  const after = await Promise.all(live.map((key) => observer.describe(key)));
  for (const [index, was] of before.entries()) {
    if (was?.status !== 'running') throw new Error(`${JSON.stringify(was)} did not run`);
    const { key, dispatchId, fence, owner, startedAt } = was;
    expect(after[index]).toMatchObject({ status: 'running', dispatchId, fence, owner, startedAt });
    expect(fenceInUse(key)).toBe(fence);
  }
  // What the table did not know is named, and so are the ends that were lost with it.
  expect(report).toMatchObject({ workers: 2, undecided: [], waiting: [] });
  expect(Object.fromEntries(report.restored.map(({ key, how }) => [key, how]))).toEqual({
    ...{ [moved]: 'raised', [replaced]: 'replaced', [fresh]: 'restored' },
  });
  expect(report.lost).toEqual([{ key: replaced, dispatchId: `${replaced}-first` }]);
  const { end } = await observer.dispatch(`${replaced}-first`).peek();
  expect(end).toMatchObject({ status: 'failed', error: { code: 'lost-in-restore' } });
  // Its worker remembers that end still, with the time.
  expect(await observer.dispatch(`${finished}-first`).ended(WAIT)).toEqual(endedAs);
  const names = [gone, stopped].map((key) => ({ key, dispatchId: `${key}-first` }));
  expect([...report.again].sort(byKey)).toEqual([...names].sort(byKey));

  await becomes([true, true], () => [gone, stopped].map((key) => lifeAt(key) !== undefined));
  for (const { key } of names) await becomes('running', async () => (await observer.describe(key))?.status);
  expect(
    starts
      .slice(startedBefore)
      .map(({ key }) => key)
      .sort(),
  ).toEqual([gone, stopped].sort());
  expect(doubled).toEqual([]);
  for (const { key } of lives) {
    const fences = starts.filter((start) => start.key === key).map(({ fence }) => fence);
    expect(fences).toEqual([...new Set(fences)].sort((one, other) => one - other));
    expect((await observer.describe(key))?.fence).toBe(fenceInUse(key));
  }
  expect([...lives].map(({ key }) => key).sort()).toEqual([...live, gone, stopped].sort());
});

function byKey(one: { readonly key: string }, other: { readonly key: string }): number {
  return one.key < other.key ? -1 : 1;
}
