import { consumeRequest } from '../../lib/pool/consume-request.ts';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { Count, Gauge, Telemetry } from '../../lib/pool/ports.ts';
import { DEFAULT_SETTINGS, type PoolSettings } from '../../lib/pool/settings.ts';
import { consumeReport } from '../../lib/resync/consume-report.ts';
import type { ExecutionInput, ResyncPorts, RoundResult } from '../../lib/resync/ports.ts';
import type { ResyncSettings } from '../../lib/resync/run-round.ts';
import { Sweep } from '../../lib/resync/sweep.ts';
import { Calls, type Network } from '../../lib/testing/calls.ts';
import type { Violation } from '../../lib/testing/claims.ts';
import type { IndexLag } from '../../lib/testing/frozen.ts';
import { EventSource, type InvocationFate, promptly } from '../../lib/testing/functions.ts';
import { Checker } from '../../lib/testing/invariants.ts';
import { type ExecutionFate, MemoryMachine } from '../../lib/testing/memory-machine.ts';
import type { MemoryQueue } from '../../lib/testing/memory-queue.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Process } from '../../lib/testing/process.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { type Command, encodeReport, encodeRequest, type Report, type Request } from '../../lib/wire/index.ts';

export interface ControlPlaneOptions {
  readonly startsAt?: number;
  readonly settings?: Partial<PoolSettings>;
  readonly network?: Network;
  readonly invocations?: InvocationFate;
  readonly executions?: ExecutionFate;
}

export const LEASE_MS = 30_000;
const SWEEP_MS = 60_000;
const NEVER = Number.MAX_SAFE_INTEGER;
/** Nothing that a test asks for takes so many steps; something goes round in circles. */
const MOST_STEPS = 100_000;

/**
 * The functions on their queues and tables, and the state machine that times rounds, with nobody around them: a test plays the producers and
 * the workers. Time goes on only where a test waits for rest, and then only to what happens next, or where a test lets it.
 *
 * Every port call of a function goes over `network`, and the guarantees are checked at each write and each start that is sent; the
 * first breach ends the test.
 */
export class ControlPlane {
  readonly scheduler: Scheduler;
  readonly services: MemoryServices;
  readonly settings: PoolSettings;
  readonly resync: ResyncSettings = { leaseMs: LEASE_MS, roundTimeoutMs: LEASE_MS, maxSilentRounds: 3 };
  readonly machine: MemoryMachine;
  /** Executions that were asked for, in order; a name that was taken before included. */
  readonly executions: (ExecutionInput & { readonly name: string })[] = [];
  /** With what executions were woken, in order; those included that nobody waited for any more. */
  readonly woken: RoundResult[] = [];
  /** Commands that an inbox took, in order. */
  readonly sent: Command[] = [];
  readonly counts = new Map<Count, number>();
  /** What was measured, in order. */
  readonly gauges: (readonly [Gauge, number])[] = [];
  /** Reasons of what was not handled, in order. */
  readonly failures: string[] = [];
  /** The rules that decided, in order. */
  readonly rules: string[] = [];
  readonly #calls: Calls;
  readonly #checker: Checker;
  readonly #violations: Violation[] = [];
  readonly #telemetry: Telemetry;
  readonly #invocations: InvocationFate;
  readonly #functions: readonly EventSource[];
  #lags = false;
  #sweeps = 0;
  #sends = 0;
  #steps = 0;

