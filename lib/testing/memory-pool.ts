import { createPool, type Pool } from '../client/pool.ts';
import type { ClientPorts } from '../client/ports.ts';
import { consumeRequest } from '../pool/consume-request.ts';
import type { PoolError } from '../pool/errors.ts';
import type { Telemetry } from '../pool/ports.ts';
import { DEFAULT_SETTINGS, type PoolSettings } from '../pool/settings.ts';
import { consumeReport } from '../resync/consume-report.ts';
import type { ResyncPorts } from '../resync/ports.ts';
import type { ResyncSettings } from '../resync/run-round.ts';
import { passIntervalMs, Sweep } from '../resync/sweep.ts';
import type { Report, Request } from '../wire/index.ts';
import type { WorkerEvent } from '../worker/events.ts';
import type { Handler } from '../worker/handler.ts';
import type { WorkerPorts } from '../worker/ports.ts';
import { createWorker, type Runtime } from '../worker/runtime.ts';
import { Calls, type Network } from './calls.ts';
import { EventSource, type InvocationFate, promptly } from './functions.ts';
import { SequentialIds } from './memory-ids.ts';
import { type ExecutionFate, MemoryMachine } from './memory-machine.ts';
import type { MemoryQueue } from './memory-queue.ts';
import { MemoryServices, type MemoryServicesOptions, silent } from './memory-services.ts';
import { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

export interface MemoryPoolOptions extends Omit<MemoryServicesOptions, 'clock' | 'timer'> {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly leaseMs: number;
  readonly settings?: PoolSettings;
  readonly invocations?: InvocationFate;
  readonly executions?: ExecutionFate;
  /** The sweep goes on while there is nothing to watch, so that what comes is watched from the start. */
  readonly alwaysSweeps?: boolean;
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

/** A run of the sweep, and what its last pass may take beyond it. */
const SWEEP_MS = 60_000;
const SWEEP_TIMEOUT_MS = 75_000;

interface Sweeping {
  readonly process: Process;
  readonly sweep: Sweep;
}

/**
 * A whole pool in memory: the services, the real functions on their queues, the real worker runtime and the real client, each in a
 * process of its own, on one scheduler. The one stand-in is the state machine (memory-machine.ts), whose steps are the real ones.
 *
 * All that crosses a process's border goes through `network`, which decides what becomes of it.
 */
export class MemoryPool {
  readonly scheduler: Scheduler;
  readonly services: MemoryServices;
  readonly #options: MemoryPoolOptions;
  readonly #calls: Calls;
  readonly #ids: SequentialIds;
  readonly #machine: MemoryMachine;
  readonly #sources: readonly EventSource[];
  readonly #settings: PoolSettings;
  readonly #resync: { -readonly [name in keyof ResyncSettings]: ResyncSettings[name] };
  #isOver = false;
  #sweeps = 0;
  /** That of them no run is under way in. */
  #freeSweeps: Sweeping[] = [];

  constructor(options: MemoryPoolOptions) {
    const { scheduler, network, leaseMs, settings = DEFAULT_SETTINGS } = options;
    this.#options = options;
    this.#settings = settings;
    this.scheduler = scheduler;
    this.services = new MemoryServices({ ...options, clock: scheduler, timer: scheduler, retentionMs: settings.retentionMs });
    this.#ids = new SequentialIds(scheduler);
    this.#calls = new Calls(scheduler, network, (call) => this.services.lostRace(call.method, call.args));
    this.#sources = [
      this.#source('request', this.services.requests, consumeRequest),
      this.#source('report', this.services.reports, consumeReport),
    ];
    this.#resync = { leaseMs, roundTimeoutMs: leaseMs, maxSilentRounds: 3 };
    this.#machine = new MemoryMachine({
      scheduler,
      settings: this.#resync,
      ports: (process) => this.#poolPorts(process),
      fate: options.executions,
    });
    this.services.machine = this.#machine;
    this.#sweepEveryMinute();
  }

  get leaseMs(): number {
    return this.#resync.leaseMs;
  }

  /** Functions, clients and workers that begin from now on go by another lease; a worker that is there keeps the one that it has. */
  deploy({ leaseMs }: { readonly leaseMs: number }): void {
    this.#resync.leaseMs = leaseMs;
    this.#resync.roundTimeoutMs = leaseMs;
    this.#freeSweeps = [];
  }

  /** Whether any function is at work, or a round is open. The sweep is not asked: it nearly always is. */
  get isAtWork(): boolean {
    return this.#machine.running > 0 || this.#sources.some(({ inFlight }) => inFlight > 0);
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
      inboxRetentionMs: this.#options.inboxRetentionMs,
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

  #source(name: 'request' | 'report', queue: MemoryQueue, consume: typeof consumeReport): EventSource {
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

  /** Each run in a process that lives since an earlier one and is free, where there is one. */
  #sweepEveryMinute(): void {
    const again = () => {
      if (this.#isOver) return;
      this.scheduler.after(SWEEP_MS, again);
      const free = this.#freeSweeps;
      const sweeping = free.pop() ?? this.#newSweep();
      const { process } = sweeping;
      const cancel = this.scheduler.after(SWEEP_TIMEOUT_MS, () => process.kill());
      const over = () => {
        cancel();
        free.push(sweeping);
      };
      this.#sweep(sweeping).then(over, over);
    };
    this.scheduler.after(0, again);
  }

  #newSweep(): Sweeping {
    const process = new Process(this.scheduler, { name: `sweep-${++this.#sweeps}`, kind: 'function' });
    return { process, sweep: new Sweep(this.#poolPorts(process), { ...this.#resync }) };
  }

  /** One run: passes until it is time for the next run, or until there is nothing to watch. */
  async #sweep({ process, sweep }: Sweeping): Promise<void> {
    const until = process.monotonic() + SWEEP_MS;
    const pauseMs = passIntervalMs(this.leaseMs);
    sweep.begin();
    for (let passAt = process.monotonic(); ; ) {
      const { isIdle } = await sweep.pass();
      passAt = Math.max(passAt + pauseMs, process.monotonic());
      if ((isIdle && !this.#options.alwaysSweeps) || passAt >= until) return;
      await new Promise<void>((resolve) => process.after(passAt - process.monotonic(), resolve));
    }
  }

  #poolPorts(process: Process): ResyncPorts {
    const ports = this.services.poolPorts(this.#options.telemetry?.(process) ?? silent, process);
    const { jobs, dispatches, workers, commands, requests, rounds, restores, machine } = ports;
    const { get, change, remove } = this.#calls.port(workers, 'workers', process);
    return {
      ...ports,
      jobs: this.#calls.port(jobs, 'jobs', process),
      dispatches: this.#calls.port(dispatches, 'dispatches', process),
      // These two are read through a cache of some seconds, so that nearly never a call is made for them; the lag stands for it.
      workers: { get, change, remove, list: () => workers.list(), poolState: (maxAgeMs) => workers.poolState(maxAgeMs) },
      commands: this.#calls.port(commands, 'commands', process),
      requests: this.#calls.port(requests, 'requests', process),
      rounds: this.#calls.port(rounds, 'rounds', process),
      restores: this.#calls.port(restores, 'restores', process),
      machine: this.#calls.port(machine, 'machine', process),
    };
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
    const { workers, rounds, machine, pool, gauges, restores } = ports.operate;
    const { recovered } = this.#calls.port(restores, 'restores', process);
    return {
      ...ports,
      records: this.#calls.port(ports.records, 'records', process),
      operate: {
        ...ports.operate,
        leaseMs: this.leaseMs,
        restores: { recovered },
        pool: this.#calls.port(pool, 'pool', process),
        gauges: this.#calls.port(gauges, 'gauges', process),
        workers: this.#calls.port(workers, 'workers', process),
        rounds: this.#calls.port(rounds, 'rounds', process),
        machine: this.#calls.port(machine, 'machine', process),
      },
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
