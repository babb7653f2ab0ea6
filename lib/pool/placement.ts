import type { Owner, WorkerRow } from './worker.ts';
import { isEligible, isOwnerLost } from './worker.ts';

export interface PlacementRules {
  readonly generation: number;
  /** A worker that just failed the job: taken only where no other one is eligible. */
  readonly avoid?: string;
  /** The only owner it may have while that one is not lost, because a handler of the key may be alive there. */
  readonly only?: Owner;
}

/**
 * The worker for a key: the highest score of weighted rendezvous hashing over the eligible ones. A worker that joins takes
 * only keys that land on it, one that leaves gives away only its own, and each gets a share in proportion to its capacity.
 */
export function placeKey(key: string, workers: readonly WorkerRow[], { generation, avoid, only }: PlacementRules): Owner | undefined {
  const row = only && workers.find(({ workerId }) => workerId === only.worker);
  if (only && !isOwnerLost(row, only)) return row && isEligible(row, generation) ? only : undefined;

  const eligible = workers.filter((worker) => isEligible(worker, generation));
  const others = eligible.filter(({ workerId }) => workerId !== avoid);
  const best = (others.length > 0 ? others : eligible)
    .map((worker) => ({ worker, score: score(key, worker) }))
    .reduce<{ worker: WorkerRow; score: number } | undefined>((a, b) => (a && beats(a, b) ? a : b), undefined);
  return best && { worker: best.worker.workerId, session: best.worker.session };
}

type Scored = { readonly worker: WorkerRow; readonly score: number };

function beats(a: Scored, b: Scored): boolean {
  return a.score === b.score ? a.worker.workerId < b.worker.workerId : a.score > b.score;
}

/** `-capacity / ln(u)` with u uniform in (0, 1): the worker of the highest score wins in proportion to its capacity. */
function score(key: string, { workerId, capacity }: WorkerRow): number {
  return -capacity / Math.log((hash53(`${key.length}:${key}${workerId}`) + 0.5) / 2 ** 53);
}

/** cyrb53: 53 well-mixed bits of a string. Not for secrets; it has to be quick, and the same in every version. */
function hash53(text: string): number {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 2654435761);
    low = Math.imul(low ^ unit, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return 4294967296 * (2097151 & low) + (high >>> 0);
}
