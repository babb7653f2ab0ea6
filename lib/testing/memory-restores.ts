import type { DispatchChange, Page } from '../pool/ports.ts';
import type { Recovered, Restoration } from '../resync/decide-restore.ts';
import type { RestoreStore } from '../resync/ports.ts';
import type { MemoryDispatches } from './memory-dispatches.ts';
import type { MemoryJobs } from './memory-jobs.ts';
import type { MemoryWorkers } from './memory-workers.ts';

export interface MemoryRestoresOptions {
  readonly jobs: MemoryJobs;
  readonly dispatches: MemoryDispatches;
  readonly workers: MemoryWorkers;
  /** A condition that is not looked at, so that a test can show what it is for. */
  readonly without?: RestoreCondition;
}

export const RESTORE_CONDITIONS = [
  'job',
  'dispatch',
  'displaced',
  'session',
  'state',
  'row generation',
  'pool generation',
  'pool state',
] as const;
export type RestoreCondition = (typeof RESTORE_CONDITIONS)[number];

/** Restorations as a DynamoDB transaction makes them: every condition is looked at, and everything written, in one step. */
export class MemoryRestores implements RestoreStore {
  readonly #options: MemoryRestoresOptions;
  readonly #recovered = new Map<number, Recovered[]>();

  constructor(options: MemoryRestoresOptions) {
    this.#options = options;
  }

  async restore(restoration: Restoration, expected: string | undefined): ReturnType<RestoreStore['restore']> {
    const { jobs, dispatches, without } = this.#options;
    const holds = this.#conditions(restoration, expected);
    if (!RESTORE_CONDITIONS.every((condition) => condition === without || holds[condition])) return { outcome: 'lost' };
    const { key, job, dispatch, displaced, by, recovered } = restoration;
    if (job) void jobs.commit(job, jobs.versioned(key)?.rev);
    dispatches.write(dispatch.next, dispatch.payload);
    if (displaced) dispatches.write(displaced.next);
    if (recovered) this.#recovered.set(by.generation, [...(this.#recovered.get(by.generation) ?? []), recovered]);
    return { outcome: 'won' };
  }

  async recovered(generation: number): Promise<Page<Recovered>> {
    return { items: this.#recovered.get(generation) ?? [] };
  }

  /** What is known of recoveries as it is now; calling it puts that back. */
  backup(): () => void {
    const kept = new Map(this.#recovered);
    return () => {
      this.#recovered.clear();
      for (const [generation, recovered] of kept) this.#recovered.set(generation, recovered);
    };
  }

  #conditions({ key, dispatch, displaced, by }: Restoration, expected: string | undefined): Readonly<Record<RestoreCondition, boolean>> {
    const { jobs, dispatches, workers } = this.#options;
    const row = workers.peek(by.worker);
    const pool = workers.peekPool();
    const isAsRead = ({ next, expected: status }: DispatchChange) => dispatches.canChange(next, status, next.fence);
    return {
      job: jobs.isAt(key, expected),
      dispatch: isAsRead(dispatch),
      displaced: displaced === undefined || isAsRead(displaced),
      session: row?.session === by.session,
      state: row !== undefined && row.state !== 'lost' && row.state !== 'left',
      'row generation': row?.generation === by.generation,
      'pool generation': pool.generation === by.generation,
      'pool state': pool.state !== 'closed',
    };
  }
}
