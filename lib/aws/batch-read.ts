import { type AttributeValue, BatchGetItemCommand, type BatchGetItemCommandInput, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { PoolError } from '../pool/errors.ts';
import { translated } from './errors.ts';
import type { Item } from './item.ts';

/** What DynamoDB reads in one call. */
const maxItems = 100;

/** The items as they are now, for certain, in any order; keys without an item are left out. No key may come twice. */
export async function readMany(
  dynamo: DynamoDBClient,
  table: string,
  keys: readonly Record<string, AttributeValue>[],
): Promise<readonly Item[]> {
  const items: Item[] = [];
  let open = keys;
  while (open.length > 0) {
    const asked = open.slice(0, maxItems);
    const { Responses: responses, UnprocessedKeys: unprocessed } = await translated(`table "${table}"`, () =>
      dynamo.send(new BatchGetItemCommand(batchParams(table, asked))),
    );
    items.push(...(responses?.[table] ?? []));
    const left = unprocessed?.[table]?.Keys ?? [];
    // Some are left where the response would be too large; all of them where the table is throttled.
    if (left.length === asked.length) {
      throw new PoolError('throttled', `table "${table}": none of ${asked.length} records was read`, { retryable: true });
    }
    open = [...left, ...open.slice(maxItems)];
  }
  return items;
}

function batchParams(table: string, keys: readonly Record<string, AttributeValue>[]): BatchGetItemCommandInput {
  return { RequestItems: { [table]: { Keys: [...keys], ConsistentRead: true } } };
}
