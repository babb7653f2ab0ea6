import { type AttributeValue, type DynamoDBClient, QueryCommand } from '@aws-sdk/client-dynamodb';
import type { RecordReader } from '../client/ports.ts';
import type { Clock } from '../pool/ports.ts';
import { readMany } from './batch-read.ts';
import { decodeDispatch, headKey } from './dispatch-item.ts';
import { ownedKeys, pendingParams } from './dynamo-jobs.ts';
import { workerRows } from './dynamo-workers.ts';
import { translated } from './errors.ts';
import { type Attributes, type Item, isExpired, toItem } from './item.ts';
import { decodeJob, jobKey, keyOf } from './job-item.ts';
import { pending, pendingShards } from './tables.ts';

export interface DynamoRecordsOptions {
  readonly dynamo: DynamoDBClient;
  /** Names of the tables. */
  readonly jobsTable: string;
  readonly workersTable: string;
  readonly clock: Clock;
}

/** What a client may see: it reads, and writes nothing. */
export function dynamoRecords({ dynamo, jobsTable, workersTable, clock }: DynamoRecordsOptions): RecordReader {
  async function live(keys: readonly Attributes[]): Promise<readonly Item[]> {
    const items = await readMany(dynamo, jobsTable, keys.map(toItem));
    return items.filter((item) => !isExpired(item, clock.now()));
  }
  return {
    async dispatches(ids) {
      const found = (await live([...new Set(ids)].map(headKey))).map(decodeDispatch);
      return new Map(found.map((dispatch) => [dispatch.dispatchId, dispatch]));
    },
    async jobs(keys) {
      const found = (await live([...new Set(keys)].map(jobKey))).map((item) => decodeJob(item).record);
      return new Map(found.map((job) => [job.key, job]));
    },
    async pendingKeys(cursor) {
      const from = cursor === undefined ? { shard: 0 } : decodeCursor(cursor);
      const params = pendingParams(jobsTable, from.shard, { after: from.after });
      const page = await translated('jobs that wait', () => dynamo.send(new QueryCommand(params)));
      const items = (page.Items ?? []).map(keyOf);
      const last = page.LastEvaluatedKey;
      if (last) return { items, cursor: encodeCursor({ shard: from.shard, after: last }) };
      const shard = from.shard + 1;
      return shard < pendingShards ? { items, cursor: encodeCursor({ shard }) } : { items };
    },
    keysOwnedBy: (workerId, cursor) => ownedKeys(dynamo, jobsTable, workerId, cursor),
    workers: () => workerRows(dynamo, workersTable),
  };
}

/** Where the next page begins: at a shard, or after an entry of it. */
interface Cursor {
  readonly shard: number;
  readonly after?: Record<string, AttributeValue>;
}

function encodeCursor({ shard, after }: Cursor): string {
  return JSON.stringify([shard, ...(after ? [keyOf(after), Number(after[pending.sortKey.name]?.N)] : [])]);
}

function decodeCursor(cursor: string): Cursor {
  const [shard, key, dueAt] = JSON.parse(cursor) as [number, string?, number?];
  if (key === undefined) return { shard };
  return { shard, after: toItem({ ...jobKey(key), [pending.partitionKey.name]: shard, [pending.sortKey.name]: dueAt }) };
}
