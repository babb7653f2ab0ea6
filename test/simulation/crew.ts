import type { MemoryWorker } from '../../lib/testing/memory-pool.ts';
import type { Process } from '../../lib/testing/process.ts';
import { Random } from '../../lib/testing/random.ts';
import { inWords } from '../../lib/testing/story.ts';
import { watched } from '../../lib/testing/watched.ts';
import { moodyHandler, Resource } from './behaviour.ts';
import type { Scene } from './scene.ts';

/** The workers of a world: whoever dies or leaves is replaced before long, by a new one or, as under a supervisor, by one of the same id. */
export class Crew {
  readonly #scene: Scene;
  readonly #random: Random;
  readonly #hasStableIds: boolean;
  readonly #wanted: number;
  readonly #capacity: number;
  readonly #resource = new Resource();
  readonly #workers = new Set<MemoryWorker>();
  /** Whoever comes back under its id, and after how long. */
  readonly #returning = new Map<string, number>();
  #made = 0;

  constructor(scene: Scene, options: { readonly random: Random; readonly wanted: number; readonly capacity: number }) {
    this.#scene = scene;
    this.#random = options.random;
    this.#hasStableIds = options.random.chance(0.3);
    this.#wanted = options.wanted;
    this.#capacity = options.capacity;
  }

  get workers(): readonly MemoryWorker[] {
    return [...this.#workers];
  }

  fill(): void {
    while (this.#workers.size < this.#wanted) this.#hire();
  }

  /** Its process dies, and another one is there before long under the same id. */
  restart(process: Process, afterMs: number): void {
    this.#returning.set(process.name, afterMs);
    process.kill();
  }

  /** Somebody is there, and nobody stands still. */
  calm(): void {
    for (const { process } of this.#workers) process.resume();
    if (this.#workers.size === 0) this.#hire();
  }

  #hire(workerId = `w${++this.#made}`): void {
    const { checker, pool, tell } = this.#scene;
    const random = new Random(this.#random.seed());
    const skewMs = random.between(-3_000, 3_000);
    let worker: MemoryWorker | undefined;
    const process = () => (worker as MemoryWorker).process;
    const handler = moodyHandler(process, { ...this.#scene, random, resource: this.#resource });
    worker = pool.startWorker({
      workerId,
      handler: watched(handler, process, checker, tell),
      capacity: this.#capacity,
      skewMs,
      onEvent: ({ workerId: _, ...event }) => {
        // Heartbeats that go well are most of what happens, and tell nothing.
        if (event.type !== 'renewed') tell(workerId, () => inWords(event));
      },
    });
    const { runtime } = worker;
    const hired = worker;
    this.#workers.add(hired);
    tell(workerId, () => `is there, its clock off by ${skewMs} ms`);
    process().onDeath(() => {
      this.#workers.delete(hired);
      tell(workerId, () => 'is gone');
      this.#replace(workerId);
    });
    runtime.start().catch(() => process().kill());
    void runtime.closed.then(() => process().kill());
  }

  #replace(workerId: string): void {
    const { scheduler, leaseMs } = this.#scene;
    const isReturning = this.#returning.has(workerId) || this.#hasStableIds;
    const afterMs = this.#returning.get(workerId) ?? this.#random.between(0, leaseMs);
    this.#returning.delete(workerId);
    scheduler.after(afterMs, () => {
      if (this.#workers.size < this.#wanted) this.#hire(isReturning ? workerId : undefined);
    });
  }
}
