import type { Timer } from '../pool/ports.ts';
import type { WorkerClock } from './ports.ts';

export interface Time {
  readonly clock: WorkerClock;
  readonly timer: Timer;
}

/** A moment by which something should have happened. It can only come nearer, and it has come once one of those above it has. */
export class Deadline {
  /** Fires when the moment has come. */
  readonly signal: AbortSignal;
  readonly #time: Time;
  readonly #own = new AbortController();
  #at = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};

  constructor(time: Time, inMs = Number.POSITIVE_INFINITY, above: readonly Deadline[] = []) {
    this.#time = time;
    this.signal = AbortSignal.any([this.#own.signal, ...above.map(({ signal }) => signal)]);
    this.tighten(inMs);
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
    this.#cancel();
    this.#at = at;
    if (inMs <= 0) this.#own.abort();
    else if (inMs < Number.POSITIVE_INFINITY) this.#cancel = this.#time.timer.after(inMs, () => this.#own.abort());
  }

  cancel(): void {
    this.#cancel();
  }
}

/** Waits for `work`, but not beyond the deadline nor longer than that. */
export async function atMost(time: Time, ms: number, work: Promise<unknown>, above: readonly Deadline[] = []): Promise<void> {
  const deadline = new Deadline(time, ms, above);
  await Promise.race([work, deadline.passed]);
  deadline.cancel();
}
