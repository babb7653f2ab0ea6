import { drained, type Scheduler } from './scheduler.ts';

/** Whoever wants the pool's time to go on, and how far. */
interface Goal {
  /** Time does not go past it as long as this goal stands. */
  readonly until: number;
  readonly isReached: () => boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Vitest's `vi` and others like it. */
export interface FakeTimers {
  advanceTimersByTimeAsync(ms: number): PromiseLike<unknown>;
  /** Where it is there and says 0, time moves in one leap from one event of the pool to the next. */
  getTimerCount?(): number;
}

/** While fake timers are set, the pool's time moves in strides of this; so late an event of theirs may be in it. */
const STRIDE_MS = 20;

/**
 * Moves virtual time for a test, one step after the other and only as long as somebody waits for something: several can, and
 * then each is told at the moment at which it comes true, before anything else happens.
 */
export class Driver {
  readonly #scheduler: Scheduler;
  readonly #timers: FakeTimers | undefined;
  readonly #troubled: () => unknown;
  #goals: Goal[] = [];
  #isDriving = false;
  #isOver = false;

  /** `troubled` is asked after each step; what it returns, all that are waiting are told instead. */
  constructor(scheduler: Scheduler, timers: FakeTimers | undefined, troubled: () => unknown) {
    this.#scheduler = scheduler;
    this.#timers = timers;
    this.#troubled = troubled;
  }

  /** Until `isReached`, or time comes to `until` and everything due by then has happened. */
  drive(until: number, isReached: () => boolean): Promise<void> {
    if (this.#isOver) return Promise.reject(ended());
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#goals.push({ until, isReached, resolve, reject });
    if (!this.#isDriving) void this.#run();
    return promise;
  }

  /** Time goes no further; who still waits is told so. */
  end(): void {
    this.#isOver = true;
    this.#drop(this.#goals, ({ reject }) => reject(ended()));
  }

  async #run(): Promise<void> {
    this.#isDriving = true;
    await drained();
    while (this.#goals.length > 0) {
      const trouble = this.#troubled();
      if (trouble !== undefined) this.#drop(this.#goals, ({ reject }) => reject(trouble));
      else if (!(await this.#reach()) && !(await this.#step())) await drained();
    }
    this.#isDriving = false;
  }

  async #reach(): Promise<boolean> {
    const now = this.#scheduler.now();
    const isIdle = (this.#scheduler.nextAt ?? Number.POSITIVE_INFINITY) > now;
    const reached = this.#goals.filter(({ until, isReached }) => isReached() || (isIdle && until <= now));
    if (reached.length === 0) return false;
    this.#drop(reached, ({ resolve }) => resolve());
    await drained();
    return true;
  }

  #drop(goals: readonly Goal[], tell: (goal: Goal) => void): void {
    this.#goals = this.#goals.filter((goal) => !goals.includes(goal));
    for (const goal of goals) tell(goal);
  }

  /** What is due now, or else a piece of the way to whatever comes next. */
  async #step(): Promise<boolean> {
    if (await this.#scheduler.step(this.#scheduler.now())) return true;
    const now = this.#scheduler.now();
    const next = Math.min(this.#scheduler.nextAt ?? Number.POSITIVE_INFINITY, ...this.#goals.map(({ until }) => until));
    if (next === Number.POSITIVE_INFINITY) return false;
    if (!this.#timers) {
      this.#scheduler.skipTo(next);
      return true;
    }
    const stride = this.#timers.getTimerCount?.() === 0 ? next - now : Math.min(next - now, STRIDE_MS);
    this.#scheduler.skipTo(now + stride);
    await this.#timers.advanceTimersByTimeAsync(stride);
    return true;
  }
}

function ended(): Error {
  return new Error('the test pool was disposed of, and its time stands still');
}
