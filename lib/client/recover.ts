import { pagesOf } from '../pool/pages.ts';
import type { RecoverStep } from '../resync/decide-recover.ts';
import type { Recovered } from '../resync/decide-restore.ts';
import { type JobName, type RecoverProgress, Recovery } from '../resync/recover.ts';
import { type Calls, checkedTimeout, type Wait } from './calls.ts';
import { watch } from './watch.ts';

/** What a recovery found, that of those included which were given up before their end. */
export interface RecoverReport {
  /** Of the pool, from now on. */
  readonly generation: number;
  /** Workers that were asked what they run. */
  readonly workers: number;
  /** How often, all told: a worker that had to confirm something was asked again. */
  readonly rounds: number;
  /** Jobs that really run, and of which the records did not know. */
  readonly restored: readonly RestoredJob[];
  /** Dispatches that ended as `lost-in-restore`: another one runs at their key. */
  readonly lost: readonly JobName[];
  /**
   * Jobs that ran before and that nobody runs: they are started again. Those are among them that were stopped after the backup, and those that
   * ended after it where no worker remembers that.
   */
  readonly again: readonly JobName[];
  /** Jobs that wait, or whose start was out, and that never ran, as far as the records know. Where they ran and ended after the backup, they run again. */
  readonly waiting: readonly JobName[];
  /** Workers that said something which could not be applied, and how many things. They are asked again in an hour. */
  readonly undecided: RecoverProgress['undecided'];
}

/**
 * - `restored`: there was no record of it, or no whole one.
 * - `raised`: the record knew an earlier assignment.
 * - `replaced`: the record knew another dispatch.
 */
export interface RestoredJob extends JobName {
  readonly workerId: string;
  readonly how: Recovered['how'];
}

export interface RecoverWait extends Wait {
  /**
   * Puts the older content of a table back, all but the pool's own record (`pk` is `pool`), which says that the pool recovers. It is called once
   * nothing is assigned any more, so that nobody acts on the older records before the workers were asked; and once again by a call that goes on
   * with this one. What it throws is thrown, and the pool goes on recovering. Default: that has been done.
   */
  readonly putBack?: () => Promise<void>;
}

/** Over ports, like the rest of the client; the procedure itself is `lib/resync/recover.ts`. */
export async function recover(calls: Calls, wait: RecoverWait): Promise<RecoverReport> {
  const { records, requests, operate, clock } = calls.ports;
  const timeoutMs = checkedTimeout('recover', wait?.timeoutMs);
  const recovery = new Recovery(
    {
      ...operate,
      clock,
      rows: () => records.workers(),
      pendingKeys: (cursor) => records.pendingKeys(cursor),
      jobs: (keys) => records.jobs(keys),
      requests: {
        async send(all) {
          const failed = (await requests.send(all)).find((error) => error !== undefined);
          if (failed) throw failed;
        },
      },
    },
    { leaseMs: operate.leaseMs, ...(wait?.putBack === undefined ? {} : { putBack: wait.putBack }) },
  );
  const look = async (): Promise<RecoverReport | undefined> => {
    const isOpen = await recovery.pass();
    return isOpen && recovery.progress ? report(calls, recovery.progress) : undefined;
  };
  const unseen = () => `recover() is not over after ${timeoutMs} ms: ${inWords(recovery.progress?.step)}`;
  return calls.run('recover', 'grantOperate', undefined, () => watch(calls, { ...wait, timeoutMs }, look, unseen));
}

async function report(
  { ports }: Calls,
  { generation = 0, asked, rounds, undecided, again, waiting }: RecoverProgress,
): Promise<RecoverReport> {
  const found: Recovered[] = [];
  for await (const page of pagesOf((cursor) => ports.operate.restores.recovered(generation, cursor))) found.push(...page);
  return {
    generation,
    workers: asked,
    rounds,
    restored: found.map(({ key, dispatchId, worker, how }) => ({ key, dispatchId, workerId: worker, how })),
    lost: found.flatMap(({ key, lost }) => (lost === undefined ? [] : [{ key, dispatchId: lost }])),
    again,
    waiting,
    undecided,
  };
}

function inWords(step: RecoverStep | undefined): string {
  const goesOn = 'the pool assigns nothing until it is recovered, and a further call goes on with that';
  switch (step?.step) {
    case undefined:
      return 'it was not reached yet';
    case 'begin':
      return 'it did not begin';
    case 'settle': {
      const revoked = step.revoked.length === 0 ? '' : `, and for the leases of the evicted ${named(step.revoked)}`;
      return `it waits another ${Math.ceil(step.forMs / 1_000)} s for what was decided before${revoked}; ${goesOn}`;
    }
    case 'put back':
      return `the table is being put back; ${goesOn}`;
    case 'empty':
      return `it waits for messages to be taken from ${named(step.queues)}; ${goesOn}`;
    case 'reassign':
      return `it looks for jobs of workers that are not there any more; ${goesOn}`;
    case 'ask':
      return `it waits for what ${named(step.rows.map(({ workerId }) => workerId))} have to say; ${goesOn}`;
    case 'open':
    case 'tell':
    case 'resume':
    case 'done':
      return 'it is being opened';
    default:
      return step satisfies never;
  }
}

const NAMED = 5;

function named(names: readonly string[]): string {
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : '';
  return (
    names
      .slice(0, NAMED)
      .map((name) => `"${name}"`)
      .join(', ') + more
  );
}
