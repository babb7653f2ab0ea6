import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Delivery, processBatch, type Source } from '../lib/pool/batch.ts';
import { consumeRequest } from '../lib/pool/consume-request.ts';
import type { Page, Telemetry } from '../lib/pool/ports.ts';
import { DEFAULT_SETTINGS } from '../lib/pool/settings.ts';
import { consumeReport } from '../lib/resync/consume-report.ts';
import type { ResyncPorts } from '../lib/resync/ports.ts';
import { armRound, expireRound, openRound, reassignStep, type Step } from '../lib/resync/run-round.ts';
import { type Call, Calls } from '../lib/testing/calls.ts';
import { MemoryServices } from '../lib/testing/memory-services.ts';
import { Process } from '../lib/testing/process.ts';
import { Scheduler } from '../lib/testing/scheduler.ts';
import { encodeReport, fingerprintOf, parseCommand, type ResyncCommand } from '../lib/wire/index.ts';
import { Ends } from '../lib/worker/fences.ts';
import type { Life } from '../lib/worker/life.ts';
import { type AnswerPage, type KeyView, Round } from '../lib/worker/round.ts';
import { numbered } from './numbers.ts';

/**
 * What it takes to ask a worker of many jobs what it runs, and to give its jobs to others: the real steps of a round, functions of both queues
 * and answer of a worker, on memory ports.
 *
 * Calls, writes and bytes are exact. A function waits for its services on a virtual clock, each request as long as `assumptions` says, with
 * as many of them in the air as the code has; its CPU time is what this process took, as long as it would take at the function's share of a
 * CPU. Its memory is what it holds at most beyond the stores, what it wrote into them included, garbage left out.
 */
export interface ResyncCase {
  /** What the worker runs when the round begins. */
  readonly jobs: number;
  /** What became of them: nothing; every one finished, and no report of it arrived; their worker died. */
  readonly fate: Fate;
  /** Of the question, and of the answer. */
  readonly pages: number;
  readonly answerPages: number;
  /** The largest message of each. */
  readonly questionBytes: number;
  readonly answerBytes: number;
  /** Of job and dispatch records, per job. */
  readonly writesPerJob: number;
  /** What the round writes of itself, per page of the question. */
  readonly roundWritesPerPage: number;
  /** What the worker takes to make its whole answer, s of CPU; nothing else of it goes on meanwhile. */
  readonly answerSeconds: number;
  /** Of `assign`, per job; none but where the worker died. */
  readonly requestsPerJob: number;
  readonly functions: readonly FunctionUse[];
}

type Fate = 'unchanged' | 'finished' | 'lost';

export interface FunctionUse {
  readonly function: FunctionName;
  readonly invocations: number;
  /** Requests to services, per job over all invocations. */
  readonly callsPerJob: number;
  /** Likewise, at the function's share of a CPU. */
  readonly cpuMsPerJob: number;
  // Of the invocation that took most:
  readonly waitSeconds: number;
  readonly cpuSeconds: number;
  readonly seconds: number;
  readonly heapMb: number;
}

type FunctionName = 'open' | 'arm' | 'report' | 'expire' | 'reassign' | 'request';

export interface ResyncResult {
  readonly bench: 'resync';
  readonly assumptions: typeof assumptions;
  readonly cases: readonly ResyncCase[];
  /** Which count is beyond its budget, or grew with the number of jobs. */
  readonly breaches: readonly string[];
  /** Which time or memory did; what else the machine had to do shows in these. */
  readonly slow: readonly string[];
}

const assumptions = {
  /** Each request to DynamoDB, SQS or Step Functions, ms. */
  requestMs: 10,
  /** With so much memory a function has one CPU to itself, with less its share of it. */
  cpuMemoryMb: 1_769,
  /** What a function holds before it is called: Node, its code, its clients. */
  idleMb: 110,
  /** Keys on a page of the index of owners. */
  ownedPage: 1_000,
  messagesPerBatch: 10,
} as const;

