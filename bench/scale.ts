import { handleReport } from '../lib/pool/handle-report.ts';
import { handleRequest } from '../lib/pool/handle-request.ts';
import { isOwned } from '../lib/pool/job.ts';
import type { PoolPorts } from '../lib/pool/ports.ts';
import { DEFAULT_SETTINGS } from '../lib/pool/settings.ts';
import { MemoryServices } from '../lib/testing/memory-services.ts';
import { Scheduler } from '../lib/testing/scheduler.ts';
import {
  encodeReport,
  encodeRequest,
  fingerprintOf,
  type Parsed,
  parseReport,
  parseRequest,
  type StartedReport,
} from '../lib/wire/index.ts';
import { median, numbered } from './numbers.ts';

/**
 * What one start costs in a pool that holds many jobs: the request handled and the worker's report of it, by the real code on memory ports.
 *
 * Calls of ports and the bytes of their arguments and results are exact; CPU time is the median of batches, of this process alone.
 * None of it may grow with the number of jobs: no index is scanned and no set of jobs is loaded on the way of a start.
 */
export interface ScaleCase {
  /** Jobs that run while the start is handled. */
  readonly jobs: number;
  readonly portCalls: number;
  readonly bytes: number;
  readonly cpuMs: number;
}

export interface ScaleResult {
  readonly bench: 'scale';
  readonly workers: number;
  readonly payloadBytes: number;
  readonly cases: readonly ScaleCase[];
  /** What grew with the number of jobs; empty where all is well. */
  readonly breaches: readonly string[];
}

const SIZES = [1_000, 10_000, 100_000];
const WORKERS = 3;
const PAYLOAD = new TextEncoder().encode('x'.repeat(256));
const COUNTED = 20;
const BATCHES = 30;
const BATCH = 100;
/** Revisions in memory are numbered, and larger numbers are longer. */
const BYTES_GROWTH = 1.01;
/** Timing is not exact: caches are smaller than 100 000 jobs. */
const CPU_GROWTH = 2;

export async function scale(): Promise<ScaleResult> {
  // Compilers warm up on code and not on jobs.
  await measure(100);
  const cases: ScaleCase[] = [];
  for (const jobs of SIZES) cases.push(await measure(jobs));
  const [small, large] = [cases[0] as ScaleCase, cases.at(-1) as ScaleCase];
  const breaches = [
    ...(large.portCalls > small.portCalls ? [`portCalls: ${small.portCalls} to ${large.portCalls}`] : []),
    ...(large.bytes > small.bytes * BYTES_GROWTH ? [`bytes: ${small.bytes} to ${large.bytes}`] : []),
    ...(large.cpuMs > small.cpuMs * CPU_GROWTH ? [`cpuMs: ${small.cpuMs} to ${large.cpuMs}`] : []),
  ];
  return { bench: 'scale', workers: WORKERS, payloadBytes: PAYLOAD.byteLength, cases, breaches };
}

export async function measure(jobs: number): Promise<ScaleCase> {
  const scheduler = new Scheduler();
  const services = new MemoryServices({ clock: scheduler, timer: scheduler });
  const ports = services.poolPorts();
  for (let i = 0; i < WORKERS; i++) {
    const [workerId, session] = [`worker-${i}`, `session-${i}`];
    const at = scheduler.now();
    await services.inboxes.create(session);
    await services.workers.register({ workerId, session, leaseMs: 30_000, capacity: 1_000_000, registeredAt: at });
    await handleReport(ports, DEFAULT_SETTINGS, { type: 'registered', worker: workerId, session, at });
  }
  const start = async (into: PoolPorts, name: string) => {
    const key = `tenant:${name}`;
    const request = encodeRequest({ op: 'start', key, payload: PAYLOAD, dispatchId: `order-${name}`, ifBusy: 'reject' });
    await handleRequest(into, DEFAULT_SETTINGS, parsedOf(parseRequest(request)));
    const job = services.jobs.peek(key);
    if (!job || !isOwned(job)) throw new Error(`job "${key}" was not assigned`);
    const { dispatchId, fence, owner } = job;
    const fact = { key, dispatchId, fingerprint: fingerprintOf(key, PAYLOAD), fence, ...owner };
    const report = encodeReport({ type: 'started', ...fact, at: scheduler.now(), startedAt: scheduler.now() });
    await handleReport(into, DEFAULT_SETTINGS, parsedOf(parseReport(report)) as StartedReport);
    if (services.jobs.peek(key)?.status !== 'running') throw new Error(`job "${key}" does not run`);
  };
  for (let i = 0; i < jobs; i++) await start(ports, `held-${numbered(i)}`);

  const counter = new Counter();
  for (let i = 0; i < COUNTED; i++) await start(counter.watch(ports), `counted-${numbered(i)}`);

  const times: number[] = [];
  for (let batch = 0; batch < BATCHES; batch++) {
    const before = process.cpuUsage();
    for (let i = 0; i < BATCH; i++) await start(ports, `timed-${numbered(batch * BATCH + i)}`);
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1_000 / BATCH);
  }
  return { jobs, portCalls: counter.calls / COUNTED, bytes: counter.bytes / COUNTED, cpuMs: Number(median(times).toFixed(3)) };
}

function parsedOf<T>(parsed: Parsed<T>): T {
  if (!parsed.ok) throw new Error(parsed.refusal.message);
  return parsed.value;
}

/** Counts the calls of ports, and what goes over them both ways. */
class Counter {
  calls = 0;
  bytes = 0;

  watch(ports: PoolPorts): PoolPorts {
    const { clock, telemetry, ...stores } = ports;
    const watched = Object.entries(stores).map(([name, port]) => [name, this.#port(port)]);
    return { ...Object.fromEntries(watched), clock, telemetry };
  }

  #port<T extends object>(port: T): T {
    return new Proxy(port, {
      get:
        (target, method) =>
        async (...given: unknown[]) => {
          const work = Reflect.get(target, method) as (...given: unknown[]) => Promise<unknown>;
          const result = await work.apply(target, given);
          this.calls += 1;
          this.bytes += sizeOf(given) + sizeOf(result);
          return result;
        },
    });
  }
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value, (_, each) => (each instanceof Uint8Array ? Buffer.from(each).toString('latin1') : each))?.length ?? 0;
}
