/**
 * The worker's right to run jobs, by its own clocks.
 *
 * The control plane calls a worker lost once a full lease passed, by its timer, in which the beat did not change. The worker counts from the
 * moment that its last successful heartbeat was *sent*, which is before the beat changed there, so its own lease is over first, however
 * long the answer took. It stops its jobs at two thirds; the last third is what they have to come to an end.
 *
 * The beat is the worker's own count of the heartbeats that it has sent, and the row takes none that is not higher. So no beat is ever seen
 * twice: not where a heartbeat comes late or is tried again, and not once a worker has beaten whose row was put back to an earlier moment. Were
 * it counted by the row, that one would show again what was looked at before, and a live worker be taken for silent.
 */
import type { EpochMs } from '../pool/job.ts';
import { isPresent, type WorkerRow } from '../pool/worker.ts';
import type { Heartbeat, Registry, WorkerClock } from './ports.ts';

/** Both clocks at one moment. */
export interface Moment {
  readonly wall: EpochMs;
  readonly monotonic: number;
}

export function momentOf(clock: WorkerClock): Moment {
  return { wall: clock.now(), monotonic: clock.monotonic() };
}

/** The larger of what both clocks say: the monotonic one stands still in suspend on Linux, the wall clock may be set back. */
export function elapsedMs(since: Moment, now: Moment): number {
  return Math.max(0, now.wall - since.wall, now.monotonic - since.monotonic);
}

export interface Lease {
  readonly leaseMs: number;
  /** When the last successful heartbeat, or the registration, was sent. */
  readonly since: Moment;
}

/** What a heartbeat came to, by the row as it is then: whether it was written, or had been before its answer was lost, comes to the same. */
export function heartbeatOf({ session, beat }: Parameters<Registry['heartbeat']>[0], row: WorkerRow | undefined): Heartbeat {
  if (!row) return { outcome: 'refused' };
  if (row.session !== session || !isPresent(row)) return { outcome: 'refused', row };
  return row.beat === beat ? { outcome: 'renewed', row } : { outcome: 'overtaken' };
}

/** Answers may overtake each other: one sent earlier than the last successful one changes nothing. */
export function renewed(lease: Lease, sent: Moment): Lease {
  return sent.monotonic > lease.since.monotonic ? { ...lease, since: sent } : lease;
}

/** For how long jobs may run yet, in whole ms; at 0 they are stopped. */
export function heldForMs(lease: Lease, now: Moment): number {
  return untilMs(lease, now, 2 / 3);
}

/** For how long no other worker may run them yet. */
export function leftMs(lease: Lease, now: Moment): number {
  return untilMs(lease, now, 1);
}

/** In how long the next heartbeat is due. */
export function beatDueInMs(lease: Lease, now: Moment): number {
  return untilMs(lease, now, 1 / 3);
}

/** How long after a heartbeat another one is sent while none succeeds: four of them before the jobs are stopped. */
export function beatRetryMs(leaseMs: number): number {
  return Math.floor(leaseMs / 12);
}

// Whole ms, so that a timer which was set for it never comes too early.
function untilMs({ leaseMs, since }: Lease, now: Moment, part: number): number {
  return Math.max(0, Math.ceil(Math.floor(part * leaseMs) - elapsedMs(since, now)));
}
