import type { EpochMs } from '../pool/job.ts';
import type { WorkerRow } from '../pool/worker.ts';
import type { Round } from './round.ts';

/**
 * What the end of a round's time means, judged by the records alone and by the round's token (R3).
 *
 * A worker is lost only where its `beat` did not change for its whole lease by a timer that is not its own; the beat was looked at
 * before that timer started, because looked at late a live worker seems silent for less than its lease. That is as true where the round
 * was never armed, or not in time: a worker that is dead is lost though nobody managed to ask it. One that beats but does not answer is
 * alive: it is asked again, and after `maxSilentRounds` revoked, which is not lost either, until a lease has passed.
 */
export interface ExpiryContext {
  readonly now: EpochMs;
  /** How long a round waits for its answer, ms; the timer that ran out measured it. */
  readonly roundTimeoutMs: number;
  readonly maxSilentRounds: number;
}

/** What the state machine knows from its rounds before. */
export interface Silence {
  /** Rounds in a row that a beating worker left unanswered. */
  readonly rounds: number;
  /** The beat that did not change, and for how long that was measured. */
  readonly unchanged?: { readonly beat: number; readonly ms: number };
  /** The round that was given more time already. */
  readonly behind?: string;
}

export type Expiry =
  /** The round is over, and another is the worker's current one: no effect. */
  | { readonly outcome: 'stale' }
  /** The row was turned lost by this round, or has left: what it owned is to be reassigned. */
  | { readonly outcome: 'gone' }
  /** A whole lease without a beat: the row is to be turned lost. */
  | { readonly outcome: 'lost' }
  /** The row is revoked already: a lease of waiting decides. */
  | { readonly outcome: 'wait' }
  /** The control plane has not asked yet, or the pages of the answer are still in the queue: more time once, on the same token. Never revoked for that. */
  | { readonly outcome: 'behind'; readonly silence: Silence }
  /** Another round. */
  | { readonly outcome: 'again'; readonly silence: Silence }
  /** It beats and does not answer: its right to renew is taken, then its lease is waited for. */
  | { readonly outcome: 'revoke' };

export function decideExpiry(round: Round, row: WorkerRow | undefined, silence: Silence, context: ExpiryContext): Expiry {
  if (!row || row.session !== round.session) return { outcome: 'stale' };
  if (row.state === 'lost' || row.state === 'left') return { outcome: 'gone' };
  if (row.state === 'revoked') return { outcome: 'wait' };
  const isCurrent = row.round === round.token;
  // Closed, and the worker's current one all the same: this very step was run before, and nobody may have heard of it.
  if (round.state === 'resolved' || (round.state === 'closed' && !isCurrent)) return { outcome: 'stale' };

  if (row.beat === round.beat) {
    const before = silence.unchanged?.beat === row.beat ? silence.unchanged.ms : 0;
    const ms = before + context.roundTimeoutMs;
    return ms >= row.leaseMs
      ? { outcome: 'lost' }
      : { outcome: 'again', silence: { rounds: silence.rounds, unchanged: { beat: row.beat, ms } } };
  }
  if (!isCurrent || row.answered === round.token) {
    // What has not come by then, the question or a page of the answer, may be lost for good; the worker is asked anew, through no fault of its own.
    if (silence.behind === round.token) return { outcome: 'again', silence };
    return { outcome: 'behind', silence: { ...silence, behind: round.token } };
  }
  const rounds = silence.rounds + 1;
  return rounds >= context.maxSilentRounds ? { outcome: 'revoke' } : { outcome: 'again', silence: { rounds } };
}
