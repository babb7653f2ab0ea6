import {
  type AttributeValue,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import type { EpochMs } from '../pool/job.ts';
import type { Commit } from '../pool/ports.ts';
import { cancellation, conditionFailure, translate, translated } from './errors.ts';
import { expressed } from './expression.ts';
import { type Item, secondsOf } from './item.ts';

/**
 * Writes that hold only where the record still is what was read; ownership rests on nothing else.
 *
 * A write brings a `rev` of its own, made before the first try. A response may be lost after the write was performed, and
 * then the client's retry meets the record that it wrote itself: its condition fails, but the item that comes back carries this
 * write's `rev`. So it was won, and nobody else has written since. Told otherwise, the writer would take its own success for a
 * rival's, and start a job twice. Where a rival wrote in between, the write is lost all the same, and to decide again on
 * the item that came back is right: the rival decided on ours.
 *
 * The item comes with the failure itself, at no cost. Where it does not, there is none or the endpoint cannot do it: then
 * the record is read, consistently.
 */
export interface Written {
  readonly won: boolean;
  /** The item as it is now; absent where there is none, and after a put. */
  readonly item?: Item | undefined;
}

export type Condition = Pick<PutItemCommandInput, 'ExpressionAttributeNames' | 'ExpressionAttributeValues'> & {
  readonly ConditionExpression: string;
};

/** The whole item, `rev` in it. */
export type Put = Condition & { readonly TableName: string; readonly Item: Record<string, AttributeValue> };

/** Some attributes of the item. It sets `rev` to `:rev`, unless its condition holds as well where it was performed already, or another attribute tells that it was. */
export type Update = Condition & {
  readonly TableName: string;
  readonly Key: Record<string, AttributeValue>;
  readonly UpdateExpression: string;
};

/** Nothing is written; a transaction holds only where this does. */
export type Check = Condition & { readonly TableName: string; readonly Key: Record<string, AttributeValue> };

/** Holds where there is no record; an expired one counts as none. */
export function whereAbsent(now: EpochMs): Condition {
  return expressed({ ConditionExpression: 'attribute_not_exists(#pk) OR #ttl < :now' }, { now: secondsOf(now) });
}

export function commitOf<T>(won: boolean, current: T | undefined): Commit<T> {
  if (won) return { outcome: 'won' };
  return current === undefined ? { outcome: 'lost' } : { outcome: 'lost', current };
}

/** `what` names the record in errors. */
export async function putIf(dynamo: DynamoDBClient, what: string, put: Put): Promise<Written> {
  const { pk, sk, rev } = put.Item;
  const write = dynamo.send(new PutItemCommand({ ...put, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }));
  return settle(dynamo, what, write, put.TableName, { ...(pk && { pk }), ...(sk && { sk }) }, rev);
}

/** `what` names the record in errors. */
export async function updateIf(dynamo: DynamoDBClient, what: string, update: Update): Promise<Written> {
  const returning = { ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const;
  const write = dynamo.send(new UpdateItemCommand({ ...update, ...returning }));
  return settle(dynamo, what, write, update.TableName, update.Key, update.ExpressionAttributeValues?.[':rev']);
}

/**
 * All of the writes or none of them, each on its own condition. Undefined where they were performed, else the items that stand
 * where conditions failed, in the order of the writes: none where a condition held. The caller knows its own success by a `rev`.
 */
export async function transactIf(
  dynamo: DynamoDBClient,
  what: string,
  writes: readonly (Put | Update | Check)[],
): Promise<readonly (Item | undefined)[] | undefined> {
  const returning = { ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const;
  const TransactItems = writes.map((write): TransactWriteItem => {
    if ('Item' in write) return { Put: { ...write, ...returning } };
    return 'UpdateExpression' in write ? { Update: { ...write, ...returning } } : { ConditionCheck: { ...write, ...returning } };
  });
  try {
    await dynamo.send(new TransactWriteItemsCommand({ TransactItems }));
    return undefined;
  } catch (error) {
    const items = cancellation(error);
    if (!items) throw translate(what, error);
    return items;
  }
}

/** The item as it is now, for certain. */
export async function read(
  dynamo: DynamoDBClient,
  what: string,
  table: string,
  key: Record<string, AttributeValue>,
): Promise<Item | undefined> {
  const { Item: item } = await translated(what, () =>
    dynamo.send(new GetItemCommand({ TableName: table, Key: key, ConsistentRead: true })),
  );
  return item;
}

async function settle(
  dynamo: DynamoDBClient,
  what: string,
  write: Promise<{ readonly Attributes?: Item | undefined }>,
  table: string,
  key: Record<string, AttributeValue>,
  rev: AttributeValue | undefined,
): Promise<Written> {
  try {
    return { won: true, item: (await write).Attributes };
  } catch (error) {
    const failure = conditionFailure(error);
    if (!failure) throw translate(what, error);
    const item = failure.item ?? (await read(dynamo, what, table, key));
    return { won: rev?.S !== undefined && item?.rev?.S === rev.S, item };
  }
}
