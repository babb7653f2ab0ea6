import type { RecoverReport, RecoverWait } from '../../lib/client/recover.ts';
import { type Dispatch, outcomeOf } from '../../lib/pool/dispatch.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Job } from '../../lib/pool/job.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Scene } from './scene.ts';

/** What of a restoration has to be seen again, or named, once the pool is recovered. */
interface Restored {
  readonly at: number;
  /** Nothing was assigned meanwhile: the pool was recovering already. */
  readonly isHeldBack: boolean;
  /** Dispatches whose end was on record, and which by what was put back are not over. */
  readonly endsLost: readonly Dispatch[];
}

interface Backup {
  readonly table: 'jobs' | 'workers';
  readonly at: number;
  readonly putBack: ReturnType<MemoryServices['backup']>;
}

const KEPT = 16;
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
  readonly #backups: Backup[] = [];
  #restored: Restored | undefined;
  #isRecovering = false;
  /** Restorations that no recovery had a hand in. */
  #surprises = 0;
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

  /** Has one table put back, or both: at once, or by the recovery itself, once nothing is assigned any more. False: there was no backup. */
  restore(random: Random): boolean {
    const { scheduler, leaseMs, checker } = this.#scene;
    // Restored once more before it was recovered, now and then.
    if (this.#backups.length === 0 || (this.#isRecovering && random.chance(0.95))) return false;
    const tables = random.pick([['jobs'], ['jobs'], ['workers'], ['jobs', 'workers']] as const);
    const backups = tables.map((table) => random.pick(this.#backups.filter((each) => each.table === table)));
    const isHeldBack = !this.#isRecovering && random.chance(0.5);
    const putBack = async () => checker.heldBack(() => this.#putBack(backups, true));
    if (!isHeldBack) {
      this.#surprises += 1;
      this.#putBack(backups, false);
      // Somebody notices that it was the wrong moment.
      if (random.chance(0.3)) scheduler.after(random.between(0, leaseMs), () => this.#putBackAgain(random));
    }
    if (this.#isRecovering) return true;
    this.#isRecovering = true;
    const afterMs = random.between(0, random.pick([100, leaseMs]));
    scheduler.after(afterMs, () => this.#recover(new Random(random.seed()), isHeldBack ? { putBack } : {}));
    return true;
  }

  #putBackAgain(random: Random): void {
    if (!this.#isRecovering || this.#scene.isCalm()) return;
    this.#surprises += 1;
    this.#putBack([random.pick(this.#backups)], false);
  }

  #putBack(backups: readonly Backup[], leavesPool: boolean): void {
    const { scheduler, pool, checker, tell } = this.#scene;
    const ended = pool.services.dispatches.all().filter(({ status }) => status === 'ended' || status === 'never-started');
    for (const { table, at, putBack } of backups) {
      const agoMs = scheduler.now() - at;
      tell('somebody', () => `restores the table of ${table} to ${agoMs} ms ago`);
      putBack({ leavesPool });
      if (table === 'workers') checker.rowsPutBack();
    }
    const { jobs, dispatches } = pool.services;
    // A start that is out, or due, is on its way before the recovery begins, where that does not put the table back itself.
    const live: readonly Job['status'][] = leavesPool ? ['running', 'assigned', 'pending'] : ['running'];
    const endsLost = ended.flatMap(({ dispatchId, key }) => {
      const job = jobs.peek(key);
      const record = dispatches.peek(dispatchId);
      const isLost = record?.status === 'started' || record?.status === 'admitted';
      return isLost && job?.dispatchId === dispatchId && live.includes(job.status) ? [record] : [];
    });
    this.#restored = { at: scheduler.now(), isHeldBack: leavesPool, endsLost };
  }

  #backUp(): void {
    const { scheduler, pool, leaseMs, isCalm } = this.#scene;
    if (isCalm()) return;
    for (const table of ['jobs', 'workers'] as const)
      this.#backups.push({ table, at: scheduler.now(), putBack: pool.services.backup(table) });
    if (this.#backups.length > 2 * KEPT) this.#backups.splice(2 * this.#random.below(KEPT), 2);
    scheduler.after(this.#random.between(1, 3 * leaseMs), () => this.#backUp());
  }

  #recover(random: Random, how: Pick<RecoverWait, 'putBack'>): void {
    const { scheduler, pool, isCalm, tell } = this.#scene;
    const name = `recoverer-${++this.#operators}`;
    const client = pool.connect(name);
    const surprises = this.#surprises;
    let isOver = false;
    const again = () => {
      if (!isOver) this.#recover(random, how);
      isOver = true;
    };
    tell(name, () => 'has the pool recovered');
    client.pool.recover({ timeoutMs: RECOVER_TIMEOUT_MS, ...how }).then(
      (report) => {
        tell(name, () => `hears ${JSON.stringify(report)}`);
        // What was restored since, this one may not have seen.
        if (surprises !== this.#surprises) return again();
        isOver = true;
        this.#isRecovering = false;
        if (this.#restored) this.#judge(report, this.#restored);
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

  #judge(report: RecoverReport, { at, isHeldBack, endsLost }: Restored): void {
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
    const named = new Set([...report.again, ...report.waiting, ...report.lost].map(({ dispatchId }) => dispatchId));
    for (const lost of endsLost) {
      const { dispatchId, key } = lost;
      if (checker.isOrphanSince(key, at)) continue;
      // The older record was acted upon before the recovery began, and what runs by it is all that the recovery finds.
      if (!isHeldBack && checker.wasAssignedBelow(report.generation, key, at)) continue;
      const record = dispatches.peek(dispatchId);
      // Where it is another one, its record was deleted meanwhile, and it was asked for once more.
      const isLost =
        record?.status === 'admitted' ||
        (record?.status === 'started' && (lost.status === 'admitted' || isSame(record.outcome, outcomeOf(lost))));
      const isBack = !isLost || named.has(dispatchId);
      const what = () => `dispatch ${dispatchId} had ended, is ${JSON.stringify(record)}, and not in ${JSON.stringify(report)}`;
      checker.check(isBack, 'an end that was lost is back in a recovered pool, or reported', what);
    }
    checker.recovered(at);
  }
}
