import type { Pool } from '../../lib/client/pool.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Process } from '../../lib/testing/process.ts';
import type { Random } from '../../lib/testing/random.ts';
import { encodeRequest, parseRequest } from '../../lib/wire/index.ts';
import type { Scene } from './scene.ts';

/** A request that failed so often without a fault will not succeed. */
const HOPELESS = 8;
const STOP_AGAIN_MS = 120_000;

/**
 * Whoever sees to the pool: puts back what was dead-lettered, sees to workers, moves jobs, closes the pool, deploys it with another lease.
 * What a client can do is done by one, over the network, and now and then its process dies over it.
 */
export class Operator {
  readonly #scene: Scene;
  readonly #tried = new Map<string, number>();
  readonly #stoppedAt = new Map<string, number>();
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

  /** Puts back what was dead-lettered, however old it is by now; not what can never be read. False: there was nothing. */
  redrive(): boolean {
    const { isCalm, pool, tell } = this.#scene;
    const { deadRequests, deadReports, requests, reports } = pool.services;
    let redriven = 0;
    for (const { body, group } of deadRequests.takeAll()) {
      if (!parseRequest(body).ok || group === undefined || (isCalm() && this.#isGivenUp(body))) continue;
      tell('operator', () => `redrives ${body}`);
      redriven += 1;
      requests.send({ body, group, deduplicationId: `redrive-${++this.#operations}` });
    }
    for (const { body } of deadReports.takeAll()) {
      if (isCalm() && this.#isGivenUp(body)) continue;
      tell('operator', () => `redrives ${body}`);
      redriven += 1;
      reports.send({ body });
    }
    return redriven > 0;
  }

  /** Has a worker asked what it runs, and does not wait for the answer. */
  resync(workerId: string): void {
    const { machine, workers } = this.#scene.pool.services;
    const row = workers.peek(workerId);
    if (row) void machine.start(`operator-${++this.#operations}`, { worker: row.workerId, session: row.session });
  }

  /** Sees to one worker. */
  see(workerId: string, random: Random): true {
    const deed = random.pick(['resync', 'resync', 'resync', 'resync', 'evict', 'drain'] as const);
    const process = this.#see(workerId, deed, random.between(1, 3 * this.#scene.leaseMs));
    if (random.chance(0.4)) this.#scene.scheduler.after(random.between(1, 40), () => process.kill());
    return true;
  }

  evict(workerId: string): void {
    this.#see(workerId, 'evict', this.#scene.leaseMs);
  }

  #see(workerId: string, deed: 'resync' | 'evict' | 'drain', timeoutMs: number): Process {
    const { pool, tell } = this.#scene;
    const wait = { timeoutMs };
    const name = `operator-${++this.#operations}`;
    const client = pool.connect(name);
    const handle = client.pool.worker(workerId);
    tell(name, () => `${deed}s ${workerId}`);
    (deed === 'evict' ? handle.evict() : handle[deed](wait)).then(
      (report) => tell(name, () => `hears of ${deed} ${workerId}: ${JSON.stringify(report)}`),
      (error: unknown) => {
        if (!(error instanceof PoolError)) throw error;
        tell(name, () => `hears of ${deed} ${workerId}: ${error.message}`);
      },
    );
    return client.process;
  }

  /** Asks a job to move, now and then one that has moved on since. */
  move(key: string, random: Random): true {
    const { history, pool, tell } = this.#scene;
    const fence = Math.max(0, (pool.services.jobs.peek(key)?.fence ?? 0) - (random.chance(0.2) ? 1 : 0));
    tell('operator', () => `asks to move "${key}" under fence ${fence}`);
    history.moves(key, fence);
    pool.services.requests.send({
      body: encodeRequest({ op: 'move', key, fence }),
      group: key,
      deduplicationId: `move-${++this.#operations}`,
    });
    return true;
  }

  close(state: 'closed' | 'recovering', forMs: number): true {
    if (state === 'closed') this.#scene.history.poolCloses();
    const { scheduler, pool, tell } = this.#scene;
    tell('operator', () => `has the pool ${state} for ${forMs} ms`);
    this.#setPool(state);
    const { generation } = pool.services.workers.peekPool();
    // Not where it was recovered meanwhile, or is about to be.
    scheduler.after(forMs, () => this.open(generation));
    return true;
  }

  open(generation: number): void {
    const { isRecovering, pool } = this.#scene;
    if (!isRecovering() && pool.services.workers.peekPool().generation === generation) this.#setPool('open');
  }

  deploy(leaseMs: number): true {
    const { pool, tell } = this.#scene;
    tell('operator', () => `deploys the pool with a lease of ${leaseMs} ms`);
    pool.deploy({ leaseMs });
    return true;
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
    for (const { status, key, dispatchId } of jobs.all())
      if (status === 'assigned' && !dispatches.hasPayload(dispatchId)) this.#stopNowAndAgain(key, dispatchId);
  }

  /** What was not on record when all was stopped has not heard of it. */
  stopWhatWasRestored(): void {
    const { checker, pool } = this.#scene;
    for (const { status, key, dispatchId, fence } of pool.services.jobs.all())
      if (status === 'running' && checker.isOrphan(key, fence)) this.#stopNowAndAgain(key, dispatchId);
  }

  #stopNowAndAgain(key: string, dispatchId: string): void {
    const now = this.#scene.scheduler.now();
    if (now < (this.#stoppedAt.get(dispatchId) ?? Number.NEGATIVE_INFINITY) + STOP_AGAIN_MS) return;
    this.#stoppedAt.set(dispatchId, now);
    this.#stop(key);
  }

  /**
   * A stop of what is not on record, or whatever has to do with a start whose record or payload is gone, is tried again for a quarter of an
   * hour and blocks its key: nobody waits so long for what cannot be.
   */
  forgetTheHopeless(): void {
    const { checker, pool } = this.#scene;
    const { requests, jobs, dispatches } = pool.services;
    const first = new Map(
      requests
        .messages()
        .toReversed()
        .map(({ group, id }) => [group, id]),
    );
    const taken = requests.takeAll(({ id, group = '', body, receiveCount }) => {
      if (receiveCount < HOPELESS || first.get(group) !== id) return false;
      const job = jobs.peek(group);
      const cannotStart = job?.status === 'assigned' && !dispatches.hasPayload(job.dispatchId);
      return cannotStart || body.includes('"op":"stop"');
    });
    for (const { body } of taken) checker.requestLost(body);
  }

  #setPool(state: 'open' | 'closed' | 'recovering'): void {
    const { workers } = this.#scene.pool.services;
    workers.setPool({ state, generation: workers.peekPool().generation });
  }

  #stop(key: string): void {
    const acknowledged = this.#scene.history.asks({ type: 'stop', key });
    this.#operate((pool) => pool.stop(key).then(acknowledged));
  }

  #operate(act: (pool: Pool) => Promise<unknown>): void {
    const { pool } = this.#scene.pool.connect(`operator-${++this.#operations}`);
    this.#operating += 1;
    const heard = (error?: unknown) => {
      this.#operating -= 1;
      this.#scene.checker.check(error === undefined, 'an operator is heard once nothing fails', () => `it hears ${error}`);
    };
    act(pool).then(() => heard(), heard);
  }

  /** Whether it did the same already, and there is no hope. */
  #isGivenUp(what: string): boolean {
    const times = this.#tried.get(what) ?? 0;
    this.#tried.set(what, times + 1);
    return times >= 1;
  }
}
