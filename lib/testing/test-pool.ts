import type { Pool } from '../client/pool.ts';
import { isOwned } from '../pool/job.ts';
import type { Command, Report, Request } from '../wire/index.ts';
import type { WorkerEvent } from '../worker/events.ts';
import type { Handler } from '../worker/handler.ts';
import type { Call, Fate } from './calls.ts';
import type { Violation } from './claims.ts';
import { Driver, type FakeTimers } from './driver.ts';
import { Checker } from './invariants.ts';
import { MemoryPool, type MemoryWorker } from './memory-pool.ts';
import type { Disturbance } from './memory-queue.ts';
import { Random } from './random.ts';
import { recordingHandler } from './recording-handler.ts';
import { drained, Scheduler } from './scheduler.ts';
import { inWords, Story } from './story.ts';
import { watched } from './watched.ts';

export interface TestPoolOptions {
  /** What the workers do. Default: a `recordingHandler()` that nobody looks at. */
  readonly handler?: Handler;
  /** Workers at the beginning; default 1. */
  readonly workers?: number;
  /** Default 30 000, from 3 000 to 90 000. */
  readonly leaseMs?: number;
  /** Draws the order of what is due at the same moment; the same seed, the same run. Default 1. */
  readonly seed?: number;
  /** Fake timers, such as Vitest's `vi` after `vi.useFakeTimers()`: they and `Date` then follow the pool's time, and with them the handler's own. */
  readonly timers?: FakeTimers;
}

export interface TestWorkerOptions {
  /** Default: the pool's. */
  readonly handler?: Handler;
  /** Default: fresh. */
  readonly workerId?: string;
  /** Jobs at most; default 100. */
  readonly capacity?: number;
  readonly onEvent?: (event: WorkerEvent) => void;
}

/** Matches the requests, commands and reports whose fields are these. */
export interface MessageMatch {
  readonly op?: Request['op'] | Command['op'];
  readonly type?: Report['type'];
  readonly key?: string;
  readonly dispatchId?: string;
}

/**
 * A whole pool in memory, on a virtual clock: the real functions, worker runtime and client on services that are in memory.
 *
 * Time moves only inside `advance`, `until`, and waits of `client`, up to their own deadline. The guarantees of the project are
 * checked after each step; where one is broken, what is being waited for rejects, with the story and the seed.
 *
 * ```ts
 * const handler = recordingHandler();
 * await using pool = await createTestPool({ handler, workers: 2 });
 * await (await pool.client.start('k', 'p')).outcome();
 * pool.ownerOf('k')!.crash();
 * await pool.until(() => handler.starts.length === 2, { withinMs: 3 * pool.lease });
 * ```
 */
export interface TestPool extends AsyncDisposable {
  readonly client: Pool;
  /** Milliseconds. */
  readonly lease: number;
  /** Epoch ms, virtual. */
  readonly now: number;
  /** Resolves once it is registered and jobs can be placed there. */
  addWorker(options?: TestWorkerOptions): Promise<TestWorker>;
  /** The worker that the record names; undefined where nobody owns the key. */
  ownerOf(key: string): TestWorker | undefined;
  advance(ms: number): Promise<void>;
  /** Lets time go on until `condition` holds, which is looked at after each step; throws where it does not within that time. */
  until(condition: () => boolean, limit: { readonly withinMs: number }): Promise<void>;
  /** Until nothing is due now; the time stays as it is. */
  settle(): Promise<void>;
  readonly deliver: {
    /** From now on every matching message is delivered a second time after it was handled. */
    twice(match: MessageMatch): void;
    /** From now on every matching message arrives so much later. */
    late(match: MessageMatch, ms: number): void;
  };
  readonly lose: {
    /** The next `count` (default 1) matching messages arrive, but whoever sent them hears that they did not. */
    responses(match: MessageMatch, count?: number): void;
  };
  /** Deletes the job record of the key, as a fault. */
  deleteRecord(key: string): void;
  /**
   * Either table as it is now. Calling what it returns puts that back, as a fault: a table restored to an earlier moment, for `client.recover()`;
   * as its `putBack`, leave the pool's record as it is.
   */
  backup(table: 'jobs' | 'workers'): (how?: { readonly leavesPool: boolean }) => void;
}

export interface TestWorker {
  readonly workerId: string;
  /** Keys whose handler may be alive here. */
  readonly jobs: readonly string[];
  /** Its process is gone at once. What its handlers left running in this one is stopped when the pool is disposed of. */
  crash(): void;
  /** Its process stands still: no timer, no answer reaches it. Its handlers' own timers are not its, and go on. */
  freeze(): void;
  resume(): void;
  /** It reaches no service and hears of none. */
  disconnect(): void;
  reconnect(): void;
  /** As SIGTERM. Resolves once it has left. */
  drain(): Promise<void>;
}

