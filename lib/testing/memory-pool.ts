import { createPool, type Pool } from '../client/pool.ts';
import type { ClientPorts } from '../client/ports.ts';
import { consumeReport, consumeRequest } from '../pool/consume.ts';
import type { PoolError } from '../pool/errors.ts';
import type { PoolPorts, Telemetry } from '../pool/ports.ts';
import { DEFAULT_SETTINGS, type PoolSettings } from '../pool/settings.ts';
import { sweep } from '../pool/sweep.ts';
import type { Report, Request } from '../wire/index.ts';
import type { WorkerEvent } from '../worker/events.ts';
import type { Handler } from '../worker/handler.ts';
import type { WorkerPorts } from '../worker/ports.ts';
import { createWorker, type Runtime } from '../worker/runtime.ts';
import { Calls, type Network } from './calls.ts';
import { EventSource, type InvocationFate, promptly } from './functions.ts';
import { SequentialIds } from './memory-ids.ts';
import type { MemoryQueue } from './memory-queue.ts';
import { MemoryServices, type MemoryServicesOptions, silent } from './memory-services.ts';
import { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';
import { TakeOver, type TakeOverPorts } from './take-over.ts';

export interface MemoryPoolOptions extends Omit<MemoryServicesOptions, 'clock' | 'timer'> {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly leaseMs: number;
  readonly settings?: PoolSettings;
  readonly invocations?: InvocationFate;
  /** What a process tells of its decisions. */
  readonly telemetry?: (process: Process) => Telemetry;
}

export interface WorkerPlace {
  readonly workerId: string;
  readonly handler: Handler;
  readonly capacity: number;
  readonly stopDeadlineMs?: number;
  readonly drainDeadlineMs?: number;
  readonly skewMs?: number;
  readonly onEvent?: (event: WorkerEvent) => void;
}

export interface MemoryWorker {
  readonly process: Process;
  readonly runtime: Runtime;
}

const SWEEP_MS = 60_000;

/**
 * A whole pool in memory: the services, the real functions on their queues, the real worker runtime and the real client, each in a
 * process of its own, on one scheduler. The one stand-in is the take-over of lost workers (take-over.ts).
 *
 * All that crosses a process's border goes through `network`, which decides what becomes of it.
 */
export class MemoryPool {
  readonly scheduler: Scheduler;
  readonly services: MemoryServices;
  readonly leaseMs: number;
  readonly #options: MemoryPoolOptions;
  readonly #calls: Calls;
  readonly #ids: SequentialIds;
  readonly #takeOver = new TakeOver();
  readonly #sources: readonly EventSource[];
  readonly #settings: PoolSettings;
  #isOver = false;
  #passes = 0;
  #passesInFlight = 0;

  constructor(options: MemoryPoolOptions) {
    const { scheduler, network, leaseMs, settings = DEFAULT_SETTINGS } = options;
    this.#options = options;
    this.#settings = settings;
    this.scheduler = scheduler;
    this.leaseMs = leaseMs;
    this.services = new MemoryServices({ ...options, clock: scheduler, timer: scheduler, retentionMs: settings.retentionMs });
    this.#ids = new SequentialIds(scheduler);
    this.#calls = new Calls(scheduler, network, (call) => this.services.lostRace(call.method, call.args));
    this.#sources = [
      this.#source('request', this.services.requests, consumeRequest),
      this.#source('report', this.services.reports, consumeReport),
    ];
    this.#everyNowAndThen('sweep', SWEEP_MS, (process) => sweep(this.#poolPorts(process)));
    this.#everyNowAndThen('take-over', Math.min(Math.max(leaseMs / 6, 1_000), 5_000), (process) =>
      this.#takeOver.pass(this.#takeOverPorts(process)),
    );
  }

  /** Whether any function is at work. */
  get isAtWork(): boolean {
    return this.#passesInFlight > 0 || this.#sources.some(({ inFlight }) => inFlight > 0);
  }

  startWorker(place: WorkerPlace): MemoryWorker {
    const { handler, workerId, capacity, skewMs = 0 } = place;
    const process = new Process(this.scheduler, { name: workerId, kind: 'worker', skewMs });
    const runtime = createWorker(this.#workerPorts(process), {
      handler,
      workerId,
      capacity,
      leaseMs: this.leaseMs,
      drainDeadlineMs: place.drainDeadlineMs ?? 25_000,
      stopDeadlineMs: place.stopDeadlineMs ?? 20_000,
      logger: noLog,
      onEvent: (event) => {
        place.onEvent?.(event);
        // As `runWorker` does: whoever cannot stop its handlers in time must not live on.
        if (event.type === 'overrun') process.kill();
      },
    });
    return { process, runtime };
  }

  connect(name: string, skewMs = 0): { readonly process: Process; readonly pool: Pool } {
    const process = new Process(this.scheduler, { name, kind: 'client', skewMs });
    return { process, pool: createPool(this.#clientPorts(process)) };
  }

  /** Nothing of it goes on from here. */
  end(): void {
    this.#isOver = true;
  }

  #source(name: 'request' | 'report', queue: MemoryQueue, consume: typeof consumeRequest): EventSource {
    const { scheduler, invocations = promptly } = this.#options;
    return new EventSource({
      name,
      scheduler,
      queue,
      fate: invocations,
      handler: (process, batch) => {
        const ports = this.#poolPorts(process);
        return {
          consume: (delivery) => consume(ports, this.#settings, delivery),
          source: this.#calls.port(this.services.source(queue, batch), 'queue', process),
          telemetry: ports.telemetry,
        };
      },
    });
  }

  #everyNowAndThen(name: string, everyMs: number, pass: (process: Process) => Promise<unknown>): void {
    const again = () => {
      if (this.#isOver) return;
      this.scheduler.after(everyMs, again);
      const process = new Process(this.scheduler, { name: `${name}-${++this.#passes}`, kind: 'function' });
      this.#passesInFlight += 1;
      process.onDeath(() => {
        this.#passesInFlight -= 1;
      });
      const over = () => process.kill();
      this.scheduler.after(everyMs, over);
      pass(process).then(over, over);
    };
    this.scheduler.after(everyMs, again);
  }

  #poolPorts(process: Process): PoolPorts {
    const ports = this.services.poolPorts(this.#options.telemetry?.(process) ?? silent, process);
    const { jobs, dispatches, workers, commands, requests } = ports;
    const { get, stamp } = this.#calls.port(workers, 'workers', process);
    return {
      ...ports,
      jobs: this.#calls.port(jobs, 'jobs', process),
      dispatches: this.#calls.port(dispatches, 'dispatches', process),
      // These two are read through a cache of some seconds, so that nearly never a call is made for them; the lag stands for it.
      workers: { get, stamp, list: () => workers.list(), poolState: () => workers.poolState() },
      commands: this.#calls.port(commands, 'commands', process),
      requests: this.#calls.port(requests, 'requests', process),
    };
  }

  #takeOverPorts(process: Process): TakeOverPorts {
    const { jobs, requests } = this.#poolPorts(process);
    const { workers } = this.services;
    const rows = { rows: async () => workers.all(), lose: workers.lose.bind(workers) };
    // Its timer goes on from pass to pass, as the state machine's does.
    const clock = { monotonic: () => this.scheduler.now() };
    return { workers: this.#calls.port(rows, 'workers', process), jobs, requests, clock };
  }

  #workerPorts(process: Process): WorkerPorts {
    const ports = this.services.workerPorts({ clock: process, timer: process, ids: this.#ids });
    const single = this.#calls.port(ports.reports, 'reports', process);
    return {
      ...ports,
      registry: this.#calls.port(ports.registry, 'registry', process),
      inboxes: this.#calls.port(ports.inboxes, 'inbox', process),
      // A batch can arrive in part, so each report takes its own way.
      reports: {
        send: async (reports: readonly Report[]) => {
          await Promise.all(reports.map((report) => single.send([report])));
        },
      },
    };
  }

  #clientPorts(process: Process): ClientPorts {
    const ports = this.services.clientPorts({ clock: process, timer: process, ids: this.#ids });
    const single = this.#calls.port(ports.requests, 'requests', process);
    return {
      ...ports,
      records: this.#calls.port(ports.records, 'records', process),
      requests: {
        send: (requests: readonly Request[]) =>
          Promise.all(
            requests.map((request) =>
              single.send([request]).then(
                () => undefined,
                (error: PoolError) => error,
              ),
            ),
          ),
      },
    };
  }
}

const noLog = { debug() {}, info() {}, warn() {}, error() {} };
