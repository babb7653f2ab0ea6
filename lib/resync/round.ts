import type { EpochMs, Fence } from '../pool/job.ts';

/**
 * One resync of one worker session, named by its token (R1).
 *
 *     open ──► armed ──► resolved
 *       └────────┴─────► closed      (superseded by a newer round, expired, or its worker revoked, lost or replaced)
 *
 * The worker's row points at the token of its current round, and that pointer alone says which round counts: whatever
 * concerns another token changes nothing (R2, R3, R11). `open` is before the worker was asked, `armed` while its answer is awaited.
 */
export interface Round {
  readonly token: string;
  readonly worker: string;
  readonly session: string;
  readonly state: 'open' | 'armed' | 'resolved' | 'closed';
  /** The worker's beat as it was looked at before any timer of this round started. */
  readonly beat: number;
  readonly openedAt: EpochMs;
  /** By when the worker should have answered: after that its machine is soon not trusted any more (`isInCourse`). An answer counts as long as the round is armed. */
  readonly deadline: EpochMs;
  /** Wakes the state machine that waits for the round. */
  readonly taskToken?: string;
  /** How many pages the worker was asked; its answer has at least as many. */
  readonly asked: number;
  /** How many pages the answer has in all, known from the first one that arrives. */
  readonly pages?: number;
  /** Pages of the answer that were applied: a set, because adding a page twice must not count twice. */
  readonly applied: ReadonlySet<number>;
  /** Entries that failed each time and were given up on; a round with any of them ends incomplete. */
  readonly skipped: number;
  /** What became of the entries, by routing rule; and beside the rules, how many of them are `STILL_OPEN`. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Entries that leave something open which only another round can tell: the worker is to confirm what it runs, or a start has not returned. */
export const STILL_OPEN = 'still open';

/** One page of what the worker is asked about, as it was known when the round was armed. */
export interface AskedPage {
  readonly token: string;
  readonly page: number;
  readonly jobs: readonly Asked[];
}

export interface Asked {
  readonly key: string;
  readonly fence: Fence;
  /** Its owner had confirmed it when the round was armed. False: its start may still be in the inbox, so absence proves nothing. */
  readonly running: boolean;
}

/** The round resolves once the set of pages still outstanding is empty (R12). */
export function isComplete({ pages, applied }: Round): boolean {
  return pages !== undefined && applied.size >= pages;
}

/**
 * Whether its machine is to be trusted to bring it to an end: until it is overdue by half of its time. So long nobody begins another
 * round, for that would supersede this one and forget what the rounds before it had found. A closed one counts as long, because its
 * machine may be about to open the next.
 */
export function isInCourse({ state, deadline }: Round, now: EpochMs, roundTimeoutMs: number): boolean {
  return state !== 'resolved' && now <= deadline + roundTimeoutMs / 2;
}
