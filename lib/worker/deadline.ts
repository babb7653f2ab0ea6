import type { Timer } from '../pool/ports.ts';
import type { WorkerClock } from './ports.ts';

export interface Time {
  readonly clock: WorkerClock;
  readonly timer: Timer;
}

/** A moment by which something should have happened. It can only come nearer, and it has come once one of those above it has. Cancel what is done. */
export class Deadline {
  readonly #time: Time;
  readonly #controller = new AbortController();
  readonly #above: readonly Deadline[];
  // Kept by hand: signals made by `AbortSignal.any` live, listeners and all, as long as their sources do, and those live as long as the worker.
  readonly #below = new Set<Deadline>();
  #at = Number.POSITIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  constructor(time: Time, inMs = Number.POSITIVE_INFINITY, above: readonly Deadline[] = []) {
    this.#time = time;
    this.#above = above;
    for (const each of above) each.#below.add(this);
    if (above.some(({ isPast }) => isPast)) this.#pass();
    else this.tighten(inMs);
  }

  /** Fires when the moment has come. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isPast(): boolean {
    return this.signal.aborted;
  }

  /** Resolves when the moment has come; never, where it is cancelled before. */
  get passed(): Promise<void> {
    if (this.isPast) return Promise.resolve();
    return new Promise((resolve) => {
      this.signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  tighten(inMs: number): void {
    const at = this.#time.clock.monotonic() + inMs;
    if (at >= this.#at || this.isPast) return;
    this.#at = at;
    this.#cancelTimer();
    if (inMs <= 0) this.#pass();
    else this.#cancelTimer = this.#time.timer.after(inMs, () => this.#pass());
  }

  cancel(): void {
    this.#cancelTimer();
    for (const each of this.#above) each.#below.delete(this);
  }

  #pass(): void {
    if (this.isPast) return;
    this.cancel();
    this.#controller.abort();
    for (const each of [...this.#below]) each.#pass();
  }
}

/** Waits for `work`, but not beyond the deadline nor longer than that. */
export async function atMost(time: Time, ms: number, work: Promise<unknown>, above: readonly Deadline[] = []): Promise<void> {
  const deadline = new Deadline(time, ms, above);
  await Promise.race([work, deadline.passed]);
  deadline.cancel();
}
