import type { RecoverReport } from '../../lib/client/recover.ts';
import type { StartedDispatch } from '../../lib/pool/dispatch.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Scene } from './scene.ts';

/** What of a restoration has to be seen again, or named, once the pool is recovered. */
interface Restored {
  readonly at: number;
  /** Dispatches whose end was on record, and which run again by what was put back. */
  readonly endsLost: readonly StartedDispatch[];
}

const KEPT = 12;
const RECOVER_TIMEOUT_MS = 15 * 60_000;

/**
 * Tables restored to an earlier moment under running workers, and the pool recovered after it: by an operator who begins some time later,
 * whose process dies over it now and then, and who calls again until it is told what was found.
 *
 * What that has to come to (G5): whatever really runs is on record under its own fence, or above it what took its place; and an end that
 * was on record and is not any more has come back, or is named in the report.
 */
export class Restorations {
  readonly #scene: Scene;
  readonly #random: Random;
  readonly #backups: { readonly table: 'jobs' | 'workers'; readonly at: number; readonly putBack: () => void }[] = [];
  #restored: Restored | undefined;
  #isRecovering = false;
  #operators = 0;

  constructor(scene: Scene, random: Random) {
    this.#scene = scene;
    this.#random = random;
    if (scene.conditions.mishaps.restoreTable !== undefined) this.#backUp();
  }

  /** From a restoration until the pool is recovered. */
  get isRecovering(): boolean {
    return this.#isRecovering;
  }

  /** Puts back one table, now and then both. False: there was no backup. */
  restore(random: Random): boolean {
    const { scheduler, leaseMs, pool, tell } = this.#scene;
    // Restored once more before it was recovered, now and then.
    if (this.#backups.length === 0 || (this.#isRecovering && random.chance(0.8))) return false;
    const ended = pool.services.dispatches.all().filter(({ status }) => status === 'ended');
    const tables = new Set(random.pick([['jobs'], ['jobs'], ['workers'], ['jobs', 'workers']]));
    for (const table of tables) {
      const backup = random.pick(this.#backups.filter((each) => each.table === table));
      tell('somebody', () => `restores the table of ${table} to ${scheduler.now() - backup.at} ms ago`);
      backup.putBack();
    }
    const { jobs, dispatches } = pool.services;
    const endsLost = ended.flatMap(({ dispatchId, key }) => {
      const job = jobs.peek(key);
      const record = dispatches.peek(dispatchId);
      return record?.status === 'started' && job?.status === 'running' && job.dispatchId === dispatchId ? [record] : [];
    });
    this.#restored = { at: scheduler.now(), endsLost };
    if (this.#isRecovering) return true;
    this.#isRecovering = true;
    const afterMs = random.between(0, random.pick([100, leaseMs]));
    scheduler.after(afterMs, () => this.#recover(new Random(random.seed())));
    return true;
  }

  #backUp(): void {
    const { scheduler, pool, leaseMs, isCalm } = this.#scene;
    if (isCalm()) return;
    for (const table of ['jobs', 'workers'] as const)
      this.#backups.push({ table, at: scheduler.now(), putBack: pool.services.backup(table) });
    if (this.#backups.length > 2 * KEPT) this.#backups.splice(2 * this.#random.below(KEPT), 2);
    scheduler.after(this.#random.between(1, leaseMs), () => this.#backUp());
  }

  #recover(random: Random): void {
    const { scheduler, pool, isCalm, tell } = this.#scene;
    const name = `recoverer-${++this.#operators}`;
    const client = pool.connect(name);
    tell(name, () => 'has the pool recovered');
    const begun = this.#restored;
    const again = () => this.#recover(random);
    client.pool.recover({ timeoutMs: RECOVER_TIMEOUT_MS }).then(
      (report) => {
        tell(name, () => `hears ${JSON.stringify(report)}`);
        // What was restored since, this one may not have seen.
        if (begun !== this.#restored) return again();
        this.#isRecovering = false;
        if (begun) this.#judge(report, begun);
      },
      (error: unknown) => {
        if (!(error instanceof PoolError)) throw error;
        tell(name, () => `hears ${error.message}`);
        again();
      },
    );
    if (isCalm() || !random.chance(0.4)) return;
    client.process.onDeath(() => scheduler.after(random.between(1, 5_000), again));
    scheduler.after(random.between(1, 60_000), () => client.process.kill());
  }

  #judge(report: RecoverReport, { at, endsLost }: Restored): void {
    const { checker, pool } = this.#scene;
    const { jobs, dispatches, workers } = pool.services;
    const undecided = new Set(report.undecided.map(({ workerId }) => workerId));
    for (const { process, key, dispatchId, fence, phase, isLost } of checker.liveHandlers()) {
      const row = workers.peek(process.name);
      const isAsked = row?.generation === report.generation && (row.state === 'active' || row.state === 'draining');
      if (phase !== 'up' || isLost || process.state !== 'running' || !isAsked || undecided.has(process.name)) continue;
      const job = jobs.peek(key);
      const isKnown = job !== undefined && (job.fence > fence || (job.fence === fence && job.dispatchId === dispatchId));
      const runs = () => `${process.name} runs "${key}" for ${dispatchId} under fence ${fence}, and the record is ${JSON.stringify(job)}`;
      if (!checker.isOrphanSince(key, at)) checker.check(isKnown, 'what runs in a recovered pool is on record', runs);
    }
    const named = new Set([...report.again, ...report.lost].map(({ dispatchId }) => dispatchId));
    for (const { dispatchId, outcome } of endsLost) {
      const record = dispatches.peek(dispatchId);
      // Where it is another one, its record was deleted meanwhile, and it was asked for once more.
      const isLost = record?.status === 'started' && isSame(record.outcome, outcome);
      const isBack = !isLost || named.has(dispatchId);
      const what = () => `dispatch ${dispatchId} had ended, is ${JSON.stringify(record)}, and not in ${JSON.stringify(report)}`;
      checker.check(isBack, 'an end that was lost is back in a recovered pool, or reported', what);
    }
    checker.recovered(at);
  }
}
