import type { WorkerEvent } from 'holdfast/worker';
import { Child, type ChildOptions } from './child.ts';
import type { Relay } from './relay.ts';
import type { Mishap } from './scenario.ts';
import type { Spread } from './verdict.ts';

const leaveMs = 40_000;

/** What a worker ends with that finds jobs of its own alive after its lease. */
export const overrun = 70;

/** A worker's process, its id, and its own way to the endpoint where it has one. */
export class WorkerProcess extends Child {
  readonly workerId: string;
  readonly relay: Relay | undefined;

  constructor(options: ChildOptions, workerId: string, relay: Relay | undefined) {
    super(options);
    this.workerId = workerId;
    this.relay = relay;
    void this.ended.then(() => relay?.[Symbol.dispose]());
  }

  /** A worker that was not given the time to keep its lease does as it should, and is not what there is to see to. */
  override async diesEarly(): Promise<never> {
    return (await this.ended) === overrun ? new Promise(() => undefined) : super.diesEarly();
  }
}

interface Run {
  readonly workerId: string;
  readonly dispatchId: string;
}

interface Loss extends Run {
  readonly at: number;
  /** Absent: the worker lost its lease with nobody's help. */
  readonly by?: Mishap;
}

/**
 * The worker processes of a run, and what they say of themselves. The demo is their supervisor: it names each by an id, and sees to it that an
 * id has one process at a time.
 */
export class Workers {
  readonly #launch: (name: string) => Promise<WorkerProcess>;
  readonly #overran: (worker: WorkerProcess) => void;
  /** Whether each has registered. */
  readonly #present = new Map<WorkerProcess, boolean>();
  readonly #started: Record<string, number> = {};
  readonly #handedBack: string[] = [];
  /** By key: what runs, and what ran on a worker that was lost and has not been started again. */
  readonly #runs = new Map<string, Run>();
  readonly #lost = new Map<string, Loss>();
  readonly #reowned: { readonly by?: Mishap; readonly ms: number }[] = [];
  #launched = 0;

  /** `overran`: told of a worker that ended itself because its jobs outlived its lease, with nobody's help. Another one is to take its place. */
  constructor(launch: (name: string) => Promise<WorkerProcess>, overran: (worker: WorkerProcess) => void) {
    this.#launch = launch;
    this.#overran = overran;
  }

  async add(): Promise<void> {
    this.#launched += 1;
    await this.#start(`worker-${this.#launched}`);
  }

  /** Starts another process in the place of one that is gone, under the same id. */
  async restart({ name }: WorkerProcess): Promise<void> {
    await this.#start(name);
  }

  /** Tells a worker to leave, the oldest one unless another is named, and waits until it has: in good order, or this throws. */
  async leave(worker = this.processes[0]): Promise<void> {
    if (!worker) return;
    const code = await worker.end(leaveMs);
    if (code !== 0) throw worker.failure(`was told to leave and ended with exit code ${code}`);
    this.#present.delete(worker);
  }

  /** What runs there is lost from this moment on; answers how much that is. */
  lose({ workerId }: Pick<WorkerProcess, 'workerId'>, by?: Mishap): number {
    const at = performance.now();
    const lost = [...this.#runs].filter(([, run]) => run.workerId === workerId);
    for (const [key, run] of lost) {
      this.#lost.set(key, { ...run, at, by });
      this.#runs.delete(key);
    }
    return lost.length;
  }

  /** The process is gone, and whatever it may still have started. */
  bury(worker: WorkerProcess): void {
    this.lose(worker);
    this.#present.delete(worker);
  }

  /** Those that have not left. */
  get processes(): readonly WorkerProcess[] {
    return [...this.#present.keys()];
  }

  /** The one with the most jobs. Throws where none is left. */
  get busiest(): WorkerProcess {
    const jobs = Map.groupBy(this.#runs.values(), ({ workerId }) => workerId);
    const count = ({ workerId }: WorkerProcess) => jobs.get(workerId)?.length ?? 0;
    return this.processes.reduce((busiest, worker) => (count(worker) > count(busiest) ? worker : busiest));
  }

  /** Whether every one of them is among the workers that the pool gives jobs to. */
  areAmong(ready: readonly string[]): boolean {
    return [...this.#present].every(([{ workerId }, hasRegistered]) => hasRegistered && ready.includes(workerId));
  }

  /** How many jobs each one started, those that are gone included. */
  get started(): Readonly<Record<string, number>> {
    return { ...this.#started };
  }

  /** The key of each job that was handed back, as often as it was. */
  get handedBack(): readonly string[] {
    return [...this.#handedBack];
  }

  get running(): ReadonlySet<string> {
    return new Set(this.#runs.keys());
  }

  /** How many jobs another owner started again because theirs was lost. */
  get reowned(): number {
    return this.#reowned.length;
  }

  /** Whether all that was lost by it was started again. */
  hasRecoveredFrom(mishap: Mishap): boolean {
    return ![...this.#lost.values()].some(({ by }) => by === mishap);
  }

  /** How long that took, in leases. */
  recovery(leaseMs: number): Readonly<Partial<Record<Mishap, Spread>>> {
    const all = Map.groupBy(this.#reowned, ({ by }) => by);
    return Object.fromEntries([...all].flatMap(([by, of]) => (by ? [[by, spreadOf(of.map(({ ms }) => ms / leaseMs))]] : [])));
  }

  async #start(name: string): Promise<void> {
    const worker = await this.#launch(name);
    this.#present.set(worker, false);
    worker.process.on('message', (event: WorkerEvent) => this.#note(worker, event));
    void worker.ended.then((code) => {
      if (code !== overrun || worker.mayEnd) return;
      this.bury(worker);
      this.#overran(worker);
    });
  }

  #note(worker: WorkerProcess, event: WorkerEvent): void {
    const { workerId } = event;
    switch (event.type) {
      case 'registered':
        this.#present.set(worker, true);
        this.#started[workerId] ??= 0;
        break;
      case 'lease-lost':
        this.lose(worker);
        break;
      case 'job-started':
        this.#started[workerId] = (this.#started[workerId] ?? 0) + 1;
        this.#noteStart(event.key, { workerId, dispatchId: event.dispatchId });
        break;
      case 'job-released':
        // One that was released because its lease was lost goes to whoever is given it: this worker cannot hand it back.
        if (event.reason === 'worker-draining') this.#handedBack.push(event.key);
        this.#isOver(event.key, workerId);
        break;
      case 'job-stopped':
      case 'job-ended':
        this.#isOver(event.key, workerId);
        break;
    }
  }

  #noteStart(key: string, run: Run): void {
    this.#runs.set(key, run);
    const lost = this.#lost.get(key);
    this.#lost.delete(key);
    if (lost?.dispatchId === run.dispatchId) this.#reowned.push({ by: lost.by, ms: performance.now() - lost.at });
  }

  #isOver(key: string, workerId: string): void {
    // What two workers say may arrive in another order than it happened.
    if (this.#runs.get(key)?.workerId === workerId) this.#runs.delete(key);
  }
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number) => Math.round((sorted[Math.floor((sorted.length - 1) * part)] ?? Number.NaN) * 100) / 100;
  return { min: at(0), median: at(0.5), max: at(1) };
}
