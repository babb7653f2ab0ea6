import type { WorkerEvent } from 'holdfast/worker';
import type { Child } from './child.ts';

const leaveMs = 40_000;

/** The worker processes of a run, and what they say of themselves. */
export class Workers {
  readonly #launch: (name: string) => Child;
  /** Worker ids by process; undefined until it has registered. */
  readonly #present = new Map<Child, string | undefined>();
  readonly #started: Record<string, number> = {};
  readonly #handedBack: string[] = [];
  /** Worker ids by key of what runs. */
  readonly #runs = new Map<string, string>();
  #launched = 0;

  constructor(launch: (name: string) => Child) {
    this.#launch = launch;
  }

  add(): void {
    this.#launched += 1;
    const child = this.#launch(`worker-${this.#launched}`);
    this.#present.set(child, undefined);
    child.process.on('message', (event: WorkerEvent) => this.#note(child, event));
  }

  /** Tells a worker to leave, the oldest one unless another is named, and waits until it has: in good order, or this throws. */
  async leave(worker = this.processes[0]): Promise<void> {
    if (!worker) return;
    const code = await worker.end(leaveMs);
    if (code !== 0) throw worker.failure(`was told to leave and ended with exit code ${code}`);
    this.#present.delete(worker);
  }

  /** Those that have not left. */
  get processes(): readonly Child[] {
    return [...this.#present.keys()];
  }

  /** Whether every one of them is among the workers that the pool gives jobs to. */
  areAmong(ready: readonly string[]): boolean {
    return [...this.#present.values()].every((id) => id !== undefined && ready.includes(id));
  }

  /** How many jobs each one started, those that have left included. */
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

  #note(child: Child, event: WorkerEvent): void {
    const { workerId } = event;
    switch (event.type) {
      case 'registered':
        this.#present.set(child, workerId);
        this.#started[workerId] ??= 0;
        break;
      case 'job-started':
        this.#started[workerId] = (this.#started[workerId] ?? 0) + 1;
        this.#runs.set(event.key, workerId);
        break;
      case 'job-released':
        this.#handedBack.push(event.key);
        this.#isOver(event.key, workerId);
        break;
      case 'job-stopped':
      case 'job-ended':
        this.#isOver(event.key, workerId);
        break;
    }
  }

  #isOver(key: string, workerId: string): void {
    // What two workers say may arrive in another order than it happened.
    if (this.#runs.get(key) === workerId) this.#runs.delete(key);
  }
}
