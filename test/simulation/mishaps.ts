import { isOwned, type Job } from '../../lib/pool/job.ts';
import type { Process } from '../../lib/testing/process.ts';
import type { Crew } from './crew.ts';
import type { Operator } from './operator.ts';
import type { MishapKind } from './profiles.ts';
import type { Scene } from './scene.ts';
import type { Asked } from './workload.ts';

export interface MishapsOptions {
  readonly crew: Crew;
  readonly operator: Operator;
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
    for (const [kind, mean] of Object.entries(scene.conditions.mishaps)) this.#nowAndThen(kind as MishapKind, mean * scene.leaseMs);
  }

  #nowAndThen(kind: MishapKind, meanMs: number): void {
    const { scheduler, random, isCalm } = this.#scene;
    scheduler.after(random.between(1, Math.round(2 * meanMs)), () => {
      if (isCalm()) return;
      this.#happen(kind);
      this.#nowAndThen(kind, meanMs);
    });
  }

  #happen(kind: MishapKind): void {
    const { random, leaseMs, faults, tell } = this.#scene;
    const { crew, operator } = this.#options;
    const worker = crew.workers.length === 0 ? undefined : random.pick(crew.workers);
    const forMs = random.between(1, Math.round(leaseMs * random.pick([0.1, 0.5, 1, 3])));
    switch (kind) {
      case 'redrive':
        operator.redrive();
        return;
      case 'badMessage':
        this.#badMessage();
        break;
      case 'resync':
        operator.resync(worker?.process.name);
        break;
      case 'move':
        operator.move();
        break;
      case 'loseRecord':
        this.#loseRecord();
        return;
      case 'close':
        operator.close(forMs);
        break;
      case 'kill':
        worker?.process.kill();
        break;
      case 'freeze':
        if (worker) this.#freeze(worker.process, forMs);
        break;
      case 'cutOff':
        if (worker) this.#cutOff(worker.process, forMs);
        return;
      case 'drain':
        tell(worker?.process.name ?? '', () => 'is asked to drain');
        worker?.process.deliver(() => void worker.runtime.drain({ deadlineMs: random.between(1_000, 25_000) }));
        break;
      case 'setClock': {
        const byMs = random.between(-20_000, 20_000);
        tell(worker?.process.name ?? '', () => `has its clock set by ${byMs} ms`);
        worker?.process.setClock(byMs);
        break;
      }
      default:
        kind satisfies never;
    }
    faults.count(kind);
  }

  #freeze(process: Process, forMs: number): void {
    const { random, scheduler, tell } = this.#scene;
    const suspended = random.chance(0.5);
    tell(process.name, () => `is ${suspended ? 'suspended' : 'stopped'} for ${forMs} ms`);
    process.freeze({ suspended });
    scheduler.after(forMs, () => process.resume());
  }

  #cutOff(process: Process, forMs: number): void {
    const { random, scheduler, faults, tell } = this.#scene;
    const services = random.pick([['registry'], ['inbox'], ['reports'], ['registry', 'inbox', 'reports']]);
    tell(process.name, () => `is cut off from ${services.join(', ')} for ${forMs} ms`);
    for (const service of services) {
      faults.cutOff(process, service);
      scheduler.after(forMs, () => faults.letThrough(process, service));
    }
  }

  /** Somebody deletes a record, or a bug does; mostly of a job that runs, whose worker is often asked before long what it runs. */
  #loseRecord(): void {
    const { random, scheduler, faults, leaseMs, pool, tell } = this.#scene;
    const { jobs, dispatches } = pool.services;
    const all = jobs.all();
    const owned = random.chance(0.7) ? all.filter(isOwned) : [];
    if (all.length === 0) return;
    const job = random.pick<Job>(owned.length > 0 ? owned : all);
    faults.count('loseRecord');
    const { key, dispatchId } = job;
    const what = random.pick(['job', 'job', 'dispatch', 'payload', 'job and dispatch'] as const);
    tell('somebody', () => `deletes of "${key}" and dispatch ${dispatchId}: ${what}`);
    if (what === 'payload') dispatches.deletePayload(dispatchId);
    if (what.endsWith('dispatch')) dispatches.delete(dispatchId);
    if (what.startsWith('job')) jobs.delete(key);
    if (isOwned(job) && random.chance(0.7))
      scheduler.after(random.between(0, 2 * leaseMs), () => this.#options.operator.resync(job.owner.worker));
  }

  /** What does not parse is refused, and disturbs neither its neighbours nor the dispatch that it names. */
  #badMessage(): void {
    const { random, keys, pool } = this.#scene;
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
  }
}
