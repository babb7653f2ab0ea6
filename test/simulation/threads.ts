import { Worker } from 'node:worker_threads';
import type { RunWorld, Task } from './simulate.ts';
import type { ThreadData, ThreadResult } from './thread.ts';
import type { Edit } from './transform.ts';

export interface ThreadsOptions {
  /** How many threads; each runs one world at a time. */
  readonly size: number;
  /** What the threads load otherwise than it is written. */
  readonly edits?: readonly Edit[];
  /** Whether the threads note what is decided; they are a little slower then. */
  readonly probes?: boolean;
  /** How long one world may take before its thread is given up on, ms; by default, as long as it likes. */
  readonly worldTimeoutMs?: number;
}

interface Waiting {
  readonly task: Task;
  readonly resolve: (result: ThreadResult) => void;
  readonly reject: (error: unknown) => void;
}

/** Threads that run worlds side by side. What is known of a world follows from its options alone, whichever thread runs it. */
export class Threads implements AsyncDisposable {
  readonly #timeoutMs: number | undefined;
  readonly #waiting: Waiting[] = [];
  readonly #idle: Thread[] = [];
  readonly #threads: readonly Thread[];

  constructor({ size, edits = [], probes = false, worldTimeoutMs }: ThreadsOptions) {
    this.#timeoutMs = worldTimeoutMs;
    this.#threads = Array.from({ length: size }, () => new Thread({ edits, probes }));
    this.#idle.push(...this.#threads);
  }

  /** Rejects where the world's code threw what nobody caught, or did not come to its end in time. */
  readonly run: RunWorld = (task) => {
    const { promise, resolve, reject } = Promise.withResolvers<ThreadResult>();
    this.#waiting.push({ task, resolve, reject });
    this.#next();
    return promise;
  };

  #next(): void {
    const thread = this.#waiting.length > 0 ? this.#idle.shift() : undefined;
    if (!thread) return;
    const { task, resolve, reject } = this.#waiting.shift() as Waiting;
    void thread
      .run(task, this.#timeoutMs)
      .then(resolve, reject)
      .then(() => {
        this.#idle.push(thread);
        this.#next();
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.end()));
  }
}

class Thread {
  readonly #worker: Worker;
  #broken: Error | undefined;

  constructor(data: ThreadData) {
    this.#worker = new Worker(new URL('thread.ts', import.meta.url), { workerData: data, execArgv: [] });
    this.#worker.on('error', (error: Error) => {
      this.#broken = error;
    });
  }

  run(task: Task, timeoutMs: number | undefined): Promise<ThreadResult> {
    const worker = this.#worker;
    const { promise, resolve, reject } = Promise.withResolvers<ThreadResult>();
    if (this.#broken) return Promise.reject(this.#broken);
    const late = timeoutMs !== undefined && setTimeout(() => fail(new Error(`world ${task.seed} did not come to an end`)), timeoutMs);
    const fail = (error: Error) => {
      this.#broken = error;
      void worker.terminate();
      end(() => reject(error));
    };
    const succeed = (result: ThreadResult) => end(() => resolve(result));
    const end = (settle: () => void) => {
      if (late) clearTimeout(late);
      worker.off('error', fail);
      worker.off('message', succeed);
      settle();
    };
    worker.once('error', fail);
    worker.once('message', succeed);
    worker.postMessage(task);
    return promise;
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}
