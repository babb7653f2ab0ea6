import { isOwned, type Job } from '../../lib/pool/job.ts';
import type { MemoryWorker } from '../../lib/testing/memory-pool.ts';
import type { Process } from '../../lib/testing/process.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Crew } from './crew.ts';
import type { Operator } from './operator.ts';
import type { MishapKind } from './profiles.ts';
import type { Restorations } from './restorations.ts';
import type { Scene } from './scene.ts';
import type { Asked, Workload } from './workload.ts';

export interface MishapsOptions {
  readonly random: Random;
  readonly crew: Crew;
  readonly operator: Operator;
  readonly restorations: Restorations;
  readonly clients: readonly Workload[];
  readonly asked: ReadonlyMap<string, Asked>;
}

/** What happens by itself now and then, until it is calm: to processes, to messages and records, and by the hand of an operator. */
export class Mishaps {
  readonly #scene: Scene;
  readonly #options: MishapsOptions;
  #badMessages = 0;

  constructor(scene: Scene, options: MishapsOptions) {
    this.#scene = scene;
    this.#options = options;
    for (const [kind, mean] of Object.entries(scene.conditions.mishaps))
      this.#nowAndThen(kind as MishapKind, mean * scene.leaseMs, new Random(options.random.seed()));
  }

  #nowAndThen(kind: MishapKind, meanMs: number, lots: Random): void {
    const { scheduler, incidents, faults, isCalm } = this.#scene;
    scheduler.after(lots.between(1, Math.round(2 * meanMs)), () => {
      if (isCalm()) return;
      const random = new Random(lots.seed());
      if (incidents.happens(kind) && this.#happens(kind, random)) faults.count(kind);
      this.#nowAndThen(kind, meanMs, lots);
    });
  }

  /** False where there was nothing for it to happen to. */
  #happens(kind: MishapKind, random: Random): boolean {
    const { operator, crew, restorations } = this.#options;
    const { leaseMs, pool } = this.#scene;
    const forMs = random.between(1, Math.round(leaseMs * random.pick([0.1, 0.5, 1, 3])));
    switch (kind) {
      case 'redrive':
        return operator.redrive();
      case 'purge':
        return this.#purge(random);
      case 'loseInbox':
        return this.#loseInbox(random);
      case 'badMessage':
        return this.#badMessage(random);
      case 'move':
        return operator.move(random.pick(this.#scene.keys), random);
      case 'close':
        return !restorations.isRecovering && operator.close(random.pick(['closed', 'recovering'] as const), forMs);
      case 'deploy':
        return operator.deploy(random.pick([3_000, leaseMs, 2 * leaseMs]));
      case 'loseRecord':
        return this.#loseAnyRecord(random);
      case 'restoreTable':
        return restorations.restore(random);
      case 'operator': {
        const rows = pool.services.workers.all();
        return rows.length > 0 && operator.see(random.pick(rows).workerId, random);
      }
      case 'kill':
      case 'restart':
      case 'freeze':
      case 'cutOff':
      case 'drain':
      case 'setClock':
        if (crew.workers.length === 0) return false;
        this.befalls(random.pick(crew.workers), kind, forMs, random);
        return true;
      default:
        return kind satisfies never;
    }
  }

  /** One of those that happen to a process, for so long where it passes. */
  befalls(
    { process, runtime }: MemoryWorker,
    kind: 'kill' | 'restart' | 'freeze' | 'cutOff' | 'drain' | 'setClock',
    forMs: number,
    random: Random,
  ): void {
    const { tell } = this.#scene;
    switch (kind) {
      case 'kill':
        process.kill();
        return;
      case 'restart':
        this.#options.crew.restart(process, random.between(0, 500));
        return;
      case 'freeze':
        this.#freeze(process, forMs, random.chance(0.5));
        return;
      case 'cutOff':
        this.#cutOff(process, forMs, random.pick([['registry'], ['inbox'], ['reports'], ['registry', 'inbox', 'reports']]));
        return;
      case 'drain': {
        const deadlineMs = random.between(1_000, 25_000);
        tell(process.name, () => `is asked to drain within ${deadlineMs} ms`);
        process.deliver(() => void runtime.drain({ deadlineMs }));
        return;
      }
      case 'setClock': {
        const byMs = random.between(-20_000, 20_000);
        tell(process.name, () => `has its clock set by ${byMs} ms`);
        process.setClock(byMs);
        return;
      }
      default:
        kind satisfies never;
    }
  }

  #freeze(process: Process, forMs: number, suspended: boolean): void {
    const { scheduler, tell } = this.#scene;
    tell(process.name, () => `is ${suspended ? 'suspended' : 'stopped'} for ${forMs} ms`);
    process.freeze({ suspended });
    scheduler.after(forMs, () => process.resume());
  }

