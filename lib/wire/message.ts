import type { z } from 'zod';
import { asciiJson, printable } from './ascii.ts';
import { breachOf, idRule, keyRule, type TextRule } from './key.ts';
import { decodePayload, encodePayload, type WirePayload } from './payload.ts';
import { factOf, type Refusal, refuse, WireError } from './refusal.ts';

// How a message of any kind is read and written. In memory it has no `v` and no `encoding`, and its payload is bytes.
//
// Versions, where old and new code meet during a deploy. A reader refuses a version, an `op`, a `type`, a `state` and a reason that it
// does not know, and nothing is lost by that: a request or report is dead-lettered with the refusal, to be redriven once the reader is
// new; a command is counted, and a round sends it again. In requests it refuses unknown fields as well, because a misspelt `dispatchID`
// would silently lose idempotency. In commands and reports, which only our own code writes, it ignores them: a field may be added under
// the same `v` if a reader that ignores it stays right; else `v` is raised, and readers learn it one release before anything writes it.

export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly refusal: Refusal };

/** One family of messages: its members by the field that tells them apart. */
export interface Format<W> {
  readonly tag: 'op' | 'type';
  readonly schemas: { readonly [name: string]: z.ZodType<W> };
}

/** A wire message as it is held in memory. */
export type InMemory<W> = W extends WirePayload
  ? Omit<W, 'v' | keyof WirePayload> & { readonly payload: Uint8Array }
  : W extends { readonly v: 1 }
    ? Omit<W, 'v'>
    : never;

/** What SQS takes in one message; every message whose fields keep their limits fits, resync pages of 100 jobs included. */
export const maxBodyBytes = 1_048_576;

export function parseMessage<W>(format: Format<W>, body: string): Parsed<InMemory<W>> {
  let raw: unknown;
  try {
    assertSize(body);
    raw = parseJson(body);
    return { ok: true, value: fromWire(check(format, raw)) };
  } catch (error) {
    if (error instanceof WireError) return { ok: false, refusal: { ...error.refusal, ...salvage(raw) } };
    throw error;
  }
}

/** The body to send: ASCII, checked as its reader will. Throws a `WireError`. */
export function encodeMessage<W>(format: Format<W>, message: object): string {
  const body = asciiJson(check(format, toWire(message)));
  assertSize(body);
  return body;
}

function assertSize(body: string): void {
  const bytes = Buffer.byteLength(body);
  if (bytes > maxBodyBytes) throw new WireError(refuse('body', `is ${bytes} bytes`, `at most ${maxBodyBytes} bytes`));
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new WireError(refuse('body', 'is not JSON', 'a JSON object'));
  }
}

/** The known part of a wire message that keeps every rule of its format; else throws. */
function check<W>({ tag, schemas }: Format<W>, raw: unknown): W {
  if (!isObject(raw)) throw new WireError(refuse('body', factOf(raw), 'a JSON object'));
  if (raw.v !== 1) throw new WireError(refuse('v', factOf(raw.v), '1'));
  const name = raw[tag];
  const schema = typeof name === 'string' && Object.hasOwn(schemas, name) ? schemas[name] : undefined;
  if (!schema) throw new WireError(refuse(tag, factOf(name), `one of ${Object.keys(schemas).join(', ')}`));
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw new WireError(refusalOf(parsed.error.issues, raw, schema));
}

/** An unknown field comes first: it is often the misspelt name of one that is then missing. */
function refusalOf(issues: readonly z.core.$ZodIssue[], raw: object, schema: z.ZodType): Refusal {
  const unknown = issues.find((issue) => issue.code === 'unrecognized_keys')?.keys[0];
  if (unknown !== undefined) {
    const known = Object.keys((schema as z.ZodObject).shape);
    const meant = known.find((field) => isLike(field, unknown));
    return refuse(printable(unknown), `is not known${meant ? `; did you mean "${meant}"?` : ''}`, known.join(', '));
  }
  const [issue] = issues as [z.core.$ZodIssue];
  const path = issue.path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('');
  const value = issue.path.reduce<unknown>((within, step) => (within as Record<PropertyKey, unknown> | undefined)?.[step], raw);
  const fact = issue.code === 'custom' ? String(issue.params?.fact) : factOf(value);
  return refuse(path.slice(1), fact, issue.message);
}

/** The same letters in another dress (`dispatchID`, `dispatch_id`), or one letter more, less or other. */
function isLike(known: string, given: string): boolean {
  const a = known.toLowerCase();
  const b = given.toLowerCase().replace(/[-_\s]/g, '');
  if (Math.abs(a.length - b.length) > 1) return false;
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  if (same === 0) return false;
  const [restA, restB] = [a.slice(same), b.slice(same)];
  return restA.slice(1) === restB.slice(1) || restA === restB.slice(1) || restA.slice(1) === restB;
}

/** What a broken message of a version that we know names legibly. */
function salvage(raw: unknown): Pick<Refusal, 'key' | 'dispatchId'> {
  if (!isObject(raw) || (typeof raw.v === 'number' && raw.v !== 1)) return {};
  return {
    ...(isText(raw.key, keyRule) && { key: raw.key }),
    ...(raw.op === 'start' && isText(raw.dispatchId, idRule) && { dispatchId: raw.dispatchId }),
  };
}

function isText(value: unknown, rule: TextRule): value is string {
  return typeof value === 'string' && breachOf(value, rule) === undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fromWire<W>(wire: W): InMemory<W> {
  const { v: _, payload, encoding, ...rest } = wire as Partial<WirePayload> & { readonly v: 1 };
  return (payload === undefined ? rest : { ...rest, payload: decodePayload({ payload, encoding }) }) as InMemory<W>;
}

function toWire(message: object): object {
  return { ...message, v: 1, ...('payload' in message && { encoding: undefined, ...encodePayload(message.payload as Uint8Array) }) };
}
