import type { EpochMs } from './job.ts';

/**
 * The registration of one worker, one row per worker id; a new session replaces the old one's row.
 *
 * The worker writes it (register, heartbeat, draining, left); the control plane stamps `generation` and alone turns a row
 * `revoked` or `lost`. `revoked` is not lost: its jobs may still run, and only a full lease of waiting makes them free.
 */
export interface WorkerRow {
  readonly workerId: string;
  /** A ULID: names one registration of the worker. */
  readonly session: string;
  readonly state: 'active' | 'draining' | 'revoked' | 'lost' | 'left';
  /** Raised by every heartbeat, to the worker's own count. That it did not change for a lease, by somebody else's timer, is the only proof of loss. */
  readonly beat: number;
  /** This session's own lease, 3 000 to 90 000 ms; a deploy may have changed the pool's since. */
  readonly leaseMs: number;
  /** Jobs at most, and the placement weight. The worker itself is the authority: over it, it refuses. */
  readonly capacity: number;
  /** Jobs up at the last heartbeat. */
  readonly running: number;
  readonly registeredAt: EpochMs;
  /** The pool generation that the control plane saw it register in; absent until then, and nothing is placed there. */
  readonly generation?: number;
  /** Round token of the last resync round that the worker answered whole. */
  readonly answered?: string;
  /** Token of its current resync round; whatever concerns another token changes nothing. */
  readonly round?: string;
  /** When it is next asked what it runs, though nothing seems wrong; absent until the control plane has seen the session for the first time. */
  readonly auditAt?: EpochMs;
  /** When a job was last seen to name this row since it is lost or left; the row is kept for an hour after. */
  readonly namedAt?: EpochMs;
}

/** The (worker, session) that a job is assigned to. */
export interface Owner {
  readonly worker: string;
  readonly session: string;
}

/** What the pool as a whole is doing. No record of it means open, generation 1. */
export interface PoolState {
  readonly state: 'open' | 'closed' | 'recovering';
  readonly generation: number;
}

/**
 * Whether the owner can still be spoken to. `draining` and `revoked` are *not* lost: such a worker hands its jobs back, or a
 * full lease of waiting decides; declaring it lost on a redelivery gave two live handlers.
 */
export function isOwnerLost(row: WorkerRow | undefined, owner: Owner): boolean {
  return row === undefined || row.session !== owner.session || row.state === 'lost' || row.state === 'left';
}

/** The states in which a session may renew: it is asked in rounds, and heard. */
export const PRESENT = ['active', 'draining'] as const satisfies readonly WorkerRow['state'][];

export function isPresent({ state }: Pick<WorkerRow, 'state'>): boolean {
  return state === 'active' || state === 'draining';
}

export function isEligible(row: WorkerRow, generation: number): boolean {
  return row.state === 'active' && row.generation === generation && row.running < row.capacity;
}
