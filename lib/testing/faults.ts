import type { Call, CallFault, Fate, Network } from './calls.ts';
import type { IndexLag } from './frozen.ts';
import type { Invocation } from './functions.ts';
import { Incidents } from './incidents.ts';
import type { ExecutionFate } from './memory-machine.ts';
import type { Disturbance, NewMessage } from './memory-queue.ts';
import { FUNCTION_TIMEOUT_MS } from './memory-services.ts';
import type { Process } from './process.ts';
import { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

/** How likely each fault is, from 0 to 1: per call, per message, per invocation. */
export interface FaultRates {
  /** A call takes up to some seconds. */
  readonly slow: number;
  readonly failed: number;
  readonly throttled: number;
  readonly 'answer-lost': number;
  readonly conflict: number;
  /** A function dies at a call. */
  readonly died: number;
  /** A worker does. */
  readonly 'worker-died': number;
  /** A command or a report is never seen by anybody, and only a resync round finds out. */
  readonly lost: number;
  /** A request or a report is dead-lettered unread, and perhaps put back some time. */
  readonly 'dead-lettered': number;
  readonly late: number;
  /** A message comes again although it was deleted. */
  readonly again: number;
  /** A standard queue gives another message than the oldest. */
  readonly reordered: number;
  /** An index or a cached list shows a change late. */
  readonly lag: number;
  /** A function's messages are given to others while it goes on. */
  readonly zombie: number;
  /** A function's time is over early. */
  readonly 'timed-out': number;
  /** A timer of the state machine fires late. */
  readonly 'late-timer': number;
  /** An execution of it fails between two steps. */
  readonly 'failed-execution': number;
  /** A step of it runs a second time, because nobody heard that it had run. */
  readonly 'step-again': number;
}

export type FaultKind = keyof FaultRates;

export const NO_FAULTS: FaultRates = {
  slow: 0,
  failed: 0,
  throttled: 0,
  'answer-lost': 0,
  conflict: 0,
  died: 0,
  'worker-died': 0,
  lost: 0,
  'dead-lettered': 0,
  late: 0,
  again: 0,
  reordered: 0,
  lag: 0,
  zombie: 0,
  'timed-out': 0,
  'late-timer': 0,
  'failed-execution': 0,
  'step-again': 0,
};

export const FAULT_KINDS = Object.keys(NO_FAULTS) as readonly FaultKind[];

const WORSE = 0.8;

const CONDITIONAL = new Set(['jobs.commit', 'dispatches.admit', 'dispatches.change', 'restores.restore']);

/** The network, queues and functions as a seed has them fail. */
export class Faults implements Network {
  /** How often each was injected. */
  readonly injected = new Map<string, number>();
  readonly #random: Random;
  readonly #scheduler: Scheduler;
  readonly #incidents: Incidents;
  /** Of each kind by itself. */
  readonly #lots: { readonly [kind in FaultKind]: Random };
  readonly #cutOff = new Map<Process, Set<string>>();
  /** Until when it happens to most of what is about a key or a worker; by kind and name. */
  readonly #worse = new Map<string, number>();
  #rates: FaultRates;

  constructor(random: Random, scheduler: Scheduler, rates: FaultRates, incidents = new Incidents()) {
    this.#random = random;
    this.#scheduler = scheduler;
    this.#rates = rates;
    this.#incidents = incidents;
    const lots = FAULT_KINDS.map((kind) => [kind, new Random(random.seed())]);
    this.#lots = Object.fromEntries(lots) as { readonly [kind in FaultKind]: Random };
  }

  /** From here on nothing is disturbed any more; what was under way stays as it is. */
  end(): void {
    this.#rates = NO_FAULTS;
    this.#cutOff.clear();
    this.#worse.clear();
  }

  count(kind: string): void {
    this.injected.set(kind, (this.injected.get(kind) ?? 0) + 1);
  }

  /** The process does not reach the service until it is let through again. */
  cutOff(process: Process, service: string): void {
    this.count(`cut-off ${service}`);
    const services = this.#cutOff.get(process) ?? new Set();
    this.#cutOff.set(process, services.add(service));
  }

  letThrough(process: Process, service: string): void {
    this.#cutOff.get(process)?.delete(service);
  }

  /** For so long it happens to most of what is sent, and of the calls that are made, about this key or worker. */
  worsen(kind: FaultKind, about: string, forMs: number): void {
    this.#worse.set(`${kind} ${about}`, this.#scheduler.now() + forMs);
  }

  isCutOff({ by, service }: Call): boolean {
    return this.#cutOff.get(by)?.has(service) === true;
  }

  fate(call: Call): Fate {
    const delayMs = this.#happens('slow', call) ? this.#random.between(100, 8_000) : this.#random.between(1, 15);
    return { delayMs, fault: this.#faultOf(call) };
  }

  #faultOf(call: Call): CallFault | undefined {
    const { by, service, method } = call;
    if (this.#happens('failed', call)) return 'failed';
    if (this.#happens('throttled')) return 'throttled';
    if (this.#happens('answer-lost')) return 'answer-lost';
    if (by.kind === 'function' && CONDITIONAL.has(`${service}.${method}`) && this.#happens('conflict')) return 'conflict';
    if (by.kind === 'function' && this.#happens('died')) return this.#random.chance(0.5) ? 'died-before' : 'died-after';
    if (by.kind === 'worker' && this.#happens('worker-died')) return this.#random.chance(0.5) ? 'died-before' : 'died-after';
    return undefined;
  }

  readonly lag: IndexLag = (apply) => {
    if (this.#happens('lag')) this.#scheduler.after(this.#random.between(10, 8_000), apply);
    else apply();
  };

  /** Of one queue; requests are never lost. */
  disturbance(mayLose: boolean): Disturbance {
    const again = new Set<string>();
    return {
      lost: (message) => mayLose && this.#happens('lost', message),
      deadLettered: () => this.#happens('dead-lettered'),
      late: (message) => (this.#happens('late', message) ? this.#random.between(50, 20_000) : 0),
      again: (message) => {
        if (again.has(message.id) || !this.#happens('again', message)) return undefined;
        again.add(message.id);
        return this.#random.between(0, 20_000);
      },
      pick: (count) => (this.#happens('reordered') ? this.#random.below(count) : 0),
    };
  }

  readonly invocation = (): Invocation => {
    const zombie = this.#happens('zombie');
    return {
      batchSize: this.#random.between(1, 10),
      delayMs: this.#random.between(0, 30),
      timeoutMs: zombie
        ? this.#random.between(2_000, FUNCTION_TIMEOUT_MS)
        : this.#happens('timed-out')
          ? this.#random.between(20, 2_000)
          : FUNCTION_TIMEOUT_MS,
      ...(zombie ? { givenUpAfterMs: this.#random.between(5, 1_000) } : {}),
      hiddenAfterDeathMs: this.#random.between(0, 6_000),
      skewMs: this.#random.between(-500, 500),
    };
  };

  readonly execution: ExecutionFate = (at) => ({
    lateMs: at === 'timer' && this.#happens('late-timer') ? this.#random.between(1_000, 60_000) : 0,
    dies: at === 'step' && this.#happens('failed-execution'),
    runsTwice: at === 'function' && this.#happens('step-again'),
  });

  /** `about`: the message or call that it happens to. */
  #happens(kind: FaultKind, about?: NewMessage | Call): boolean {
    const isWorse = about !== undefined && this.#worse.size > 0 && this.#isWorse(kind, about);
    const happens = this.#lots[kind].chance(isWorse ? WORSE : this.#rates[kind]) && this.#incidents.happens(kind);
    if (happens) this.count(kind);
    return happens;
  }

  #isWorse(kind: FaultKind, about: NewMessage | Call): boolean {
    const now = this.#scheduler.now();
    return namesIn(about).some((name) => now < (this.#worse.get(`${kind} ${name}`) ?? Number.NEGATIVE_INFINITY));
  }
}

/** What is spoken of: the group of a request or a command is its key; a report, and whatever else is passed on, names its own. */
function namesIn(about: NewMessage | Call): readonly (string | undefined)[] {
  if ('service' in about) return about.args.flat().flatMap((sent) => (typeof sent === 'string' ? [sent] : sent ? named(sent) : []));
  return about.group === undefined ? named(JSON.parse(about.body)) : [about.group.replace(/^key /, '')];
}

function named({ key, worker, workerId }: { readonly key?: string; readonly worker?: string; readonly workerId?: string }) {
  return [key, worker, workerId];
}
