import type { EpochMs } from '../pool/job.ts';
import type { Timer } from '../pool/ports.ts';
import type { WorkerClock } from '../worker/ports.ts';
import type { Scheduler } from './scheduler.ts';

export type ProcessKind = 'worker' | 'client' | 'function' | 'operator';

/**
 * Something that runs on its own: a worker, a client, one invocation of a function. It can be frozen and go on, or die.
 *
 * Whatever reaches it (an answer, a timer) goes through `deliver`: what comes while it is frozen waits until it goes on, and
 * what comes after its death reaches nobody, so that a promise of a dead process never settles.
 *
 * Two clocks, as on Linux. Stopped (SIGSTOP), both go on without it. Suspended (a paused machine), the monotonic clock and
 * with it the timers stand still, while the wall clock goes on.
 */
export class Process implements WorkerClock, Timer {
  readonly name: string;
  readonly kind: ProcessKind;
  readonly #scheduler: Scheduler;
  readonly #bornAt: EpochMs;
  #state: 'running' | 'frozen' | 'dead' = 'running';
  #skewMs: number;
  #stoodMs = 0;
  #suspendedAt: EpochMs | undefined;
  #held: (() => void)[] = [];
  #resumedAt: EpochMs | undefined;
  #clockSetAt: EpochMs | undefined;
  #atDeath: (() => void)[] = [];

  constructor(scheduler: Scheduler, options: { readonly name: string; readonly kind: ProcessKind; readonly skewMs?: number }) {
    this.#scheduler = scheduler;
    this.#bornAt = scheduler.now();
    this.name = options.name;
    this.kind = options.kind;
    this.#skewMs = options.skewMs ?? 0;
  }

  get state(): 'running' | 'frozen' | 'dead' {
    return this.#state;
  }

  /** True time at which it last went on after being frozen. */
  get resumedAt(): EpochMs | undefined {
    return this.#resumedAt;
  }

  /** True time at which its wall clock was last set. */
  get clockSetAt(): EpochMs | undefined {
    return this.#clockSetAt;
  }

  now(): EpochMs {
    return this.#scheduler.now() + this.#skewMs;
  }

  monotonic(): number {
    return (this.#suspendedAt ?? this.#scheduler.now()) - this.#bornAt - this.#stoodMs;
  }

  after(delayMs: number, run: () => void): () => void {
    // Timers count whole milliseconds; parts of one add up to an instant that is never reached.
    const wholeMs = Math.max(0, Math.ceil(delayMs));
    const due = this.monotonic() + wholeMs;
    let cancelled = false;
    let cancel = () => {};
    const fire = () => {
      if (cancelled) return;
      const left = due - this.monotonic();
      if (left > 0) cancel = this.#scheduler.after(left, () => this.deliver(fire));
      else run();
    };
    cancel = this.#scheduler.after(wholeMs, () => this.deliver(fire));
    return () => {
      cancelled = true;
      cancel();
    };
  }

  deliver(run: () => void): void {
    if (this.#state === 'running') run();
    else if (this.#state === 'frozen') this.#held.push(run);
  }

  /** `suspended`: its monotonic clock stands still as well. */
  freeze({ suspended = false }: { readonly suspended?: boolean } = {}): void {
    if (this.#state !== 'running') return;
    this.#state = 'frozen';
    if (suspended) this.#suspendedAt = this.#scheduler.now();
  }

  resume(): void {
    if (this.#state !== 'frozen') return;
    this.#state = 'running';
    this.#resumedAt = this.#scheduler.now();
    if (this.#suspendedAt !== undefined) this.#stoodMs += this.#scheduler.now() - this.#suspendedAt;
    this.#suspendedAt = undefined;
    const held = this.#held;
    this.#held = [];
    for (const run of held) this.#scheduler.after(0, () => this.deliver(run));
  }

  kill(): void {
    if (this.#state === 'dead') return;
    this.#state = 'dead';
    this.#held = [];
    for (const run of this.#atDeath) run();
    this.#atDeath = [];
  }

  onDeath(run: () => void): void {
    this.#atDeath.push(run);
  }

  /** Its wall clock is set, forwards or backwards. */
  setClock(byMs: number): void {
    this.#skewMs += byMs;
    this.#clockSetAt = this.#scheduler.now();
  }
}
