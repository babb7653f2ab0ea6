import { type AttributeValue, type DynamoDBClient, QueryCommand, type QueryCommandInput } from '@aws-sdk/client-dynamodb';
import { PoolError } from '../pool/errors.ts';
import type { EpochMs, Job } from '../pool/job.ts';
import type { Clock, Ids, JobStore, Page } from '../pool/ports.ts';
import { readMany } from './batch-read.ts';
import { type Condition, commitOf, type Put, putIf, read, transactIf, whereAbsent } from './conditional-write.ts';
import { decodeDispatch } from './dispatch-item.ts';
import { changeParams, dynamoDispatches, withFenceOf } from './dynamo-dispatches.ts';
import { translated } from './errors.ts';
import { expressed } from './expression.ts';
import { type Item, isExpired, toItem } from './item.ts';
import { decodeJob, encodeJob, jobKey, keyOf } from './job-item.ts';
import { byOwner, pending, pendingShards } from './tables.ts';

export interface DynamoJobsOptions {
  readonly dynamo: DynamoDBClient;
  /** Name of the Jobs table. */
  readonly table: string;
  /** How long an ended job is remembered, ms. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly ids: Ids;
}

/**
 * Job records. The record alone says who owns a key; each commit is one conditional put of the whole item (see
 * `conditional-write.ts`), so a crash leaves the old record or the new one, and never a part. Only `commitSettled` takes a
 * transaction, at twice the price: what it writes beside the job must not be missing after a crash.
 */
export function dynamoJobs({ dynamo, table, retentionMs, clock, ids }: DynamoJobsOptions): JobStore {
  const dispatches = dynamoDispatches({ dynamo, table, clock, ids });
  const live = (item: Item | undefined) => (item && !isExpired(item, clock.now()) ? decodeJob(item) : undefined);
  const jobs: JobStore = {
    async get(key) {
      return live(await read(dynamo, `job "${key}"`, table, toItem(jobKey(key))));
    },
    async commit(next, expected) {
      const params = commitParams(table, next, { expected, rev: ids.next(), now: clock.now(), retentionMs });
      const { won, item } = await putIf(dynamo, `job "${next.key}"`, params);
      return commitOf(won, live(item));
    },
    async getMany(keys) {
      const items = await readMany(
        dynamo,
        table,
        [...new Set(keys)].map((key) => toItem(jobKey(key))),
      );
      return items.flatMap((item) => readable(() => live(item)?.record) ?? []);
    },
    async commitSettled(next, expected, settlement) {
      const [rev, now] = [ids.next(), clock.now()];
      const failed = await transactIf(dynamo, `job "${next.key}"`, [
        commitParams(table, next, { expected, rev, now, retentionMs }),
        changeParams(table, settlement.next, { expected: settlement.expected, rev, now }),
      ]);
      const [item, head] = failed ?? [];
      const current = item ? live(item) : failed && (await jobs.get(next.key));
      if (!failed || current?.rev === rev) {
        // A transaction does not tell whether the dispatch had a payload apart; to meet its record is to delete it.
        await dispatches.get(settlement.next.dispatchId);
        return { outcome: 'won' };
      }
      const higher = head && withFenceOf(decodeDispatch(head), settlement.next, settlement);
      return higher ? jobs.commitSettled(next, expected, { ...settlement, next: higher }) : commitOf(false, current);
    },
    async due(now, limit) {
      const shards = await Promise.all(
        Array.from({ length: pendingShards }, async (_, shard) => {
          const params = pendingParams(table, shard, { dueBy: now, limit });
          const { Items: items = [] } = await translated(`table "${table}"`, () => dynamo.send(new QueryCommand(params)));
          return items.map((item) => ({ key: keyOf(item), dueAt: Number(item[pending.sortKey.name]?.N) }));
        }),
      );
      const oldestFirst = shards.flat().sort((one, other) => one.dueAt - other.dueAt);
      return oldestFirst.slice(0, limit);
    },
    ownedBy: (workerId, cursor) => ownedKeys(dynamo, table, workerId, cursor),
  };
  return jobs;
}

/** Undefined where it cannot be read: among many, one such record must not hide the others. */
function readable<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof PoolError && error.code === 'corrupt-record') return undefined;
    throw error;
  }
}

export interface CommitFacts {
  /** The revision that was read; undefined: there was none. */
  readonly expected: string | undefined;
  /** The revision to write. */
  readonly rev: string;
  readonly now: EpochMs;
  readonly retentionMs: number;
}

export function commitParams(table: string, next: Job, { expected, rev, now, retentionMs }: CommitFacts): Put {
  return { TableName: table, Item: toItem(encodeJob(next, rev, retentionMs)), ...whereAt(expected, now) };
}

/** Holds where the record still is at that revision; undefined: where there is none. */
export function whereAt(expected: string | undefined, now: EpochMs): Condition {
  return expected === undefined ? whereAbsent(now) : expressed({ ConditionExpression: '#rev = :expected' }, { expected });
}

export interface PendingFacts {
  /** Only what is due by then. */
  readonly dueBy?: EpochMs;
  readonly limit?: number;
  /** The entry to go on after. */
  readonly after?: Record<string, AttributeValue> | undefined;
}

/** Entries of one shard of the index of waiting jobs, by due time. */
export function pendingParams(table: string, shard: number, { dueBy, limit, after }: PendingFacts): QueryCommandInput {
  const { partitionKey, sortKey, name } = pending;
  const inShard = `#${partitionKey.name} = :shard`;
  const KeyConditionExpression = dueBy === undefined ? inShard : `${inShard} AND #${sortKey.name} <= :dueBy`;
  return {
    TableName: table,
    IndexName: name,
    ...expressed({ KeyConditionExpression }, { shard, dueBy }),
    Limit: limit,
    ExclusiveStartKey: after,
  };
}

/** What one page gives its caller to do has to fit into a short call; a megabyte holds ten thousand keys. */
const OWNED_PER_PAGE = 1_000;

/** Keys that any session of the worker owns, a page at a time. */
export async function ownedKeys(
  dynamo: DynamoDBClient,
  table: string,
  workerId: string,
  cursor: string | undefined,
): Promise<Page<string>> {
  const { Items: items = [], LastEvaluatedKey: last } = await translated(`jobs of worker "${workerId}"`, () =>
    dynamo.send(new QueryCommand(ownedByParams(table, workerId, cursor))),
  );
  return { items: items.map(keyOf), ...(last && { cursor: keyOf(last) }) };
}

/** The cursor is the last key of the page before. */
function ownedByParams(table: string, workerId: string, cursor: string | undefined): QueryCommandInput {
  const { partitionKey, name } = byOwner;
  return {
    TableName: table,
    IndexName: name,
    ...expressed({ KeyConditionExpression: `#${partitionKey.name} = :workerId` }, { workerId }),
    Limit: OWNED_PER_PAGE,
    ExclusiveStartKey: cursor === undefined ? undefined : toItem({ ...jobKey(cursor), [partitionKey.name]: workerId }),
  };
}