/** As deployed, memory and time of each. */
const deployed: Readonly<Record<FunctionName, { readonly memoryMb: number; readonly timeoutSeconds: number }>> = {
  open: { memoryMb: 512, timeoutSeconds: 60 },
  arm: { memoryMb: 512, timeoutSeconds: 60 },
  expire: { memoryMb: 512, timeoutSeconds: 60 },
  reassign: { memoryMb: 512, timeoutSeconds: 60 },
  report: { memoryMb: 256, timeoutSeconds: 20 },
  request: { memoryMb: 256, timeoutSeconds: 20 },
};

const FATES: readonly Fate[] = ['unchanged', 'finished', 'lost'];
const SIZES = [1_000, 10_000, 100_000];
const LEASE_MS = 30_000;
const SETTINGS = { leaseMs: LEASE_MS, roundTimeoutMs: LEASE_MS, maxSilentRounds: 3 };
const PAYLOAD = new TextEncoder().encode('{"feed":"x"}');
const [WORKER, SESSION] = ['worker-0', 'session-0'];
/** Where the worker died, a job gets its next owner, and its dispatch the fence of it. */
const WRITES_PER_JOB: Readonly<Record<Fate, number>> = { unchanged: 0, finished: 1.3, lost: 2 };
const MAX_MESSAGE_BYTES = 1_048_576;
/** Pages are not always full, numbers get longer. */
const GROWTH = 1.02;
/** Timing is not exact: caches are smaller than 100 000 jobs. */
const CPU_GROWTH = 2.5;

export async function resync(log: (line: string) => void, sizes = SIZES): Promise<ResyncResult> {
  // Compilers warm up on code and not on jobs.
  for (const fate of FATES) await measure(100, fate, { looksAtMemory: false });
  const cases: ResyncCase[] = [];
  for (const fate of FATES) {
    for (const jobs of sizes) {
      log(`${jobs} jobs, ${fate}`);
      cases.push(await measure(jobs, fate));
    }
  }
  const breaches = [...cases.flatMap((of) => beyond(of, countsOf(of))), ...FATES.flatMap((fate) => growthOf(cases, fate, grownCounts))];
  const slow = [...cases.flatMap((of) => beyond(of, timesOf(of))), ...FATES.flatMap((fate) => growthOf(cases, fate, grownTimes))];
  return { bench: 'resync', assumptions, cases, breaches, slow };
}

type Limit = readonly [name: string, value: number, limit: number];

function countsOf(each: ResyncCase): readonly Limit[] {
  return [
    ['writes per job', each.writesPerJob, WRITES_PER_JOB[each.fate]],
    ['bytes of a question', each.questionBytes, MAX_MESSAGE_BYTES],
    ['bytes of an answer', each.answerBytes, MAX_MESSAGE_BYTES],
    ['requests per job', each.requestsPerJob, each.fate === 'lost' ? 1 : 0],
  ];
}

function timesOf(each: ResyncCase): readonly Limit[] {
  return [
    ['seconds of an answer', each.answerSeconds, LEASE_MS / 3_000],
    ...each.functions.flatMap(({ function: name, seconds, heapMb }): Limit[] => [
      [`seconds of ${name}`, seconds, deployed[name].timeoutSeconds],
      [`MB of ${name}`, assumptions.idleMb + heapMb, deployed[name].memoryMb],
    ]),
  ];
}

function beyond({ jobs, fate }: ResyncCase, limits: readonly Limit[]): readonly string[] {
  return limits.flatMap(([name, value, limit]) =>
    value <= limit ? [] : [`${name} with ${jobs} jobs, ${fate}: ${value}, at most ${limit}`],
  );
}

type Grown = (small: ResyncCase, large: ResyncCase) => readonly (readonly [name: string, small: number, large: number, by: number])[];

const grownCounts: Grown = (small, large) => [
  ['calls per job', callsPerJob(small), callsPerJob(large), GROWTH],
  ['bytes of a question', small.questionBytes, large.questionBytes, GROWTH],
  ['bytes of an answer', small.answerBytes, large.answerBytes, GROWTH],
];

const grownTimes: Grown = (small, large) => [['CPU ms per job', cpuMsPerJob(small), cpuMsPerJob(large), CPU_GROWTH]];

