import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { Job } from '../pool/job.ts';
import type { Versioned } from '../pool/ports.ts';
import { endedBySchema, endingSchema } from './dispatch-item.ts';
import { type Attributes, decode, type Item, json, toSeconds, version } from './item.ts';
import { pendingShards, prefixes } from './tables.ts';

const prefix = prefixes.job;

export function jobKey(key: string): { readonly pk: string; readonly sk: string } {
  return { pk: prefix + key, sk: 'head' };
}

/** The key of the job whose item, or index entry, this is. */
export function keyOf({ pk }: Item): string {
  return (pk?.S ?? '').slice(prefix.length);
}

/**
 * The whole item. What the indexes are made of is written with the record, so that they cannot disagree with it for longer than
 * they lag: `owner` as long as there is one, `pendingShard` and `dueAt` as long as something waits.
 *
 * An ended record is forgotten with its dispatch; never while another one waits behind it, which would be lost.
 */
export function encodeJob(job: Job, rev: string, retentionMs: number): Attributes {
  const { key, ...fields } = job;
  const record = { ...jobKey(key), v: version, rev };
  switch (fields.status) {
    case 'pending': {
      const { only, ...rest } = fields;
      return { ...record, ...rest, only: only && JSON.stringify(only), pendingShard: shardOf(key) };
    }
    case 'assigned':
    case 'running':
    case 'stopping':
    case 'releasing': {
      const { owner, ...rest } = fields;
      return { ...record, ...rest, owner: owner.worker, session: owner.session };
    }
    case 'ended': {
      const { settled, ...rest } = fields;
      const ended = { ...record, ...rest, settled: JSON.stringify(settled) };
      if (fields.next !== undefined) return { ...ended, pendingShard: shardOf(key), dueAt: fields.recordedAt };
      return { ...ended, ttl: toSeconds(fields.recordedAt + retentionMs) };
    }
    default:
      return fields satisfies never;
  }
}

export function decodeJob(item: Item): Versioned<Job> {
  const key = keyOf(item);
  const { rev, ...fields } = decode(`job "${key}"`, schema, item);
  return { record: { key, ...fields }, rev };
}

function shardOf(key: string): number {
  return (createHash('sha256').update(key).digest()[0] ?? 0) % pendingShards;
}

const text = z.string();
const int = z.int();

const head = {
  rev: text,
  dispatchId: text,
  fingerprint: text,
  fence: int,
  above: int.optional(),
  attempt: int,
  admittedAt: int,
  startedAt: int.optional(),
  next: text.optional(),
  plan: text.optional(),
};

const owned = { ...head, owner: text, session: text, assignedAt: int, generation: int.optional(), busyAnswers: int.optional() };

function nested<T extends { readonly owner: string; readonly session: string }>({ owner: worker, session, ...fields }: T) {
  return { ...fields, owner: { worker, session } };
}

type Fields<J> = J extends Job ? Omit<J, 'key'> & { readonly rev: string } : never;

const schema: z.ZodType<Fields<Job>> = z.discriminatedUnion('status', [
  z.object({
    ...head,
    status: z.literal('pending'),
    because: z.enum(['admitted', 'released', 'start-failed', 'owner-lost', 'unrecognized', 'restart', 'refused']),
    dueAt: int,
    avoid: text.optional(),
    only: json(z.object({ worker: text, session: text })).optional(),
    busyAnswers: int.optional(),
  }),
  z.object({ ...owned, status: z.literal('assigned') }).transform(nested),
  z.object({ ...owned, status: z.literal('running'), startedAt: int }).transform(nested),
  z.object({ ...owned, status: z.literal('stopping'), stopReason: endedBySchema, stopRequestedAt: int }).transform(nested),
  z.object({ ...owned, status: z.literal('releasing'), releaseReason: z.enum(['moved', 'worker-draining']) }).transform(nested),
  z.object({ ...head, status: z.literal('ended'), settled: json(endingSchema), recordedAt: int }),
]);
