import { PoolError } from '../pool/errors.ts';
import type { WorkerRow } from '../pool/worker.ts';
import type { Round } from '../resync/round.ts';
import { evict, executionName } from '../resync/run-round.ts';
import { assertId } from '../wire/index.ts';
import { type Abortable, type Calls, checkedTimeout, type Wait } from './calls.ts';
import { watch } from './watch.ts';

/** What an operator does with one worker. Aborting, or a deadline that passes, ends the watching and not the deed. */
export interface WorkerHandle {
  readonly workerId: string;
  /**
   * Lets no new job go there and has the worker hand back those that it has, each as fast as its handler stops; waits until it has left.
   * The worker hears of it with its next heartbeat, and ends once no handler is alive.
   */
  drain(wait: Wait): Promise<DrainReport>;
  /**
   * Takes the worker's right to run jobs: it can renew no more. Its jobs run elsewhere once it has stopped them, or after its lease,
   * whichever comes first. Resolves as soon as that is certain. For a worker that misbehaves; one that does as it is told is drained.
   * Nothing where it is gone already.
   */
  evict(options?: Abortable): Promise<void>;
  /**
   * Asks the worker what it really runs, sets the records right, and waits until that is done. Asked again while it has not answered yet
   * it waits for that answer, which may be of a moment before; and a worker that never answers is given up on however often it is asked.
   */
  resync(wait: Wait): Promise<ResyncReport>;
}

export interface DrainReport {
  readonly workerId: string;
  /** The registration that was drained. */
  readonly session: string;
  /**
   * - `left`: it handed back every job and is gone.
   * - `lost`: it fell silent first; its jobs run elsewhere, or soon will.
   * - `revoked`: it was evicted first; its jobs run elsewhere after its lease.
   * - `replaced`: a process registered anew under its id, and that one is not drained.
   */
  readonly outcome: 'left' | 'lost' | 'revoked' | 'replaced';
  /** Jobs up there when the drain began. */
  readonly jobs: number;
}

/** `lost`, `left`, `revoked`: nobody is there to answer; its jobs run elsewhere, or will after its lease. */
export type ResyncReport =
  | {
      readonly outcome: 'answered';
      /** Everything that it said could be applied. What could not is looked at again in an hour. */
      readonly complete: boolean;
      /** Things said that were given up on after several tries; 0 where complete. */
      readonly skipped: number;
      /** How many things it said fell under which rule, such as `entry agrees`: the record says the same. */
      readonly counts: Readonly<Record<string, number>>;
    }
  | { readonly outcome: 'lost' | 'left' | 'revoked' };

/** Over ports, like the rest of the client. Authoritative is the worker's row; what is done to it holds only for what was read. */
export function workerHandle(calls: Calls, workerId: string): WorkerHandle {
  assertId('workerId', workerId);
  const { clock, operate } = calls.ports;
  const { workers, rounds, machine } = operate;

  async function present(): Promise<WorkerRow> {
    const row = await workers.get(workerId);
    if (!row)
      throw new PoolError('not-found', `there is no worker "${workerId}", and none was seen within the last hour`, { retryable: false });
    return row;
  }

  async function watched<T>(method: 'drain' | 'resync', wait: Wait, look: () => Promise<T | undefined>, known: () => string): Promise<T> {
    const timeoutMs = checkedTimeout(method, wait?.timeoutMs);
    const unseen = () => `${method}() of worker "${workerId}" is not over after ${timeoutMs} ms: ${known()}`;
    return calls.run(method, 'grantOperate', undefined, () => watch(calls, { ...wait, timeoutMs }, look, unseen));
  }

  return {
    workerId,

    async drain(wait) {
      let first: WorkerRow | undefined;
      let row: WorkerRow | undefined;
      const look = async (): Promise<DrainReport | undefined> => {
        row = await present();
        first ??= row;
        const report = { workerId, session: first.session, jobs: first.running };
        if (row.session !== first.session) return { ...report, outcome: 'replaced' };
        if (row.state === 'active') await workers.change(workerId, { session: row.session, states: ['active'] }, { state: 'draining' });
        else if (row.state !== 'draining') return { ...report, outcome: row.state };
        return undefined;
      };
      return watched('drain', wait, look, () =>
        row ? `at its last heartbeat ${row.running} jobs were still up; it goes on draining` : 'it was not reached yet',
      );
    },

    evict: async ({ signal } = {}) =>
      calls.run('evict', 'grantOperate', signal, async () => {
        for (;;) {
          const { session, state } = await present();
          if (state === 'lost' || state === 'left') return;
          // Not so where it registered anew just now, or is gone.
          if (await evict({ workers, machine, clock }, { worker: workerId, session })) return;
        }
      }),

    async resync(wait) {
      let seen: { readonly row: WorkerRow; readonly round: Round | undefined } | undefined;
      /** What was over before it was asked here. */
      let before: string | undefined;
      let started: string | undefined;
      const look = async (): Promise<ResyncReport | undefined> => {
        const row = await present();
        if (row.state !== 'active' && row.state !== 'draining') return { outcome: row.state };
        const round = row.round === undefined ? undefined : await rounds.get(row.round);
        const isFirst = seen === undefined;
        seen = { row, round };
        if (isFirst && (round?.state === 'resolved' || round?.state === 'closed')) before = round.token;
        const isNew = round !== undefined && round.token !== before;
        if (isNew && round.state === 'resolved') {
          const { skipped, counts } = round;
          return { outcome: 'answered', complete: skipped === 0, skipped, counts };
        }
        // A name that was used at this beat and minute comes to nothing, so there will be another at the next.
        const name = executionName(row, clock.now());
        if ((isFirst || !isNew) && name !== started) {
          await machine.start(name, { worker: workerId, session: row.session });
          started = name;
        }
        return undefined;
      };
      return watched('resync', wait, look, () => (seen ? unanswered(seen, before) : 'it was not reached yet'));
    },
  };
}

function unanswered({ row, round }: { readonly row: WorkerRow; readonly round: Round | undefined }, before: string | undefined): string {
  const beat = `its last heartbeat was number ${row.beat}`;
  if (!round || round.token === before) return `it was not asked yet; ${beat}`;
  const came =
    round.pages === undefined ? 'nothing of its answer came' : `${round.applied.size} of ${round.pages} parts of its answer came`;
  return `it was asked, at heartbeat ${round.beat}, and ${came}; ${beat}`;
}
