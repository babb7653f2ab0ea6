import type { Dispatch } from '../pool/dispatch.ts';
import { PoolError } from '../pool/errors.ts';
import type { EpochMs, Job } from '../pool/job.ts';
import type { Clock, Timer } from '../pool/ports.ts';
import { describeObservation, type Observation, type Subject } from './observation.ts';
import type { RecordReader } from './ports.ts';

/** From one look of a wait to the next; the last one over and over. */
const DELAYS_MS = [100, 250, 500, 1_000, 2_000] as const;
const LONGEST_DELAY_MS = 2_000;
/** No look is planned further ahead, unless the clock was set back since. */
const FURTHEST_MS = 2 * LONGEST_DELAY_MS;
/** So long before its deadline a wait looks for the last time. */
const LAST_LOOK_MS = 100;

/**
 * Waits by record, not by event: there is no event to miss, and a wait that begins after the fact is answered by its first look.
 *
 * Authoritative are the records, read consistently. A wait looks at once, then after 100 ms, rising to 2 s, and once more just before
 * its deadline. Each look falls on a multiple of its delay, so that waits come to be due together, whenever they began, and share
 * one read of dispatch records and one of job records: however many there are, it comes to one of each every 2 s. A wait whose look is
 * under way is not due again before that ended, so a slow read holds up only those that it is for.
 *
 * A look that fails in a way that may pass saw nothing; any other failure ends the wait. The deadline has a timer of its own, so it
 * depends neither on a read that hangs nor on the wall clock; a clock set back only makes the next look come early. There is a timer
 * only while somebody waits.
 */
export class Waits {
  readonly #records: RecordReader;
  readonly #clock: Clock;
  readonly #timer: Timer;
  readonly #waiting = new Set<Waiting>();
  /** Multiples are counted from here, so that the clients of a fleet do not all look in the same moment. */
  readonly #origin: EpochMs;
  #nextLook: { readonly at: EpochMs; readonly cancel: () => void } | undefined;

  constructor({ records, clock, timer }: { readonly records: RecordReader; readonly clock: Clock; readonly timer: Timer }) {
    this.#records = records;
    this.#clock = clock;
    this.#timer = timer;
    this.#origin = clock.now();
  }

  /**
   * What `find` finds in the records of `subject`. It is asked with the dispatch record alone first and, where that does not do, with the
   * job record as well. Throws `deadline-exceeded` with what is known, the signal's reason, or what no further look can mend.
   */
  until<T>(subject: Subject, find: (seen: Observation) => T | undefined, limits: Limits): Promise<T> {
    return new Promise((resolve, reject) => {
      const { timeoutMs, signal, what } = limits;
      signal?.throwIfAborted();
      const now = this.#clock.now();
      const end = () => {
        this.#waiting.delete(waiting);
        if (this.#waiting.size === 0) this.#cancelLook();
        cancelDeadline();
        signal?.removeEventListener('abort', onAbort);
      };
      const waiting: Waiting = {
        subject,
        seen: {},
        dueAt: now,
        looks: 0,
        lastLookAt: now + timeoutMs - LAST_LOOK_MS,
        isAnsweredBy(seen) {
          waiting.seen = seen;
          waiting.trouble = undefined;
          const found = find(seen);
          if (found === undefined) return false;
          end();
          resolve(found);
          return true;
        },
        fail(error) {
          end();
          reject(error);
        },
      };
      const onAbort = () => waiting.fail(signal?.reason);
      const cancelDeadline = this.#timer.after(timeoutMs, () => waiting.fail(deadlineExceeded(what, waiting)));
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiting);
      this.#lookBy(now);
    });
  }

