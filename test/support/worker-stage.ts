import { type Call, Calls, type Fate } from '../../lib/testing/calls.ts';
import { SequentialIds } from '../../lib/testing/memory-ids.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Process } from '../../lib/testing/process.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { type Command, parseReport, type Report, type StopReason } from '../../lib/wire/index.ts';
import type { WorkerEvent } from '../../lib/worker/events.ts';
import { defineHandler, type Handler, type Job, type Raw, RetryableError, type Stopping } from '../../lib/worker/handler.ts';
import type { Logger } from '../../lib/worker/logger.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { createWorker, type Runtime, type RuntimeOptions } from '../../lib/worker/runtime.ts';

export const LEASE_MS = 30_000;

export interface StageOptions extends Partial<Omit<RuntimeOptions, 'logger'>> {
  readonly fate?: (call: Call) => Fate | undefined;
}

/**
 * One real worker runtime on a virtual clock, its services in memory and nobody else: a test plays the control plane. All that the worker says
 * and tells is kept in order.
 */
export class WorkerStage {
  readonly scheduler = new Scheduler();
  readonly services = new MemoryServices({ clock: this.scheduler, timer: this.scheduler });
  readonly process = new Process(this.scheduler, { name: 'w1', kind: 'worker' });
  readonly handler: ScriptedHandler;
  readonly worker: Runtime;
  readonly reports: Report[] = [];
  readonly events: WorkerEvent[] = [];
  readonly log: { readonly level: keyof Logger; readonly message: string; readonly fields?: object }[] = [];
  /** Reports, events and calls of the handler, in the order in which they happened. */
  readonly story: string[] = [];
  readonly calls: Call[] = [];
  fate: (call: Call) => Fate | undefined;
  cutOff: ReadonlySet<string> = new Set();
  #ended?: { readonly session: string; readonly state: 'revoked' | 'lost' };