  #cutOff(process: Process, forMs: number, services: readonly string[]): void {
    const { scheduler, faults, tell } = this.#scene;
    tell(process.name, () => `is cut off from ${services.join(', ')} for ${forMs} ms`);
    for (const service of services) {
      faults.cutOff(process, service);
      scheduler.after(forMs, () => faults.letThrough(process, service));
    }
  }

  /** Somebody purges a queue: reports and commands, now and then requests or what was dead-lettered. */
  #purge(random: Random): boolean {
    const { checker, pool, tell } = this.#scene;
    const { requests, reports, deadRequests, deadReports, inboxes, workers } = pool.services;
    const inbox = inboxes.queue(workers.all().length === 0 ? '' : random.pick(workers.all()).session);
    const queue = random.pick([reports, reports, inbox ?? reports, inbox ?? reports, requests, deadRequests, deadReports]);
    const purged = queue.takeAll();
    for (const { body } of purged) {
      tell('somebody', () => `purges ${body} from ${queue.name}`);
      if (queue === requests || queue === deadRequests) checker.requestLost(body);
    }
    return purged.length > 0;
  }

  #loseInbox(random: Random): boolean {
    const { pool, tell } = this.#scene;
    const { inboxes, workers } = pool.services;
    const rows = workers.all().filter(({ state }) => state === 'active' || state === 'draining');
    if (rows.length === 0) return false;
    const { workerId, session } = random.pick(rows);
    tell('somebody', () => `deletes the inbox of ${workerId}, session ${session}`);
    void inboxes.remove(session);
    return true;
  }

  /**
   * Somebody deletes a record, or a bug does; mostly of a job that runs. Often its worker is asked before long what it runs, or the key is
   * wanted for something else.
   */
  #loseAnyRecord(random: Random): boolean {
    const all = this.#scene.pool.services.jobs.all();
    const owned = random.chance(0.7) ? all.filter(isOwned) : [];
    if (all.length === 0) return false;
    return this.loseRecord(random.pick<Job>(owned.length > 0 ? owned : all).key, random);
  }

  loseRecord(key: string, random: Random): boolean {
    const { scheduler, leaseMs, pool, tell } = this.#scene;
    const { operator, clients } = this.#options;
    const { jobs, dispatches } = pool.services;
    const job = jobs.peek(key);
    if (!job) return false;
    const { dispatchId } = job;
    const what = random.pick([
      'job',
      'job',
      'dispatch',
      'payload',
      'job and dispatch',
      ...(job.next ? (['next', 'next'] as const) : []),
    ] as const);
    tell('somebody', () => `deletes of "${key}" and dispatch ${dispatchId}: ${what}`);
    if (what === 'payload') dispatches.deletePayload(dispatchId);
    if (what === 'next' && job.next) dispatches.delete(job.next);
    if (what.endsWith('dispatch')) dispatches.delete(dispatchId);
    if (what.startsWith('job')) jobs.delete(key);
    const soonMs = () => random.between(0, leaseMs * random.pick([0.02, 0.2, 2]));
    if (isOwned(job) && random.chance(0.7)) scheduler.after(soonMs(), () => operator.resync(job.owner.worker));
    const client = random.pick(clients);
    if (random.chance(0.5)) scheduler.after(soonMs(), () => client.ask('start', key));
    if (random.chance(0.5)) scheduler.after(soonMs(), () => client.ask('start', key, { dispatchId }));
    return true;
  }

  /** What does not parse is refused, and disturbs neither its neighbours nor the dispatch that it names. */
  #badMessage(random: Random): boolean {
    const { keys, pool } = this.#scene;
    const key = random.pick(keys);
    const known = [...this.#options.asked.keys()];
    const dispatchId = known.length > 0 && random.chance(0.7) ? random.pick(known) : `bad-${++this.#badMessages}`;
    const body = random.pick([
      'not json',
      '{}',
      '{"v":99}',
      JSON.stringify({ v: 1, op: 'start', key, dispatchId, payload: 'p', mispelt: true }),
    ]);
    pool.services.requests.send({ body, group: key, deduplicationId: `bad-message-${++this.#badMessages}` });
    return true;
  }
}
