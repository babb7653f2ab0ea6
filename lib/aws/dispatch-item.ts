import * as z from 'zod';
import type { Dispatch, EndedBy, Failure, JobEnd, NotStarted, Started } from '../pool/dispatch.ts';
import type { Ending } from '../pool/job.ts';
import { type Attributes, decode, type Item, json, toSeconds, version } from './item.ts';
import { prefixes } from './tables.ts';

const prefix = prefixes.dispatch;

/** Larger payloads are an item of their own, because DynamoDB bills every update for the whole item. */
export const maxInlineBytes = 2_048;

export function headKey(dispatchId: string): { readonly pk: string; readonly sk: string } {
  return { pk: prefix + dispatchId, sk: 'head' };
}

/** Named by its content, so that no other content ever stands in its place. */
export function payloadKey({ dispatchId, fingerprint }: Pick<Dispatch, 'dispatchId' | 'fingerprint'>): {
  readonly pk: string;
  readonly sk: string;
} {
  return { pk: prefix + dispatchId, sk: `payload#${fingerprint}` };
}

/** The head without its payload. */
export function encodeDispatch(dispatch: Dispatch, rev: string): Attributes {
  const { dispatchId, ...fields } = dispatch;
  const record = { ...headKey(dispatchId), v: version, rev };
  switch (fields.status) {
    case 'admitted':
      return { ...record, ...fields };
    case 'started':
      return { ...record, ...fields, outcome: JSON.stringify(fields.outcome) };
    case 'ended': {
      const { expiresAt, ...rest } = fields;
      return { ...record, ...rest, outcome: JSON.stringify(fields.outcome), end: JSON.stringify(fields.end), ttl: toSeconds(expiresAt) };
    }
    case 'never-started': {
      const { expiresAt, ...rest } = fields;
      return { ...record, ...rest, outcome: JSON.stringify(fields.outcome), ttl: toSeconds(expiresAt) };
    }
    default:
      return fields satisfies never;
  }
}

/** `expiresAt` comes back as a whole second, rounded up. */
export function decodeDispatch(item: Item): Dispatch {
  const dispatchId = (item.pk?.S ?? '').slice(prefix.length);
  return { dispatchId, ...decode(`dispatch "${dispatchId}"`, schema, item) };
}

const text = z.string();
const int = z.int();

export const endedBySchema: z.ZodType<EndedBy> = z.enum(['stop-requested', 'replaced', 'pool-closed']);

const failure: z.ZodType<Failure> = z.object({ code: text, message: text });

const started: z.ZodType<Started> = z.object({ outcome: z.literal('started'), at: int });

const notStarted: z.ZodType<NotStarted> = z.union([
  z.object({
    outcome: z.literal('refused'),
    reason: z.literal('key-busy'),
    holder: z.object({ dispatchId: text, sameRequest: z.boolean() }),
  }),
  z.object({ outcome: z.literal('refused'), reason: z.enum(['next-taken', 'pool-closed', 'expired', 'invalid']) }),
  z.object({ outcome: z.literal('start-failed'), error: failure, attempts: int }),
  z.object({ outcome: z.literal('cancelled'), by: z.enum(['stop', 'superseded']) }),
]);

const end: z.ZodType<JobEnd> = z.discriminatedUnion('status', [
  z.object({
    status: z.literal('succeeded'),
    finishedAt: int,
    result: z.unknown().optional(),
    resultOmitted: z.literal(true).optional(),
  }),
  z.object({ status: z.literal('failed'), finishedAt: int, error: failure }),
  z.object({ status: z.literal('stopped'), finishedAt: int, reason: endedBySchema }),
]);

export const endingSchema: z.ZodType<Ending> = z.union([z.object({ outcome: started, end }), z.object({ outcome: notStarted })]);

type Fields<D> = D extends Dispatch ? Omit<D, 'dispatchId'> : never;

const head = { key: text, fence: int, requestedAt: int };
const named = { ...head, fingerprint: text };
const perhapsNamed = { ...head, fingerprint: text.optional() };

function expiring<T extends { readonly ttl: number }>({ ttl, ...fields }: T) {
  return { ...fields, expiresAt: ttl * 1_000 };
}

const schema: z.ZodType<Fields<Dispatch>> = z.discriminatedUnion('status', [
  z.object({ ...named, status: z.literal('admitted') }),
  z.object({ ...perhapsNamed, status: z.literal('started'), outcome: json(started) }),
  z.object({ ...perhapsNamed, status: z.literal('ended'), outcome: json(started), end: json(end), ttl: int }).transform(expiring),
  z.object({ ...perhapsNamed, status: z.literal('never-started'), outcome: json(notStarted), ttl: int }).transform(expiring),
]);
