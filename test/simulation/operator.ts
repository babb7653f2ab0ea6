import type { Pool } from '../../lib/client/pool.ts';
import { executionName } from '../../lib/resync/run-round.ts';
import { encodeRequest, parseRequest } from '../../lib/wire/index.ts';
import type { Scene } from './scene.ts';

/** Whoever sees to the pool: puts back what was dead-lettered, has workers asked what they run, moves jobs, closes the pool. */
export class Operator {
  readonly #scene: Scene;
  readonly #tried = new Map<string, number>();
  #operations = 0;
  #operating = 0;
  #nextAsk = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** Whether anything that it was asked to do is not done yet. */
  get isAtWork(): boolean {
    return this.#operating > 0;
  }

  stopAll(): void {
    for (const key of this.#scene.keys) this.#stop(key);
  }

  /** Puts back what was dead-lettered, however old it is by now; not what can never be read. */
  redrive(): void {
    const { faults, isCalm, pool, tell } = this.#scene;
    const { deadRequests, deadReports, requests, reports } = pool.services;
    for (const { body, group } of deadRequests.takeAll()) {
      if (!parseRequest(body).ok || group === undefined || (isCalm() && this.#isGivenUp(body))) continue;
      tell('operator', () => `redrives ${body}`);
      faults.count('redriven');
      requests.send({ body, group, deduplicationId: `redrive-${++this.#operations}` });
    }
    for (const { body } of deadReports.takeAll()) {
      if (isCalm() && this.#isGivenUp(body)) continue;
      tell('operator', () => `redrives ${body}`);
      faults.count('redriven');
      reports.send({ body });
    }
  }

  resync(workerId: string | undefined): void {
    const { machine, workers } = this.#scene.pool.services;
    const row = workers.peek(workerId ?? '');
    if (row) void machine.start(executionName(row, this.#scene.scheduler.now()), { worker: row.workerId, session: row.session });
  }

  /** Asks a job to move, now and then one that has moved on since. */
  move(): void {
    const { random, keys, pool, tell } = this.#scene;
    const key = random.pick(keys);
    const fence = Math.max(0, (pool.services.jobs.peek(key)?.fence ?? 0) - (random.chance(0.2) ? 1 : 0));
    tell('operator', () => `asks to move "${key}" under fence ${fence}`);
    pool.services.requests.send({
      body: encodeRequest({ op: 'move', key, fence }),
      group: key,
      deduplicationId: `move-${++this.#operations}`,
    });
  }

  close(forMs: number): void {
    const { random, scheduler, pool, tell } = this.#scene;
    const { workers } = pool.services;
    const state = random.pick(['closed', 'recovering'] as const);
    tell('operator', () => `has the pool ${state} for ${forMs} ms`);
    workers.setPool({ state, generation: 1 });
    scheduler.after(forMs, () => workers.setPool({ state: 'open', generation: 1 }));
  }

  /** Asks everybody, now and again: what was lost for good is found out by asking, and an audit would do so within the hour. */
  ask(): void {
    const { scheduler, leaseMs, pool } = this.#scene;
    const now = scheduler.now();
    if (now < this.#nextAsk) return;
    this.#nextAsk = now + Math.max(60_000, 4 * leaseMs);
    for (const { workerId, state } of pool.services.workers.all()) if (state === 'active') this.resync(workerId);
  }

  /** What was lost of a dispatch that nobody runs is lost for good, and its job waits for its start until it is stopped. */
  stopWhatCannotStart(): void {
    const { jobs, dispatches } = this.#scene.pool.services;
    for (const { status, key, dispatchId } of jobs.all()) {
      if (status !== 'assigned' || dispatches.hasPayload(dispatchId) || this.#isGivenUp(`start of ${dispatchId}`)) continue;
      this.#stop(key);
    }
  }

  #stop(key: string): void {
    this.#scene.checker.stopAsked(key);
    this.#operate((pool) => pool.stop(key));
  }

  #operate(act: (pool: Pool) => Promise<unknown>): void {
    const { pool } = this.#scene.pool.connect(`operator-${++this.#operations}`);
    this.#operating += 1;
    act(pool).then(
      () => {
        this.#operating -= 1;
      },
      (error: unknown) => this.#scene.fail('G8 any order', `without faults an operator hears ${error}`),
    );
  }

  /** Whether it did the same already, and there is no hope. */
  #isGivenUp(what: string): boolean {
    const times = this.#tried.get(what) ?? 0;
    this.#tried.set(what, times + 1);
    return times >= 1;
  }
}
