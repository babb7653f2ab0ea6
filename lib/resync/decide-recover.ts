import { isPresent, type PoolState, type WorkerRow } from '../pool/worker.ts';
import { type Round, STILL_OPEN } from './round.ts';

/**
 * What comes next after a table was restored to an earlier moment, by what was looked at.
 *
 *     begin      the pool recovers: nothing is assigned from here on, and starts wait
 *     settle     until nobody decides by an earlier state any more. A function looks at the pool through a cache, and lives for
 *                seconds; a worker whose row went with the restore has a lease to find that out and stop; one that was evicted, likewise
 *     put back   the table, where whoever recovers has not done so before; and once more from the start, for what was read of it until now
 *     empty      the inboxes: until every start that was ever sent has been taken, so that it is up, over, or said to be starting
 *     reassign   jobs that name a worker who is gone. Of one without a row nobody else would ever look for them; of the others, the sweep may
 *                only do so once the pool is open, and what nobody runs is to be known before
 *     ask        each worker what it runs, until nothing of its answer is still open
 *     empty      the request and the report queue: until what came of both is handled. A request that nothing can be decided of as long as a record
 *                is missing holds back all that are behind it at its key; they are not waited for
 *     open       what waits is assigned
 *     resume     once everybody knows: starts that were out are sent again. Until then none was, for what the records call assigned may be
 *                an earlier assignment of what runs elsewhere; those who run something have said so now
 *
 * A worker that registers meanwhile takes its turn from where the others are; of one that goes, the jobs are reassigned.
 */
export interface Looked {
  readonly pool: PoolState;
  readonly rows: readonly WorkerRow[];
  /** The pool's lease, ms. */
  readonly leaseMs: number;
  /** In which generation this recovery recovers; absent before it began. */
  readonly generation?: number;
  /** For how long at least the pool has been as it is, ms. */
  readonly sinceMs: number;
  /** Whether the table was put back to its earlier moment. */
  readonly isPutBack: boolean;
  /** What was seen in a generation up to this one was seen before that; 0 where it was put back from the start. */
  readonly above: number;
  /** Queues that were seen empty since everything settled, or are not waited for any longer; an inbox by its session. */
  readonly empty: ReadonlySet<string>;
  /** Whether the jobs of all workers were looked at who are gone by now. */
  readonly isReassigned: boolean;
  /** Sessions of whose answer nothing is open. */
  readonly answered: ReadonlySet<string>;
  readonly isResumed: boolean;
}

export type RecoverStep =
  /** Writes that state, where it is not there yet. */
  | { readonly step: 'begin'; readonly pool: PoolState }
  | { readonly step: 'settle'; readonly forMs: number; readonly revoked: readonly string[] }
  | { readonly step: 'put back' }
  | { readonly step: 'empty'; readonly queues: readonly string[] }
  | { readonly step: 'reassign' }
  | { readonly step: 'ask'; readonly rows: readonly WorkerRow[] }
  | { readonly step: 'open'; readonly pool: PoolState }
  /** It is open; until everybody knows. */
  | { readonly step: 'tell'; readonly forMs: number }
  | { readonly step: 'resume' }
  | { readonly step: 'done' };

/** What the two queues of the pool are called here; an inbox is called by its session. */
export const REQUESTS = 'request queue';
export const REPORTS = 'report queue';

/** How old the pool's state may be that a function goes by, ms. */
const CACHE_MS = 5_000;
/** The longest that a function lives which sends starts, ms. */
export const FUNCTION_MS = 20_000;
const MARGIN_MS = 5_000;

export function decideRecover({
  pool,
  rows,
  leaseMs,
  generation,
  sinceMs,
  isPutBack,
  above,
  empty,
  isReassigned,
  answered,
  isResumed,
}: Looked): RecoverStep {
  const isOurs = pool.generation === generation;
  if (isOurs && pool.state === 'open' && isPutBack) {
    if (sinceMs < CACHE_MS) return { step: 'tell', forMs: CACHE_MS - sinceMs };
    return isResumed ? { step: 'done' } : { step: 'resume' };
  }
  // Not begun, or closed meanwhile, restored once more, begun anew by somebody else.
  if (!isOurs || pool.state !== 'recovering')
    return { step: 'begin', pool: { state: 'recovering', generation: generationOf(pool, rows, above) } };

  const forMs = Math.max(CACHE_MS + FUNCTION_MS + MARGIN_MS, leaseMs, ...rows.map((row) => row.leaseMs)) - sinceMs;
  const revoked = rows.flatMap(({ state, workerId }) => (state === 'revoked' ? [workerId] : []));
  if (forMs > 0 || revoked.length > 0) return { step: 'settle', forMs: Math.max(forMs, 0), revoked };
  if (!isPutBack) return { step: 'put back' };

  const present = rows.filter(isPresent);
  const isFull = (queue: string) => !empty.has(queue);
  const inboxes = present.map(({ session }) => session).filter(isFull);
  if (inboxes.length > 0) return { step: 'empty', queues: inboxes };
  if (!isReassigned) return { step: 'reassign' };
  const unanswered = present.filter(({ session }) => !answered.has(session));
  if (unanswered.length > 0) return { step: 'ask', rows: unanswered };
  const queues = [REQUESTS, REPORTS].filter(isFull);
  if (queues.length > 0) return { step: 'empty', queues };
  return { step: 'open', pool: { state: 'open', generation: pool.generation } };
}

/**
 * Above every one that a row was stamped with. A recovery that no row is above, and that is not over, is gone on with; unless it began before
 * the table was put back: somebody else who goes on with it may be about to open the pool by what the workers said until then.
 */
function generationOf(pool: PoolState, rows: readonly WorkerRow[], above: number): number {
  const highest = Math.max(0, ...rows.map(({ generation = 0 }) => generation));
  if (pool.state === 'recovering' && pool.generation >= highest && pool.generation > above) return pool.generation;
  return Math.max(highest, pool.generation, above) + 1;
}

/** Whether the answer leaves nothing to be confirmed, and no start that may yet come up. */
export function isConclusive({ counts }: Pick<Round, 'counts'>): boolean {
  return (counts[STILL_OPEN] ?? 0) === 0;
}

/** Nobody is there to be asked. */
export function isGone({ state }: Pick<WorkerRow, 'state'>): boolean {
  return state === 'lost' || state === 'left';
}