const KEEP_LINES = 200;

export async function createTestPool(options: TestPoolOptions = {}): Promise<TestPool> {
  const pool = new MemoryTestPool(options);
  for (let i = 0; i < (options.workers ?? 1); i++) await pool.addWorker();
  return pool;
}

class MemoryTestPool implements TestPool {
  readonly client: Pool;
  readonly lease: number;
  readonly #seed: number;
  readonly #handler: Handler;
  readonly #scheduler: Scheduler;
  readonly #story: Story;
  readonly #checker: Checker;
  readonly #pool: MemoryPool;
  readonly #driver: Driver;
  readonly #workers = new Map<string, MemoryTestWorker>();
  readonly #cutOff = new Set<unknown>();
  readonly #doubled: MessageMatch[] = [];
  readonly #delayed: { readonly match: MessageMatch; readonly ms: number }[] = [];
  readonly #unanswered: { readonly match: MessageMatch; left: number }[] = [];
  #violation: Violation | undefined;

  constructor({ handler = recordingHandler(), leaseMs = 30_000, seed = 1, timers }: TestPoolOptions) {
    const lots = new Random(seed);
    this.lease = leaseMs;
    this.#seed = seed;
    this.#handler = handler;
    this.#scheduler = new Scheduler({ order: () => lots.next(), ...(timers ? { startsAt: Date.now() } : {}) });
    this.#story = new Story(this.#scheduler, KEEP_LINES);
    this.#checker = new Checker({
      scheduler: this.#scheduler,
      leaseMs,
      services: () => this.#pool.services,
      onViolation: (violation) => {
        this.#violation ??= violation;
      },
    });
    const { tell } = this.#story;
    this.#pool = new MemoryPool({
      alwaysSweeps: true,
      scheduler: this.#scheduler,
      leaseMs,
      network: {
        fate: (call) => this.#fate(call),
        isCutOff: ({ by }) => this.#cutOff.has(by),
        heard: (call, sentAt, result) => this.#checker.heard(call, sentAt, result),
      },
      disturbance: { requests: this.#disturbance(), reports: this.#disturbance(), inboxes: this.#disturbance() },
      observe: { job: this.#checker.job, dispatch: this.#checker.dispatch, worker: this.#checker.worker },
      telemetry: ({ name }) => ({
        decided: ({ subject, key, decision }) => tell(name, () => `decides ${subject} at "${key}": ${decision}`),
        count: (what) => tell(name, () => `counts ${what}`),
        gauge() {},
        failed: ({ message, reason }) => tell(name, () => `fails ${message}: ${reason}`),
      }),
    });
    this.#driver = new Driver(this.#scheduler, timers, () => this.#violation && this.#breach(this.#violation));
    this.client = this.#driven(this.#pool.connect('client').pool);
  }

  get now(): number {
    return this.#scheduler.now();
  }

  async addWorker(options: TestWorkerOptions = {}): Promise<TestWorker> {
    const { workerId = `worker-${this.#workers.size + 1}`, capacity = 100, onEvent } = options;
    const { tell } = this.#story;
    const place = {
      workerId,
      capacity,
      handler: watched(options.handler ?? this.#handler, () => started.process, this.#checker, tell),
      onEvent: (event: WorkerEvent) => {
        const { workerId: _, ...detail } = event;
        tell(workerId, () => inWords(detail));
        onEvent?.(event);
      },
    };
    const started: MemoryWorker = this.#pool.startWorker(place);
    const worker = new MemoryTestWorker(started, {
      cutOff: (isCut) => (isCut ? this.#cutOff.add(started.process) : this.#cutOff.delete(started.process)),
      wait: (promise) => this.#wait(promise),
    });
    this.#workers.set(workerId, worker);
    await this.#wait(started.runtime.start());
    await this.settle();
    return worker;
  }

  ownerOf(key: string): TestWorker | undefined {
    const job = this.#pool.services.jobs.peek(key);
    return job && isOwned(job) ? this.#workers.get(job.owner.worker) : undefined;
  }

  async advance(ms: number): Promise<void> {
    await this.#driver.drive(this.now + ms, () => false);
  }

  async until(condition: () => boolean, { withinMs }: { readonly withinMs: number }): Promise<void> {
    await this.#driver.drive(this.now + withinMs, condition);
    if (!condition())
      throw new Error(`not so within ${withinMs} ms; seed ${this.#seed}, and what happened:\n${this.#story.lines().join('\n')}`);
  }

  async settle(): Promise<void> {
    await this.advance(0);
  }

  readonly deliver = {
    twice: (match: MessageMatch): void => {
      this.#doubled.push(match);
    },
    late: (match: MessageMatch, ms: number): void => {
      this.#delayed.push({ match, ms });
    },
  };

  readonly lose = {
    responses: (match: MessageMatch, count = 1): void => {
      this.#unanswered.push({ match, left: count });
    },
  };

  deleteRecord(key: string): void {
    this.#pool.services.jobs.delete(key);
  }

  backup(table: 'jobs' | 'workers'): (how?: { readonly leavesPool: boolean }) => void {
    return this.#pool.services.backup(table);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client[Symbol.dispose]();
    this.#pool.end();
    for (const worker of this.#workers.values()) worker.crash();
    this.#checker.endAll();
    await drained();
    this.#driver.end();
  }

  #fate({ service, args }: Call): Fate {
    if (service !== 'requests' && service !== 'reports' && service !== 'commands') return { delayMs: 0 };
    if (service === 'requests') for (const request of [args[0]].flat() as Request[]) this.#noteStop(request);
    const message = Array.isArray(args[0]) ? args[0][0] : args[0];
    const unanswered = this.#unanswered.find(({ match, left }) => left > 0 && isMatch(message, match));
    if (!unanswered) return { delayMs: 0 };
    unanswered.left -= 1;
    return { delayMs: 0, fault: 'answer-lost' };
  }

  /** The checker takes a stop that nobody asked for to be a breach. */
  #noteStop(request: Request): void {
    if (request.op === 'stop') this.#checker.stopAsked(request.key, request.dispatchId);
    if (request.op === 'start' && request.ifBusy === 'replace') this.#checker.stopAsked(request.key);
  }

  #disturbance(): Disturbance {
    const repeated = new Set<string>();
    return {
      late: ({ body }) => this.#delayed.find(({ match }) => isMatch(JSON.parse(body), match))?.ms ?? 0,
      again: ({ id, body }) => {
        if (repeated.has(id) || !this.#doubled.some((match) => isMatch(JSON.parse(body), match))) return undefined;
        repeated.add(id);
        return 0;
      },
    };
  }

  /** Lets time go on until the promise settles; what it waits for has a deadline of its own. */
  async #wait<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = () => {
      isSettled = true;
    };
    promise.then(settled, settled);
    await this.#driver.drive(Number.POSITIVE_INFINITY, () => isSettled);
    return promise;
  }

  /** The same thing, but that time goes on while somebody waits for a promise of it. */
  #driven<T extends object>(target: T): T {
    const drive = (value: unknown): unknown => {
      if (value instanceof Promise) return this.#wait(value).then(drive);
      return isOfMethods(value) ? this.#driven(value) : value;
    };
    return new Proxy(target, {
      get: (of, name) => {
        const field = Reflect.get(of, name);
        if (typeof field !== 'function') return field;
        if (name === Symbol.asyncIterator) return () => this.#driven(field.call(of));
        return (...args: unknown[]) => drive(field.apply(of, args));
      },
    });
  }

  #breach({ guarantee, what }: Violation): Error {
    return new Error(`${guarantee} was broken: ${what}\nseed ${this.#seed}, and what happened:\n${this.#story.lines().join('\n')}`);
  }
}

