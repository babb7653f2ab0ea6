import { type PoolConfig, variable } from '../aws/config.ts';
import { loadPoolConfig } from '../aws/load-config.ts';
import { workerPorts } from '../aws/ports.ts';
import { systemClock, systemIds } from '../aws/system.ts';
import type { WorkerEvent } from './events.ts';
import type { Handler } from './handler.ts';
import { jsonLogger, type Logger, type LogLevel, logLevels } from './logger.ts';
import { assertNumber, assertWorkerId, numberFrom, refused } from './options.ts';
import { ownProcess } from './process.ts';
import { createWorker, type Runtime, type Worker } from './runtime.ts';

export type { PoolConfig } from '../aws/config.ts';
export { PoolError, type PoolErrorCode } from '../pool/errors.ts';
export type { JobError, StopReason } from '../wire/index.ts';
export type { DropReason, WorkerEvent } from './events.ts';
export {
  defineHandler,
  type Handler,
  type HandlerOptions,
  type Job,
  type Raw,
  RetryableError,
  type Running,
  type Schema,
  type Stopping,
  StoppingError,
} from './handler.ts';
export type { LogFields, Logger } from './logger.ts';
export type { DrainReport, Health, Worker } from './runtime.ts';

export interface WorkerOptions {
  /** What to do for a job: see `defineHandler`. */
  readonly handler: Handler;
  /** Name of the pool, or how to reach it. Default `HOLDFAST_POOL`, or `HOLDFAST_POOL_CONFIG`. */
  readonly pool?: string | PoolConfig;
  /** Jobs at most, 1 to 10 000, and the weight in placement. Default `HOLDFAST_CAPACITY`, else 100. */
  readonly capacity?: number;
  /** Default: fresh for each process. A stable one only where a supervisor guarantees one process per id (StatefulSet). 1 to 128 bytes. */
  readonly workerId?: string;
  /** How long a drain may take, 1 ms to one day. Default 25 000: inside the 30 s that ECS and Kubernetes give. */
  readonly drainDeadlineMs?: number;
  /** How long one stop of a job may take, 1 ms to one day; never beyond the drain's or the lease's end. Default 20 000. */
  readonly stopDeadlineMs?: number;
  /** Port for `/livez` and `/readyz`; 0: any free one, which the log names. `startWorker` opens none. Default `HOLDFAST_HEALTH_PORT`, else off. */
  readonly health?: { readonly port: number } | 'off';
  /** Default: JSON lines on stdout, from level `HOLDFAST_LOG_LEVEL` on (`debug`, `info`, `warn`, `error`; default `info`). */
  readonly logger?: Logger;
  /** Hears of everything that happens; a throw in it is logged. */
  readonly onEvent?: (event: WorkerEvent) => void;
}

/**
 * Makes this process a worker: a container's whole main file.
 *
 * SIGTERM or SIGINT drains it: no new jobs, those that it has are stopped and handed back, then it leaves and the promise resolves. A second
 * one ends the process at once (exit code 130). It ends itself with 1 where handlers would not stop by `drainDeadlineMs`, and with 70
 * where a job was still live when the lease ended, because another worker may run it by then.
 *
 * Throws a `PoolError` for options beyond their limits, and where it cannot register (`no-such-pool`, `not-permitted`).
 *
 * ```ts
 * await runWorker({ handler: follower, capacity: 200 });
 * ```
 */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const logger = loggerOf(options);
  const healthPort = healthPortOf(options);
  await ownProcess({
    logger,
    healthPort,
    async create(onEvent) {
      const create = await creator(options, logger);
      return create((event) => {
        try {
          options.onEvent?.(event);
        } finally {
          onEvent(event);
        }
      });
    },
  });
}

/**
 * A worker as a guest in a process of yours: no signals, no exit, no port. Resolves once it is registered; `drain()` it before the process
 * ends, or hold it with `await using`. Where a job outlives the lease it emits `overrun` and turns `health.live` false: end the process then.
 *
 * ```ts
 * await using worker = await startWorker({ handler: follower, capacity: 50 });
 * app.get('/readyz', (_, reply) => reply.code(worker.health.ready ? 200 : 503).send(worker.health));
 * ```
 */
export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const create = await creator(options, loggerOf(options));
  const worker = create((event) => options.onEvent?.(event));
  await worker.start();
  return worker;
}

async function creator(options: WorkerOptions, logger: Logger): Promise<(onEvent: (event: WorkerEvent) => void) => Runtime> {
  const { handler, pool, workerId = systemIds.next(), drainDeadlineMs = 25_000, stopDeadlineMs = 20_000, onEvent } = options;
  if (typeof handler?.start !== 'function') throw refused('option "handler"', handler, 'what defineHandler returns');
  if (onEvent !== undefined && typeof onEvent !== 'function') throw refused('option "onEvent"', onEvent, 'a function');
  const capacity =
    options.capacity === undefined ? (numberFrom('HOLDFAST_CAPACITY', process.env.HOLDFAST_CAPACITY, 'capacity') ?? 100) : options.capacity;
  assertWorkerId(workerId);
  assertNumber('capacity', capacity);
  assertNumber('drainDeadlineMs', drainDeadlineMs);
  assertNumber('stopDeadlineMs', stopDeadlineMs);
  if (pool === null || pool === '') throw refused('option "pool"', pool, `a name, a configuration, or absent for ${variable.pool}`);
  const config = await loadPoolConfig(pool, process.env);
  const { leaseMs } = config;
  const ports = workerPorts(config);
  return (onEvent) => createWorker(ports, { handler, workerId, leaseMs, capacity, drainDeadlineMs, stopDeadlineMs, logger, onEvent });
}

function healthPortOf({ health }: WorkerOptions): number | undefined {
  if (health === 'off') return undefined;
  if (health === undefined) return numberFrom('HOLDFAST_HEALTH_PORT', process.env.HOLDFAST_HEALTH_PORT, 'health.port');
  if (typeof health !== 'object' || health === null) throw refused('option "health"', health, '{ port }, or "off"');
  assertNumber('health.port', health.port);
  return health.port;
}

function loggerOf({ logger }: WorkerOptions): Logger {
  if (logger === undefined)
    return jsonLogger((line) => process.stdout.write(line), systemClock.now, logLevelOf(process.env.HOLDFAST_LOG_LEVEL));
  for (const level of logLevels) {
    if (typeof logger?.[level] !== 'function')
      throw refused('option "logger"', logger, 'an object with functions debug, info, warn and error');
  }
  return logger;
}

function logLevelOf(text: string | undefined): LogLevel {
  if (text === undefined || text === '') return 'info';
  const level = logLevels.find((each) => each === text.toLowerCase());
  if (!level) throw refused('HOLDFAST_LOG_LEVEL', text, logLevels.join(', '));
  return level;
}
