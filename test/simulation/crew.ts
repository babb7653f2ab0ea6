import type { MemoryWorker } from '../../lib/testing/memory-pool.ts';
import { Random } from '../../lib/testing/random.ts';
import { inWords } from '../../lib/testing/story.ts';
import { watched } from '../../lib/testing/watched.ts';
import { moodyHandler, Resource } from './behaviour.ts';
import type { Scene } from './scene.ts';

/** The workers of a world: whoever dies or leaves is replaced before long. */
export class Crew {
  readonly #scene: Scene;
  readonly #wanted: number;
  readonly #capacity: number;
  readonly #resource = new Resource();
  readonly #workers = new Set<MemoryWorker>();
  #made = 0;

  constructor(scene: Scene, options: { readonly wanted: number; readonly capacity: number }) {
    this.#scene = scene;
    this.#wanted = options.wanted;
    this.#capacity = options.capacity;
  }

  get workers(): readonly MemoryWorker[] {
    return [...this.#workers];
  }

  fill(): void {
    while (this.#workers.size < this.#wanted) this.#hire();
  }

  /** Somebody is there, and nobody stands still. */
  calm(): void {
    for (const { process } of this.#workers) process.resume();
    if (this.#workers.size === 0) this.#hire();
  }

  #hire(): void {
    const { random: lots, scheduler, checker, pool, leaseMs, tell } = this.#scene;
    const workerId = `w${++this.#made}`;
    const random = new Random(lots.seed());
    const skewMs = random.between(-3_000, 3_000);
    let worker: MemoryWorker | undefined;
    const process = () => (worker as MemoryWorker).process;
    const handler = moodyHandler(process, { ...this.#scene, random, resource: this.#resource });
    worker = pool.startWorker({
      workerId,
      handler: watched(handler, process, checker, tell),
      capacity: this.#capacity,
      skewMs,
      onEvent: ({ workerId: _, ...event }) => tell(workerId, () => inWords(event)),
    });
    const { runtime } = worker;
    const hired = worker;
    this.#workers.add(hired);
    tell(workerId, () => `is there, its clock off by ${skewMs} ms`);
    process().onDeath(() => {
      this.#workers.delete(hired);
      tell(workerId, () => 'is gone');
      scheduler.after(lots.between(0, leaseMs), () => {
        if (this.#workers.size < this.#wanted) this.#hire();
      });
    });
    runtime.start().catch(() => process().kill());
    void runtime.closed.then(() => process().kill());
  }
}