/** What a worker's handle needs of the pool that it is in. */
interface OfPool {
  cutOff(isCut: boolean): void;
  wait<T>(promise: Promise<T>): Promise<T>;
}

class MemoryTestWorker implements TestWorker {
  readonly #worker: MemoryWorker;
  readonly #pool: OfPool;

  constructor(worker: MemoryWorker, pool: OfPool) {
    this.#worker = worker;
    this.#pool = pool;
  }

  get workerId(): string {
    return this.#worker.runtime.workerId;
  }

  get jobs(): readonly string[] {
    return this.#worker.process.state === 'dead' ? [] : this.#worker.runtime.lives.map(({ key }) => key);
  }

  crash(): void {
    this.#worker.process.kill();
  }

  freeze(): void {
    this.#worker.process.freeze();
  }

  resume(): void {
    this.#worker.process.resume();
  }

  disconnect(): void {
    this.#pool.cutOff(true);
  }

  reconnect(): void {
    this.#pool.cutOff(false);
  }

  async drain(): Promise<void> {
    await this.#pool.wait(this.#worker.runtime.drain());
  }
}

/** A handle or a stream, and not a value. */
function isOfMethods(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return (
    Symbol.asyncIterator in value ||
    Object.values(Object.getOwnPropertyDescriptors(value)).some((field) => typeof field.value === 'function')
  );
}

function isMatch(message: unknown, match: MessageMatch): boolean {
  return Object.entries(match).every(([name, value]) => (message as Record<string, unknown> | undefined)?.[name] === value);
}
