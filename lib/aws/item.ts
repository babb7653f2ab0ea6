import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import * as z from 'zod';
import { PoolError } from '../pool/errors.ts';
import type { EpochMs } from '../pool/job.ts';

/** An item as DynamoDB has it. */
export type Item = Readonly<Record<string, AttributeValue>>;

/** An item's attributes. It is flat: what is nested in a record is held as JSON text, exactly as it was. */
export type Attributes = Readonly<Record<string, string | number | boolean | Uint8Array | undefined>>;

/** The format of every record and row. A reader refuses a version that it does not know; writers raise it one release after readers learnt it. */
export const version = 1;

/** Attributes that are undefined are left out. */
export function toItem(attributes: Attributes): Record<string, AttributeValue> {
  const item: Record<string, AttributeValue> = {};
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) item[name] = toValue(name, value);
  return item;
}

function toValue(name: string, value: string | number | boolean | Uint8Array): AttributeValue {
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'boolean') return { BOOL: value };
  if (typeof value !== 'number') return { B: value };
  if (!Number.isSafeInteger(value)) {
    throw new PoolError('invalid-request', `attribute "${name}": ${value} is not a safe integer`, { retryable: false });
  }
  return { N: String(value) };
}

function toAttributes(item: Item): Attributes {
  return Object.fromEntries(
    Object.entries(item).map(([name, { S, N, BOOL, B }]) => [name, S ?? BOOL ?? (N === undefined ? B : Number(N))]),
  );
}

/** The record that the item holds. Throws `corrupt-record`, naming it as `what`, where the item does not hold one. */
export function decode<T>(what: string, schema: z.ZodType<T>, item: Item): T {
  const attributes = toAttributes(item);
  if (attributes.v !== version) {
    // While a deployment is under way, newer code can read it.
    throw new PoolError('corrupt-record', `${what}: format version is ${attributes.v ?? 'missing'}, known is ${version}`, {
      retryable: true,
    });
  }
  const { data, error } = schema.safeParse(attributes);
  if (!error) return data;
  const [issue] = error.issues;
  const attribute = issue?.path.join('.');
  throw new PoolError('corrupt-record', `${what}: attribute "${attribute}": ${issue?.message}`, { retryable: false });
}

/** JSON text that holds what `schema` says. */
export function json<T>(schema: z.ZodType<T>): z.ZodType<T> {
  const parsed = z.string().transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue('is not JSON');
      return z.NEVER;
    }
  });
  return parsed.pipe(schema);
}

// Seconds exist here alone. An expiry is rounded up and compared against a time rounded down, so nothing is forgotten early.

export function toSeconds(time: EpochMs): number {
  return Math.ceil(time / 1_000);
}

/** What `ttl` is compared with in conditions: an item whose `ttl` is below it counts as none. */
export function secondsOf(now: EpochMs): number {
  return Math.floor(now / 1_000);
}

/** DynamoDB deletes expired items within days, and until then they are read like any other. */
export function isExpired({ ttl }: Item, now: EpochMs): boolean {
  return ttl?.N !== undefined && Number(ttl.N) < secondsOf(now);
}
