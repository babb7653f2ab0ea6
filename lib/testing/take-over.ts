import type { EpochMs } from '../pool/job.ts';
import { isOwned } from '../pool/job.ts';
import type { JobStore, RequestSender, WorkerStore } from '../pool/ports.ts';
import { isOwnerLost, type WorkerRow } from '../pool/worker.ts';
import type { WorkerClock } from '../worker/ports.ts';

/**
 * Plays the part of the resync rounds, where nobody asks a silent worker anything: it is watched, given up on, and its jobs move on.
 *
 * Of what the rounds guarantee it keeps what the rest leans on:
 * - A row is turned `lost` only after a full lease of its own in which its beat did not change, by a timer that is not the
 *   worker's, started once the beat was read; and conditionally on that session and beat, so that a heartbeat in between wins.
 * - Every key that a lost, left or replaced session still owns gets an `assign`, until the index showed none twice. The
 *   request function reads the row and decides; nothing is decided here.
 * - Dying at any call loses nothing but time: what was seen is kept, and the next pass looks again.
 *
 * It does not keep what only asking can give: a command or a report that was lost for good with its worker alive is not found
 * out, nor a record that is missing, and no worker is ever evicted.
 */
export class TakeOver {
  readonly #seen = new Map<string, Seen>();

  /** One pass over all workers; call it a few times per lease. */
  async pass({ workers, jobs, requests, clock }: TakeOverPorts): Promise<void> {
    for (const row of await workers.rows()) {
      const seen = this.#look(row, clock.monotonic());
      const silentMs = clock.monotonic() - seen.since;
      let { state } = row;
      if (isHeard(row) && silentMs >= row.leaseMs && (await workers.lose(row.workerId, row.session, row.beat))) state = 'lost';
      if (seen.emptyLooks < 2) seen.emptyLooks = (await reassign({ ...row, state }, { jobs, requests })) ? 0 : seen.emptyLooks + 1;
      if (state !== row.state) seen.emptyLooks = 0;
    }
  }

  #look(row: WorkerRow, now: EpochMs): Seen {
    const before = this.#seen.get(row.workerId);
    if (before && before.session === row.session && before.beat === row.beat && before.state === row.state) return before;
    const isSameSession = before?.session === row.session && before.state === row.state;
    const seen: Seen = {
      session: row.session,
      state: row.state,
      beat: row.beat,
      since: now,
      emptyLooks: isSameSession ? before.emptyLooks : 0,
    };
    this.#seen.set(row.workerId, seen);
    return seen;
  }
}

export interface TakeOverPorts {
  readonly workers: {
    /** Every row, read consistently. */
    rows(): Promise<readonly WorkerRow[]>;
    lose(workerId: string, session: string, beat: number): ReturnType<WorkerStore['stamp']>;
  };
  readonly jobs: Pick<JobStore, 'get' | 'ownedBy'>;
  readonly requests: RequestSender;
  readonly clock: Pick<WorkerClock, 'monotonic'>;
}

interface Seen {
  readonly session: string;
  readonly state: WorkerRow['state'];
  readonly beat: number;
  readonly since: EpochMs;
  /** How often in a row no key was found that a session which is over still owns. */
  emptyLooks: number;
}

function isHeard({ state }: WorkerRow): boolean {
  return state === 'active' || state === 'draining';
}

/** Whether any key of the worker is owned by a session that is over. */
async function reassign(row: WorkerRow, { jobs, requests }: Pick<TakeOverPorts, 'jobs' | 'requests'>): Promise<boolean> {
  let found = false;
  let cursor: string | undefined;
  do {
    const page = await jobs.ownedBy(row.workerId, cursor);
    for (const key of page.items) {
      const job = (await jobs.get(key))?.record;
      if (!job || !isOwned(job) || job.owner.worker !== row.workerId || !isOwnerLost(row, job.owner)) continue;
      found = true;
      await requests.send({ op: 'assign', key });
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}