  constructor({ startsAt, settings, network = calm, invocations = promptly, executions }: ControlPlaneOptions = {}) {
    const scheduler = new Scheduler(startsAt === undefined ? {} : { startsAt });
    this.scheduler = scheduler;
    this.#invocations = invocations;
    this.settings = { ...DEFAULT_SETTINGS, ...settings };
    this.#checker = new Checker({
      scheduler,
      leaseMs: LEASE_MS,
      services: () => this.services,
      onViolation: (violation) => this.#violations.push(violation),
      hearsOfHandlers: false,
    });
    const observe = { job: this.#checker.job, dispatch: this.#checker.dispatch };
    const lag: IndexLag = (apply) => this.#lags || apply();
    this.services = new MemoryServices({ clock: scheduler, timer: scheduler, observe, lag });
    this.#calls = new Calls(scheduler, network, ({ method, args }) =>
      this.services.lostRace(method === 'commitSettled' ? 'commit' : method, args),
    );
    this.#telemetry = {
      decided: ({ rule }) => this.rules.push(String(rule)),
      count: (name) => this.counts.set(name, (this.counts.get(name) ?? 0) + 1),
      gauge: (name, value) => void this.gauges.push([name, value]),
      failed: ({ reason }) => void this.failures.push(reason),
    };
    this.#functions = [
      this.#function('request', this.services.requests, consumeRequest),
      this.#function('report', this.services.reports, consumeReport),
    ];
    this.machine = new MemoryMachine({ scheduler, settings: this.resync, ports: (process) => this.#stepPorts(process), fate: executions });
    this.services.machine = {
      start: async (name, input) => {
        this.executions.push({ name, ...input });
        await this.machine.start(name, input);
      },
      wake: async (taskToken, result) => {
        this.woken.push(result);
        await this.machine.wake(taskToken, result);
      },
    };
  }

  now(): number {
    return this.scheduler.now();
  }

  /** A worker that registered, and that the control plane saw; asked of the sweep's own accord only where it is to be audited. */
  async addWorker(
    workerId: string,
    session: string,
    {
      capacity = 10,
      isSeen = true,
      leaseMs = LEASE_MS,
      isAudited = false,
    }: { readonly capacity?: number; readonly isSeen?: boolean; readonly leaseMs?: number; readonly isAudited?: boolean } = {},
  ): Promise<void> {
    const { inboxes, workers } = this.services;
    await inboxes.create(session);
    await workers.register({ workerId, session, capacity, leaseMs, registeredAt: this.now() });
    const { generation } = await workers.poolState();
    const stamp = { ...(isSeen ? { generation } : {}), ...(isAudited ? {} : { auditAt: NEVER }) };
    await workers.change(workerId, { session, states: ['active'] }, stamp);
  }

  /** A change that no index and no cached list shows. */
  async unlisted(change: () => Promise<unknown>): Promise<void> {
    this.#lags = true;
    await change();
    this.#lags = false;
  }

  /** Writes a record as it is, and what stands there is gone. */
  async putJob(job: Job): Promise<void> {
    await this.services.jobs.commit(job, this.services.jobs.versioned(job.key)?.rev);
  }

  async putDispatch(dispatch: Dispatch, payload: Uint8Array): Promise<void> {
    const { dispatches } = this.services;
    const { dispatchId, key, fingerprint, fence, requestedAt } = dispatch;
    if (fingerprint === undefined) await dispatches.change(dispatch, 'absent');
    else {
      await dispatches.admit({ status: 'admitted', dispatchId, key, fingerprint, fence, requestedAt }, payload);
      if (dispatch.status !== 'admitted') await dispatches.change(dispatch, 'admitted');
    }
  }

  request(...requests: readonly Request[]): void {
    for (const request of requests) this.deliver(encodeRequest(request), request.key);
  }

  /** The body of a request as some producer wrote it; `group` stands for the hash of the key. */
  deliver(body: string, group: string): void {
    this.services.requests.send({ body, ...this.#fresh(group) });
  }

  report(...reports: readonly Report[]): void {
    for (const report of reports) this.services.reports.send({ body: encodeReport(report) });
  }

  /** Until every message is consumed or dead-lettered, and no function is at work. What waits for its time goes on waiting. */
  async rest(): Promise<void> {
    const { requests, reports } = this.services;
    const isAtWork = () => this.#steps + requests.size + reports.size > 0 || this.#functions.some(({ inFlight }) => inFlight > 0);
    for (let steps = 0; isAtWork() && (await this.scheduler.step()); steps++) {
      this.#assertSound();
      if (steps > MOST_STEPS) throw new Error('does not come to rest');
    }
    this.#assertSound();
  }

  /** Lets so much time go by, whoever is at work. */
  async advance(ms: number): Promise<void> {
    const until = this.now() + ms;
    await this.scheduler.settle();
    while (await this.scheduler.step(until)) this.#assertSound();
    this.scheduler.skipTo(until);
    this.#assertSound();
  }

  /** Passes of the sweep, one a minute, until one gets through; then until rest. */
  async sweep(): Promise<void> {
    for (let passes = 1; !(await this.newSweep().pass()); passes++) {
      if (passes > 10) throw new Error('no pass of the sweep gets through');
      await this.advance(SWEEP_MS);
    }
    // What it began may have to be tried again.
    for (let tries = 0; tries < 10 && this.machine.running > 0; tries++) await this.advance(5_000);
  }

  /** A sweep, which remembers from pass to pass; undefined where a pass does not get through, or not to everything. */
  newSweep(): { begin(): void; pass(): Promise<{ readonly isIdle: boolean } | undefined> } {
    const process = new Process(this.scheduler, { name: `sweep-${++this.#sweeps}`, kind: 'function' });
    const sweep = new Sweep(this.#ports(process), this.resync);
    return {
      begin: () => sweep.begin(),
      pass: async () => {
        let result: { readonly isIdle: boolean } | undefined;
        let isOver = false;
        const failures = this.failures.length;
        const over = () => {
          isOver = true;
        };
        process.onDeath(over);
        sweep.pass().then((through) => {
          result = through;
          over();
        }, over);
        while (!isOver && (await this.scheduler.step())) this.#assertSound();
        if (this.failures.length > failures) result = undefined;
        await this.rest();
        return result;
      },
    };
  }

  /** Dead-letters every message that a function has in hand, as a queue does whose redrive policy knows no better. */
  deadLetterInHand(): void {
    for (const queue of [this.services.requests, this.services.reports]) {
      const received = queue.messages().map(({ receiveCount }) => receiveCount > 0);
      queue.takeAll().forEach((message, index) => {
        (received[index] ? queue.deadLetters : queue)?.send({ ...message, ...this.#fresh(message.group) });
      });
    }
  }

  /** Puts the dead letters back on their queues, as an operator does. */
  redrive(): void {
    for (const queue of [this.services.requests, this.services.reports]) {
      for (const { body, group } of queue.deadLetters?.takeAll() ?? []) queue.send({ body, ...this.#fresh(group) });
    }
  }

  #function(name: string, queue: MemoryQueue, consume: typeof consumeReport): EventSource {
    return new EventSource({
      name,
      scheduler: this.scheduler,
      queue,
      fate: this.#invocations,
      handler: (process, batch) => ({
        consume: (delivery) => consume(this.#ports(process), this.settings, delivery),
        source: this.#calls.port(this.services.source(queue, batch), 'queue', process),
        telemetry: this.#telemetry,
      }),
    });
  }

  #fresh(group: string | undefined): { readonly group?: string; readonly deduplicationId?: string } {
    return group === undefined ? {} : { group, deduplicationId: `sent by the test ${++this.#sends}` };
  }

  #ports(process: Process): ResyncPorts {
    const { jobs, dispatches, workers, inboxes } = this.services;
    const ports = this.services.poolPorts(this.#telemetry, process);
    const commands: ResyncPorts['commands'] = {
      send: async (command) => {
        if (command.op === 'start') this.#checker.startSent(command);
        const sent = await inboxes.send(command);
        if (sent === 'sent') this.sent.push(command);
        return sent;
      },
    };
    return {
      ...ports,
      jobs: this.#calls.port(jobs, 'jobs', process),
      dispatches: this.#calls.port(dispatches, 'dispatches', process),
      workers: this.#calls.port(workers, 'workers', process),
      commands: this.#calls.port(commands, 'commands', process),
      requests: this.#calls.port(ports.requests, 'requests', process),
      rounds: this.#calls.port(ports.rounds, 'rounds', process),
      restores: this.#calls.port(ports.restores, 'restores', process),
      machine: this.#calls.port(ports.machine, 'machine', process),
    };
  }

  #stepPorts(process: Process): ResyncPorts {
    this.#steps += 1;
    process.onDeath(() => {
      this.#steps -= 1;
    });
    return this.#ports(process);
  }

  #assertSound(): void {
    const [violation] = this.#violations;
    if (violation) throw new Error(`${violation.guarantee}: ${violation.what}`);
  }
}

const calm: Network = { fate: () => ({ delayMs: 0 }) };
