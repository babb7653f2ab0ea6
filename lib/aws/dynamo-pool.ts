import { type DynamoDBClient, ScanCommand, type ScanCommandInput } from '@aws-sdk/client-dynamodb';
import type { Ids, Page } from '../pool/ports.ts';
import type { PoolState } from '../pool/worker.ts';
import type { OwnedKey, PoolRecord } from '../resync/recover.ts';
import { type Put, putIf, read } from './conditional-write.ts';
import { translated } from './errors.ts';
import { expressed } from './expression.ts';
import { toItem } from './item.ts';
import { jobKey, keyOf } from './job-item.ts';
import { byOwner } from './tables.ts';
import { decodePool, encodePool, NO_RECORD, poolKey } from './worker-item.ts';

export interface DynamoPoolOptions {
  readonly dynamo: DynamoDBClient;
  /** Name of the Jobs table. */
  readonly table: string;
  readonly ids: Ids;
}

/** The pool's own record, as whoever operates it reads and writes it. */
export function dynamoPool({ dynamo, table, ids }: DynamoPoolOptions): PoolRecord {
  return {
    async get() {
      const item = await read(dynamo, 'record "pool"', table, toItem(poolKey));
      return item ? decodePool(item) : NO_RECORD;
    },
    async change(read, next) {
      return (await putIf(dynamo, 'record "pool"', poolParams(table, read, next, ids.next()))).won;
    },
  };
}

function poolParams(table: string, read: PoolState, next: PoolState, rev: string): Put {
  const isAsRead = '#state = :state AND #generation = :generation';
  const isNone = read.state === NO_RECORD.state && read.generation === NO_RECORD.generation;
  const condition = { ConditionExpression: isNone ? `attribute_not_exists(#pk) OR (${isAsRead})` : isAsRead };
  return { TableName: table, Item: toItem(encodePool(next, rev)), ...expressed(condition, { ...read }) };
}

/** The whole index: every owned key of the pool, whoever owns it. */
export async function ownedKeysOfAll(dynamo: DynamoDBClient, table: string, cursor: string | undefined): Promise<Page<OwnedKey>> {
  const { Items: items = [], LastEvaluatedKey: last } = await translated(`table "${table}"`, () =>
    dynamo.send(new ScanCommand(ownedParams(table, cursor))),
  );
  const owned = items.map((item) => ({ key: keyOf(item), worker: item[byOwner.partitionKey.name]?.S ?? '' }));
  return { items: owned, ...(last && { cursor: JSON.stringify([last[byOwner.partitionKey.name]?.S, keyOf(last)]) }) };
}

function ownedParams(table: string, cursor: string | undefined): ScanCommandInput {
  const { partitionKey, name } = byOwner;
  if (cursor === undefined) return { TableName: table, IndexName: name };
  const [owner, key] = JSON.parse(cursor) as [string, string];
  return { TableName: table, IndexName: name, ExclusiveStartKey: toItem({ ...jobKey(key), [partitionKey.name]: owner }) };
}