function callsPerJob({ functions }: ResyncCase): number {
  return functions.reduce((sum, each) => sum + each.callsPerJob, 0);
}

function cpuMsPerJob({ functions, jobs, answerSeconds }: ResyncCase): number {
  return rounded(functions.reduce((sum, each) => sum + each.cpuMsPerJob, (answerSeconds * 1_000) / jobs));
}

/** Whatever is taken per job may not grow with their number. */
function growthOf(cases: readonly ResyncCase[], fate: Fate, grown: Grown): readonly string[] {
  const among = cases.filter((each) => each.fate === fate);
  const [small, large] = [among[0], among.at(-1)];
  if (!small || !large || small === large) return [];
  return grown(small, large).flatMap(([name, from, to, by]) => (to <= from * by ? [] : [`${name}, ${fate}: ${from} to ${to}`]));
}

async function measure(jobs: number, fate: Fate, { looksAtMemory = true } = {}): Promise<ResyncCase> {
  const stage = await Stage.set(jobs, looksAtMemory);
  switch (fate) {
    case 'unchanged':
    case 'finished':
      await stage.ask(fate);
      break;
    case 'lost':
      await stage.lose();
      break;
    default:
      fate satisfies never;
  }
  return stage.caseOf(fate);
}

/** One pool in memory, whose worker runs so many jobs. */
class Stage {
  readonly #scheduler = new Scheduler();
  readonly #services = new MemoryServices({ clock: this.#scheduler, timer: this.#scheduler });
  readonly #calls = new Calls(this.#scheduler, { fate: (call) => this.#fateOf(call) }, () => undefined);
  readonly #keys: readonly string[];
  readonly #looksAtMemory: boolean;
  readonly #uses = new Map<FunctionName, Use>();
  readonly #telemetry: Telemetry = {
    decided() {},
    count() {},
    gauge() {},
    failed: ({ reason }) => {
      throw new Error(`a message was not handled: ${reason}`);
    },
  };
  #use = new Use();
  #writes = { records: 0, round: 0 };
  #pages = { asked: 0, answered: 0, questionBytes: 0, answerBytes: 0, seconds: 0 };
  #requests = 0;

  static async set(jobs: number, looksAtMemory: boolean): Promise<Stage> {
    const stage = new Stage(jobs, looksAtMemory);
    await stage.#fill();
    return stage;
  }

  private constructor(jobs: number, looksAtMemory: boolean) {
    this.#looksAtMemory = looksAtMemory;
    this.#keys = Array.from({ length: jobs }, (_, index) => `tenant:${numbered(index)}`);
  }

  async #fill(): Promise<void> {
    const { workers, inboxes, jobs, dispatches } = this.#services;
    const at = this.#scheduler.now();
    for (const [workerId, session] of [
      [WORKER, SESSION],
      ['worker-1', 'session-1'],
      ['worker-2', 'session-2'],
    ] as const) {
      await inboxes.create(session);
      await workers.register({ workerId, session, leaseMs: LEASE_MS, capacity: 1_000_000, registeredAt: at });
      await workers.change(workerId, { session, states: ['active'] }, { generation: 1 });
    }
    for (const key of this.#keys) {
      const head = { key, dispatchId: `order-${key}`, fingerprint: fingerprintOf(key, PAYLOAD), fence: at };
      await dispatches.admit({ ...head, status: 'admitted', requestedAt: at }, PAYLOAD);
      await dispatches.change({ ...head, status: 'started', requestedAt: at, outcome: { outcome: 'started', at } }, 'admitted');
      const owner = { worker: WORKER, session: SESSION };
      await jobs.commit({ ...head, status: 'running', attempt: 1, admittedAt: at, assignedAt: at, startedAt: at, owner }, undefined);
    }
  }

  /** A round that the worker answers. */
  async ask(fate: 'unchanged' | 'finished'): Promise<void> {
    await this.#arm();
    const answer = this.#answer(fate);
    const { reports } = this.#services;
    for (const page of answer) {
      const body = encodeReport({ type: 'resync', worker: WORKER, session: SESSION, at: this.#scheduler.now(), ...page });
      this.#pages.answerBytes = Math.max(this.#pages.answerBytes, body.length);
      reports.send({ body });
    }
    await this.#drain('report');

    const [round] = this.#services.rounds.all();
    if (round?.state !== 'resolved' || round.skipped > 0) throw new Error(`the round did not resolve: ${JSON.stringify(round)}`);
    const status = fate === 'finished' ? 'ended' : 'running';
    this.#assertEach(`is ${status}`, ({ key }) => this.#services.jobs.peek(key)?.status === status);
    this.#assertEach('is settled', ({ id }) => this.#services.dispatches.peek(id)?.status === (fate === 'finished' ? 'ended' : 'started'));
  }

  /** A round that nobody answers, and what follows. */
  async lose(): Promise<void> {
    const { token, silence } = await this.#arm();
    this.#scheduler.skipTo(this.#scheduler.now() + LEASE_MS);
    let step: Step = await this.#invoke('expire', (ports) => expireRound(ports, SETTINGS, token, silence));
    while (step.next === 'reassign') {
      const walk = step;
      // What a walk asked for is done before the next one: the functions assign faster than a walk asks.
      if (walk.afterSeconds > 0) await this.#drain('request');
      this.#scheduler.skipTo(this.#scheduler.now() + walk.afterSeconds * 1_000);
      step = await this.#invoke('reassign', (ports) => reassignStep(ports, { worker: WORKER, session: SESSION }, walk));
    }
    this.#assertEach('runs elsewhere', ({ key }) => {
      const job = this.#services.jobs.peek(key);
      return job?.status === 'assigned' && job.owner.worker !== WORKER;
    });
  }

  caseOf(fate: Fate): ResyncCase {
    const jobs = this.#keys.length;
    const { asked, answered, questionBytes, answerBytes, seconds } = this.#pages;
    return {
      ...{ jobs, fate, pages: asked, answerPages: answered, questionBytes, answerBytes },
      writesPerJob: rounded(this.#writes.records / jobs),
      roundWritesPerPage: rounded(this.#writes.round / asked),
      answerSeconds: rounded(seconds),
      requestsPerJob: rounded(this.#requests / jobs),
      functions: [...this.#uses].map(([name, use]) => use.of(name, jobs)),
    };
  }

  async #arm() {
    const step = await this.#invoke('open', (ports) => openRound(ports, SETTINGS, { worker: WORKER, session: SESSION }, { rounds: 0 }));
    if (step.next !== 'arm') throw new Error(`open said ${step.next}`);
    await this.#invoke('arm', (ports) => armRound(ports, SETTINGS, step.token, 'task'));
    const question = this.#services.inboxes.queue(SESSION)?.messages() ?? [];
    this.#pages.asked = question.length;
    this.#pages.questionBytes = Math.max(...question.map(({ body }) => body.length));
    return step;
  }

  /** As the worker's runtime makes it, of the messages in its inbox. */
  #answer(fate: 'unchanged' | 'finished'): readonly AnswerPage[] {
    const views = this.#keys.map((key) => this.#viewOf(key, fate));
    const round = new Round();
    const bodies = this.#services.inboxes.queue(SESSION)?.takeAll() ?? [];
    const before = process.cpuUsage();
    let answer: readonly AnswerPage[] | 'older-round' = [];
    for (const { body } of bodies) answer = round.take(resyncOf(body), views);
    this.#pages.seconds = secondsSince(before);
    if (answer === 'older-round' || answer.length === 0) throw new Error('the question was not whole');
    this.#pages.answered = answer.length;
    return answer;
  }

  #viewOf(key: string, fate: 'unchanged' | 'finished'): KeyView {
    const job = this.#services.jobs.peek(key);
    if (job?.status !== 'running') throw new Error(`job "${key}" does not run`);
    const { dispatchId, fingerprint, fence, startedAt } = job;
    const ends = new Ends();
    if (fate === 'unchanged')
      return { key, ends, life: { command: { key, dispatchId, fingerprint } as Life['command'], fence, startedAt } };
    const at = startedAt + 1;
    ends.record({
      type: 'finished',
      key,
      dispatchId,
      fingerprint,
      fence,
      worker: WORKER,
      session: SESSION,
      startedAt,
      at,
      result: { lines: 1 },
    });
    return { key, ends, life: undefined };
  }

  /** Functions take what is on their queue, full batches. */
  async #drain(name: 'request' | 'report'): Promise<void> {
    const queue = this.#services[`${name}s`];
    const consume = name === 'request' ? consumeRequest : consumeReport;
    const messages = queue.takeAll();
    if (name === 'request') this.#requests += messages.length;
    for (let from = 0; from < messages.length; from += assumptions.messagesPerBatch) {
      const batch = messages.slice(from, from + assumptions.messagesPerBatch);
      const deliveries = batch.map(({ body, group }, index) => ({ id: String(index), body, receiveCount: 1, ...(group ? { group } : {}) }));
      await this.#invoke(name, async (ports) => {
        const each = (delivery: Delivery) => consume(ports, DEFAULT_SETTINGS, delivery);
        if ((await processBatch(deliveries, each, noSource, this.#telemetry)).length > 0) throw new Error(`queue "${name}": not handled`);
      });
    }
  }

  async #invoke<T>(name: FunctionName, run: (ports: ResyncPorts) => Promise<T>): Promise<T> {
    const use = this.#uses.get(name) ?? new Use();
    this.#uses.set(name, use);
    this.#use = use;
    const invocation = new Process(this.#scheduler, { name, kind: 'function' });
    const ports = this.#ports(invocation);
    use.begin(this.#scheduler.now(), this.#looksAtMemory);
    const work = run(ports);
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    work.then(over, over);
    while (!isOver && (await this.#scheduler.step()));
    use.end(this.#scheduler.now());
    invocation.kill();
    return work;
  }

  #ports(by: Process): ResyncPorts {
    const { clock, telemetry, ...stores } = this.#services.poolPorts(this.#telemetry);
    const jobs = new Proxy(stores.jobs, {
      get: (target, method) => (method === 'ownedBy' ? this.#ownedBy : Reflect.get(target, method)?.bind(target)),
    });
    const watched = Object.entries({ ...stores, jobs }).map(([service, port]) => [service, this.#calls.port(received(port), service, by)]);
    return { ...Object.fromEntries(watched), ids: stores.ids, clock, telemetry };
  }

  /** The index of owners, page by page as DynamoDB gives it; in memory each page would sort all keys. */
  #ownedBy = async (workerId: string, cursor?: string): Promise<Page<string>> => {
    const from = cursor === undefined ? 0 : Number(cursor.split(':')[1]) + 1;
    const items: string[] = [];
    for (let at = from; at < this.#keys.length; at += 1) {
      const key = this.#keys[at] as string;
      const job = this.#services.jobs.peek(key);
      if (!job || !('owner' in job) || job.owner.worker !== workerId) continue;
      if (items.length === assumptions.ownedPage) return { items, cursor: items.at(-1) as string };
      items.push(key);
    }
    return { items };
  };

  #fateOf({ service, method, args: [first] }: Call) {
    const requests = requestsOf(method, first);
    this.#use.called(requests);
    if (isWrite(service, method)) {
      if (service === 'rounds') this.#writes.round += Array.isArray(first) ? first.length : 1;
      else if (service !== 'workers') this.#writes.records += 1;
    }
    return { delayMs: waitOf(method, requests) };
  }

  #assertEach(what: string, isSo: (job: { readonly key: string; readonly id: string }) => boolean): void {
    const not = this.#keys.find((key) => !isSo({ key, id: `order-${key}` }));
    if (not !== undefined) throw new Error(`not so of every job: ${what} (${not})`);
  }
}

/** What comes over a network is the receiver's own. */
function received<T extends object>(port: T): T {
  return new Proxy(port, {
    get: (target, method) => {
      const call = Reflect.get(target, method) as (...args: unknown[]) => unknown;
      return async (...args: unknown[]) => structuredClone(await call.apply(target, args));
    },
  });
}

/** Requests to a service that one call of a port makes. */
function requestsOf(method: string, first: unknown): number {
  const many = Array.isArray(first) ? first.length : 1;
  switch (method) {
    case 'list':
    case 'poolState':
      return 0; // cached
    case 'getMany':
      return Math.ceil(many / 100);
    case 'send':
      return Math.ceil(many / 10);
    case 'commitSettled':
      return 2; // to meet the dispatch again deletes its payload
    default:
      return many;
  }
}

/** One after the other, but for pages that are put side by side. */
function waitOf(method: string, requests: number): number {
  return assumptions.requestMs * (method === 'ask' ? Math.ceil(requests / 25) : requests);
}

function isWrite(service: string, method: string): boolean {
  const isRead = /^(get|getMany|list|due|ownedBy|payload|page|poolState)$/.test(method);
  return !isRead && ['jobs', 'dispatches', 'rounds', 'workers'].includes(service);
}

/** What one function takes, over its invocations. */
class Use {
  invocations = 0;
  #calls = 0;
  #waited = 0;
  #cpu = 0;
  #cpuInAll = 0;
  #heap = 0;
  #begun = { at: 0, cpu: process.cpuUsage() };
  #memory?: Memory;

  begin(at: number, looksAtMemory: boolean): void {
    this.invocations += 1;
    // They are all alike, and looking takes long.
    this.#memory = looksAtMemory && this.invocations === 1 ? new Memory() : undefined;
    this.#begun = { at, cpu: process.cpuUsage() };
  }

  called(requests: number): void {
    this.#calls += requests;
    this.#memory?.called();
  }

  end(at: number): void {
    const { heapBytes = 0, cpuSeconds = 0 } = this.#memory ?? {};
    this.#waited = Math.max(this.#waited, (at - this.#begun.at) / 1_000);
    const cpu = secondsSince(this.#begun.cpu) - cpuSeconds;
    this.#cpu = Math.max(this.#cpu, cpu);
    this.#cpuInAll += cpu;
    this.#heap = Math.max(this.#heap, heapBytes);
  }

  of(name: FunctionName, jobs: number): FunctionUse {
    const share = deployed[name].memoryMb / assumptions.cpuMemoryMb;
    const cpuSeconds = this.#cpu / share;
    return {
      function: name,
      invocations: this.invocations,
      callsPerJob: rounded(this.#calls / jobs),
      cpuMsPerJob: rounded((this.#cpuInAll / share / jobs) * 1_000),
      waitSeconds: rounded(this.#waited),
      cpuSeconds: rounded(cpuSeconds),
      seconds: rounded(this.#waited + cpuSeconds),
      heapMb: rounded(this.#heap / 1_048_576),
    };
  }
}

/** What is held beyond what was held before, by looks at now and then: each collects what is garbage, which takes longer than what is measured. */
class Memory {
  heapBytes = 0;
  /** What looking took. */
  cpuSeconds = 0;
  readonly #before: number;
  #calls = 0;

  constructor() {
    // What the first collection only unties goes with the second.
    this.#held();
    this.#before = this.#held();
    this.cpuSeconds = 0;
  }

  called(): void {
    this.#calls += 1;
    const isLookedAt = this.#calls % 500 === 0 || [1, 10, 100].includes(this.#calls);
    if (isLookedAt) this.heapBytes = Math.max(this.heapBytes, this.#held() - this.#before);
  }

  #held(): number {
    const before = process.cpuUsage();
    collectGarbage();
    this.cpuSeconds += secondsSince(before);
    return process.memoryUsage().heapUsed;
  }
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const noSource: Source = {
  async retryAfter() {},
  async deadLetter(_, reason) {
    throw new Error(`dead-lettered: ${reason}`);
  },
};

function resyncOf(body: string): ResyncCommand {
  const parsed = parseCommand(body);
  if (!parsed.ok || parsed.value.op !== 'resync') throw new Error(`the inbox holds ${body}`);
  return parsed.value;
}

function secondsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function rounded(value: number): number {
  return Number(value.toFixed(3));
}
