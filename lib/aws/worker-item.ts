import * as z from 'zod';
import type { PoolState, WorkerRow } from '../pool/worker.ts';
import { type Attributes, decode, type Item, version } from './item.ts';
import { prefixes } from './tables.ts';

const prefix = prefixes.worker;

export function workerKey(workerId: string): { readonly pk: string } {
  return { pk: prefix + workerId };
}

export function encodeWorker({ workerId, ...row }: WorkerRow, rev: string): Attributes {
  return { ...workerKey(workerId), v: version, rev, ...row };
}

export function decodeWorker(item: Item): WorkerRow {
  const workerId = (item.pk?.S ?? '').slice(prefix.length);
  return { workerId, ...decode(`worker "${workerId}"`, schema, item) };
}

const int = z.int();

const schema: z.ZodType<Omit<WorkerRow, 'workerId'>> = z.object({
  session: z.string(),
  state: z.enum(['active', 'draining', 'revoked', 'lost', 'left']),
  beat: int,
  leaseMs: int,
  capacity: int,
  running: int,
  registeredAt: int,
  generation: int.optional(),
  answered: z.string().optional(),
  round: z.string().optional(),
  auditAt: int.optional(),
  namedAt: int.optional(),
});

/** Where the pool's state is, in the Jobs table. */
export const poolKey = { pk: 'pool', sk: 'head' } as const;

/** What the pool is as long as nobody wrote its record. */
export const NO_RECORD: PoolState = { state: 'open', generation: 1 };

export function encodePool({ state, generation }: PoolState, rev: string): Attributes {
  return { ...poolKey, v: version, rev, state, generation };
}

export function decodePool(item: Item): PoolState {
  return decode('record "pool"', poolSchema, item);
}

const poolSchema: z.ZodType<PoolState> = z.object({ state: z.enum(['open', 'closed', 'recovering']), generation: int });