  /** Ends every wait with this error. */
  end(error: unknown): void {
    for (const waiting of [...this.#waiting]) waiting.fail(error);
  }

  #lookBy(at: EpochMs): void {
    if (this.#nextLook && this.#nextLook.at <= at) return;
    this.#cancelLook();
    const delayMs = Math.min(Math.max(at - this.#clock.now(), 0), FURTHEST_MS);
    this.#nextLook = { at, cancel: this.#timer.after(delayMs, () => this.#lookNow()) };
  }

  #cancelLook(): void {
    this.#nextLook?.cancel();
    this.#nextLook = undefined;
  }

  #lookNow(): void {
    this.#nextLook = undefined;
    const now = this.#clock.now();
    const due = [...this.#waiting].filter((waiting) => isDue(waiting, now));
    for (const waiting of due) waiting.dueAt = undefined;
    void this.#look(due).then(() => this.#planAfter(due));
    this.#planAfter([]);
  }

  /** Sets when those that just looked look next, and the timer for whoever is due first. */
  #planAfter(looked: readonly Waiting[]): void {
    const now = this.#clock.now();
    for (const waiting of looked) {
      const delayMs = DELAYS_MS[waiting.looks++] ?? LONGEST_DELAY_MS;
      // A quarter more: a timer that fires a little early must not fire again at once.
      const at = this.#origin + delayMs * (Math.floor((now - this.#origin) / delayMs + 0.25) + 1);
      waiting.dueAt = now < waiting.lastLookAt ? Math.min(at, waiting.lastLookAt) : at;
    }
    let first = Number.POSITIVE_INFINITY;
    for (const { dueAt = first } of this.#waiting) first = Math.min(first, dueAt);
    if (first !== Number.POSITIVE_INFINITY) this.#lookBy(first);
  }

  async #look(due: readonly Waiting[]): Promise<void> {
    let open = due;
    try {
      const ids = unique(due.map(({ subject }) => subject.dispatchId));
      const dispatches = await readEach((names) => this.#records.dispatches(names), ids);
      open = due.filter((waiting) => !isDone(waiting, dispatches.get(waiting.subject.dispatchId)));
      const jobs = await readEach((names) => this.#records.jobs(names), unique(open.flatMap((waiting) => keyOf(waiting) ?? [])));
      for (const waiting of open) isDone(waiting, waiting.seen.dispatch, jobs.get(keyOf(waiting) ?? ''));
    } catch (error) {
      for (const waiting of open) meet(waiting, error);
    }
  }
}

interface Limits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** What will not have come in time, for the error. */
  readonly what: string;
}

interface Waiting {
  readonly subject: Subject;
  readonly lastLookAt: EpochMs;
  /** Undefined while a look is under way. */
  dueAt: EpochMs | undefined;
  looks: number;
  seen: Observation;
  /** What the last look met instead. */
  trouble?: PoolError;
  /** Ends the wait where it is. */
  isAnsweredBy(seen: Observation): boolean;
  fail(error: unknown): void;
}

function isDue({ dueAt }: Waiting, now: EpochMs): boolean {
  return dueAt !== undefined && (dueAt <= now || dueAt > now + FURTHEST_MS);
}

/** Whether there is nothing more for it to see in this look. */
function isDone(waiting: Waiting, dispatch: Dispatch | PoolError | undefined, job?: Job | PoolError): boolean {
  if (dispatch instanceof PoolError || job instanceof PoolError) {
    meet(waiting, dispatch instanceof PoolError ? dispatch : job);
    return true;
  }
  return waiting.isAnsweredBy({ dispatch, job });
}

function meet(waiting: Waiting, error: unknown): void {
  if (error instanceof PoolError && error.retryable) waiting.trouble = error;
  else waiting.fail(error);
}

function keyOf({ seen, subject }: Waiting): string | undefined {
  return seen.dispatch?.key ?? subject.key;
}

function deadlineExceeded(what: string, { seen, subject, trouble }: Waiting): PoolError {
  const met = trouble ? `; the last look failed: ${trouble.message}` : '';
  return new PoolError('deadline-exceeded', `${what}: ${describeObservation(seen, subject)}${met}`, { retryable: true, cause: trouble });
}

function unique(names: readonly string[]): readonly string[] {
  return [...new Set(names)];
}

/** One read for all; where a record among them is corrupt, halves of them, so that it fails whoever asked for it and nobody else. */
export async function readEach<T>(
  read: (names: readonly string[]) => Promise<ReadonlyMap<string, T>>,
  names: readonly string[],
): Promise<ReadonlyMap<string, T | PoolError>> {
  const [name] = names;
  if (name === undefined) return new Map();
  try {
    return await read(names);
  } catch (error) {
    if (!(error instanceof PoolError && error.code === 'corrupt-record')) throw error;
    if (names.length === 1) return new Map([[name, error]]);
    const middle = names.length >> 1;
    const halves = await Promise.all([readEach(read, names.slice(0, middle)), readEach(read, names.slice(middle))]);
    return new Map(halves.flatMap((half) => [...half]));
  }
}