  constructor({ fate = () => undefined, ...options }: StageOptions = {}) {
    this.fate = fate;
    this.handler = new ScriptedHandler((what) => this.story.push(what));
    const network = {
      fate: (call: Call) => {
        this.calls.push(call);
        return this.fate(call) ?? { delayMs: 0 };
      },
      isCutOff: ({ service }: Call) => this.cutOff.has(service),
    };
    const calls = new Calls(this.scheduler, network, () => false);
    const ports = this.services.workerPorts({ clock: this.process, timer: this.process, ids: new SequentialIds(this.scheduler) });
    const { workers } = this.services;
    const registry: Registry = {
      register: workers.register.bind(workers),
      drain: workers.drain.bind(workers),
      leave: workers.leave.bind(workers),
      heartbeat: async (said) => {
        const row = workers.peek(said.workerId);
        if (!row || this.#ended?.session !== said.session) return workers.heartbeat(said);
        return { outcome: 'refused', row: { ...row, state: this.#ended.state } };
      },
    };
    const write = (level: keyof Logger) => (message: string, fields?: object) => {
      this.log.push({ level, message, ...(fields && { fields }) });
    };
    this.worker = createWorker(
      {
        ...ports,
        registry: calls.port(registry, 'registry', this.process),
        inboxes: calls.port(ports.inboxes, 'inbox', this.process),
        reports: calls.port(ports.reports, 'reports', this.process),
      },
      {
        handler: this.handler.handler,
        workerId: 'w1',
        leaseMs: LEASE_MS,
        capacity: 10,
        drainDeadlineMs: 25_000,
        stopDeadlineMs: 20_000,
        logger: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
        ...options,
        onEvent: (event) => {
          this.events.push(event);
          options.onEvent?.(event);
        },
      },
    );
  }

  static async registered(options: StageOptions = {}): Promise<WorkerStage> {
    const stage = new WorkerStage(options);
    const started = stage.worker.start();
    await stage.settle();
    await started;
    return stage;
  }

  /** The session that the row is of. */
  get session(): string {
    return this.services.workers.peek('w1')?.session ?? '';
  }

  /** Puts a command into the inbox of the session that is registered, or of the one that it names. */
  async send(...commands: SentCommand[]): Promise<void> {
    for (const command of commands) await this.services.inboxes.send({ session: this.session, ...command } as Command);
    await this.settle();
  }

  /** What the control plane made of the row. */
  end(state: 'revoked' | 'lost'): void {
    this.#ended = { session: this.session, state };
  }

  async sendBody(body: string): Promise<void> {
    this.services.inboxes.queue(this.session)?.send({ body, group: 'any', deduplicationId: `body ${this.story.length} ${body}` });
    await this.settle();
  }

  /** Until nothing is due now. */
  async settle(): Promise<void> {
    await this.advance(0);
  }

  async advance(ms: number): Promise<void> {
    await this.scheduler.advance(ms);
    this.#hear();
  }

  /** In small steps, until `condition` holds. */
  async until(condition: () => boolean, withinMs: number): Promise<void> {
    for (let passed = 0; !condition(); passed += 100) {
      if (passed >= withinMs) throw new Error(`not within ${withinMs} ms; so far: ${this.story.join(', ')}`);
      await this.advance(100);
    }
  }

  of<T extends Report['type']>(type: T): readonly Extract<Report, { type: T }>[] {
    return this.reports.filter((report): report is Extract<Report, { type: T }> => report.type === type);
  }

  eventsOf<T extends WorkerEvent['type']>(type: T): readonly Extract<WorkerEvent, { type: T }>[] {
    return this.events.filter((event): event is Extract<WorkerEvent, { type: T }> => event.type === type);
  }

  /** Takes what the report queue has. */
  #hear(): void {
    for (let batch = this.services.reports.receive(); batch.length > 0; batch = this.services.reports.receive()) {
      for (const { body, receipt } of batch) {
        this.services.reports.delete(receipt);
        const parsed = parseReport(body);
        if (!parsed.ok) throw new Error(`the report queue holds ${body}: ${parsed.refusal.message}`);
        this.reports.push(parsed.value);
      }
    }
  }
}

export type SentCommand = Command extends infer C
  ? C extends Command
    ? Omit<C, 'session'> & { readonly session?: string }
    : never
  : never;

/** What a scripted call does: returns at once, throws, or hangs until it is told. */
export type Way = 'works' | 'throws' | 'throws retryably' | 'hangs';

/** A handler that does what a test says, and tells what was asked of it. */
export class ScriptedHandler {
  way: { start: Way; stop: Way; notify: Way } = { start: 'works', stop: 'works', notify: 'works' };
  readonly jobs: Job<Raw>[] = [];
  readonly stoppings: Stopping[] = [];
  readonly notified: { readonly key: string; readonly id: string; readonly text: string }[] = [];
  readonly handler: Handler;
  readonly #done = new Map<string, PromiseWithResolvers<unknown>>();
  readonly #hanging: { readonly what: string; readonly key: string; readonly call: PromiseWithResolvers<void> }[] = [];

  constructor(tell: (what: string) => void) {
    this.handler = defineHandler({
      start: async (job) => {
        this.jobs.push(job);
        tell(`start ${job.dispatchId} ${job.fence}`);
        job.signal.addEventListener('abort', () => tell(`signal: ${reasonOf(job.signal)}`));
        job.lost.addEventListener('abort', () => tell(`lost: ${reasonOf(job.lost)}`));
        await this.#call('start', job.key);
        const done = Promise.withResolvers<unknown>();
        this.#done.set(job.key, done);
        return {
          done: done.promise,
          stop: async (stopping) => {
            this.stoppings.push(stopping);
            tell(`stop ${job.dispatchId} ${job.fence}: ${stopping.reason}${stopping.mayWrite ? '' : ', may not write'}`);
            await this.#call('stop', job.key);
          },
          notify: async (payload, id) => {
            this.notified.push({ key: job.key, id, text: payload.text() });
            tell(`notify ${job.dispatchId} ${id}`);
            await this.#call('notify', job.key);
          },
        };
      },
    });
  }

  /** Settles the first call of that kind which hangs. */
  settle(what: 'start' | 'stop' | 'notify', error?: Error, key?: string): void {
    const index = this.#hanging.findIndex((call) => call.what === what && (key === undefined || call.key === key));
    const [hanging] = this.#hanging.splice(index, 1);
    if (index < 0 || !hanging) throw new Error(`no ${what} hangs`);
    if (error) hanging.call.reject(error);
    else hanging.call.resolve();
  }

  finish(key: string, result?: unknown): void {
    this.#end(key).resolve(result);
  }

  fail(key: string, error: unknown): void {
    this.#end(key).reject(error);
  }

  #end(key: string): PromiseWithResolvers<unknown> {
    const done = this.#done.get(key);
    if (!done) throw new Error(`nothing is up at "${key}"`);
    return done;
  }

  async #call(what: 'start' | 'stop' | 'notify', key: string): Promise<void> {
    switch (this.way[what]) {
      case 'works':
        return;
      case 'throws':
        throw new Error(`${what} failed`);
      case 'throws retryably':
        throw new RetryableError(`${what} failed`, { retryAfterMs: 5_000 });
      case 'hangs': {
        const call = Promise.withResolvers<void>();
        this.#hanging.push({ what, key, call });
        return call.promise;
      }
      default:
        return this.way[what] satisfies never;
    }
  }
}

function reasonOf(signal: AbortSignal): StopReason {
  return (signal.reason as Stopping).reason;
}
