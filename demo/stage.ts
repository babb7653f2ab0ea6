import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { childEnvironment, type Environment } from '../stack/environment.ts';
import { type LocalStack, startLocalStack } from '../stack/local-stack.ts';
import type { Child } from './child.ts';
import type { Observer } from './observe.ts';
import type { Operator } from './operate.ts';
import { type Methods, Peer } from './peer.ts';
import type { Producer } from './produce.ts';
import type { RawProducer } from './produce-raw.ts';
import { Records } from './records.ts';
import { Relay } from './relay.ts';
import { Rounds } from './rounds.ts';
import { WorkerProcess, Workers } from './workers.ts';

export interface StageOptions {
  /** Names the run, and its workers: a pool that has seen another run may remember those of it. */
  readonly run: string;
  /** Takes the logs of the processes and of the emulator. */
  readonly folder: string;
  /** What the workers record in. */
  readonly sink: string;
  /** Jobs that one worker takes at most. */
  readonly capacity: number;
  /** Told of a worker whose jobs outlived its lease, so that it ended itself; it is started again. */
  readonly overran: (worker: WorkerProcess) => void;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** As short as two cores that run all of AWS allow: a worker that cannot beat for two thirds of it is lost. */
const leaseSeconds = '6';
/** How long after its deployment a schedule of one run a minute begins, and some seconds for a function that starts cold. */
const firstSweepMs = 65_000;
const lookEveryMs = 50;
const hastyMs = 5_000;

/** A deployed pool and the processes that have to do with it, each with the rights of its part and no others. All of it ends with the stage. */
export class Stage implements AsyncDisposable {
  readonly stack: LocalStack;
  /** A producer that uses the client. */
  readonly client: Peer<Producer>;
  /** One that does not. */
  readonly raw: Peer<RawProducer>;
  readonly observer: Peer<Observer>;
  readonly operator: Peer<Operator>;
  readonly workers: Workers;
  readonly rounds: Rounds;
  readonly records: Records;
  readonly #folder: string;
  readonly #processes: Child[] = [];
  readonly #deployedAt = performance.now();
  readonly #over: AbortSignal;
  readonly #broken: Promise<never>;

  static async set(options: StageOptions): Promise<Stage> {
    const { log, signal } = options;
    return new Stage(await startLocalStack({ pool: 'demo', context: { removalPolicy: 'destroy', leaseSeconds }, log, signal }), options);
  }

  private constructor(stack: LocalStack, { run, folder, sink, capacity, overran, signal }: StageOptions) {
    this.stack = stack;
    this.#folder = folder;
    const failure = new AbortController();
    this.#over = AbortSignal.any([signal, failure.signal]);
    this.#broken = new Promise((_, reject) => this.#over.addEventListener('abort', () => reject(this.#over.reason)));
    this.#broken.catch(() => undefined);
    void stack.ended.then(() => failure.abort(new Error('the local stack ended by itself')));

    const mind = <C extends Child>(child: C): C => {
      this.#processes.push(child);
      child.diesEarly().catch((error) => failure.abort(error));
      return child;
    };
    const peer = <M extends Methods>(role: 'produce' | 'observe' | 'operate', name: string): Peer<M> => {
      const script = new URL(`${name}.ts`, import.meta.url);
      return mind(new Peer<M>({ name, script, environment: childEnvironment(stack.environments[role]), folder }));
    };
    this.client = peer('produce', 'produce');
    this.raw = peer('produce', 'produce-raw');
    this.observer = peer('observe', 'observe');
    this.operator = peer('operate', 'operate');
    this.rounds = new Rounds(stack);
    this.records = new Records(stack);
    const launch = async (name: string) => {
      const script = new URL('../examples/follow/worker.ts', import.meta.url);
      const preload = new URL('report-events.ts', import.meta.url);
      const workerId = `${run}-${name}`;
      const relay = this.canCut ? await Relay.to(stack.endpoint) : undefined;
      const environment = childEnvironment({
        ...stack.environments.work,
        ...(relay && reachedThrough(relay, stack)),
        ...{ FOLLOW_SINK: sink, FOLLOW_WORKER_ID: workerId, HOLDFAST_CAPACITY: String(capacity) },
      });
      return mind(new WorkerProcess({ name, script, preload, environment, folder }, workerId, relay));
    };
    this.workers = new Workers(launch, (worker) => {
      overran(worker);
      this.workers.restart(worker).catch((error) => failure.abort(error));
    });
  }

  /** Whether a worker can be cut off from the endpoint: only from one on this machine. */
  get canCut(): boolean {
    return Relay.fits(this.stack.endpoint);
  }

  get deadLetterQueueUrl(): string {
    const url = Object.values(this.stack.outputs)
      .map(({ RequestDeadLetterQueueUrl }) => RequestDeadLetterQueueUrl)
      .find((value) => value !== undefined);
    if (url === undefined) throw new Error('the deployment has no output RequestDeadLetterQueueUrl');
    return url;
  }

  /** Waits no longer than all parts of the stage are well. */
  step<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#broken]);
  }

  /** Resolves once the sweep looks after the pool, without which nobody sees that a worker is silent. */
  async isSwept(): Promise<void> {
    const untilMs = this.#deployedAt + firstSweepMs - performance.now();
    if (untilMs > 0) await this.step(wait(untilMs));
  }

  async until(what: string, withinMs: number, condition: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!(await this.step(Promise.resolve(condition())))) {
      if (performance.now() > deadline) throw new Error(`${what}: not after ${withinMs / 1_000} s`);
      await this.step(wait(lookEveryMs));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Promise.all(this.#processes.map((child) => child.end(hastyMs)));
      if (this.stack.log !== undefined) await copyFile(this.stack.log, join(this.#folder, 'stack.log'));
    } finally {
      this.rounds[Symbol.dispose]();
      this.records[Symbol.dispose]();
      await this.stack.stop();
    }
  }
}

/** Queues are reached where their URLs say. */
function reachedThrough({ url }: Relay, { endpoint, poolConfig }: LocalStack): Environment {
  return { AWS_ENDPOINT_URL: url, HOLDFAST_POOL_CONFIG: JSON.stringify(poolConfig).replaceAll(endpoint, url) };
}
