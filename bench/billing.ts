import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { IndexLayout } from '../lib/aws/tables.ts';

/**
 * How AWS counts what it bills, from the sizes of items and messages alone.
 *
 * DynamoDB bills a write for the larger of the whole item before and after it, per started KB, and one that fails its condition for the
 * item that is there; a consistent read per started 4 KB, at least one; an entry of an index that appears, changes or goes as
 * a write of its own. SQS bills a call per started 64 KB of what it carries.
 */
export type StoredItem = Readonly<Record<string, AttributeValue>>;

const KB = 1_024;

export function itemSize(item: StoredItem | undefined): number {
  let size = 0;
  for (const [name, value] of Object.entries(item ?? {})) size += Buffer.byteLength(name) + valueSize(value);
  return size;
}

function valueSize(value: AttributeValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return numberSize(value.N);
  if (value.B !== undefined) return value.B.byteLength;
  if (value.BOOL !== undefined || value.NULL !== undefined) return 1;
  throw new Error(`no size is known for an attribute like ${JSON.stringify(value)}`);
}

/** A byte for every two significant digits, one for the number and one for a minus. */
function numberSize(text: string): number {
  const digits = text
    .replace(/^-/, '')
    .replace('.', '')
    .replace(/^0+|0+$/g, '');
  return Math.ceil(digits.length / 2) + 1 + (text.startsWith('-') ? 1 : 0);
}

export function writeUnits(before: StoredItem | undefined, after: StoredItem | undefined): number {
  return Math.max(1, Math.ceil(Math.max(itemSize(before), itemSize(after)) / KB));
}

/** Of consistent reads, item by item. */
export function readUnits(item: StoredItem | undefined): number {
  return Math.max(1, Math.ceil(itemSize(item) / (4 * KB)));
}

/** An index is read eventually consistent, all its entries together. */
export function queryUnits(entries: readonly StoredItem[]): number {
  const size = entries.reduce((sum, entry) => sum + itemSize(entry), 0);
  return Math.max(1, Math.ceil(size / (4 * KB))) / 2;
}

/** Every index here holds nothing but keys, so an entry that stays where it is costs nothing. */
export function indexUnits(index: IndexLayout, before: StoredItem | undefined, after: StoredItem | undefined): number {
  const [old, fresh] = [entryOf(index, before), entryOf(index, after)];
  if (JSON.stringify(old) === JSON.stringify(fresh)) return 0;
  return (old ? writeUnits(old, undefined) : 0) + (fresh ? writeUnits(undefined, fresh) : 0);
}

function entryOf({ partitionKey, sortKey }: IndexLayout, item: StoredItem | undefined): StoredItem | undefined {
  const names = [partitionKey.name, ...(sortKey ? [sortKey.name] : [])];
  if (!item || names.some((name) => item[name] === undefined)) return undefined;
  return Object.fromEntries(['pk', 'sk', ...names].map((name) => [name, item[name] as AttributeValue]));
}

export function queueRequests(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / (64 * KB)));
}
