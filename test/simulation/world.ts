import type { Pool } from '../../lib/client/pool.ts';
import { endOf, outcomeOf } from '../../lib/pool/dispatch.ts';
import { isOwned, type Job } from '../../lib/pool/job.ts';
import { DEFAULT_SETTINGS, type PoolSettings } from '../../lib/pool/settings.ts';
import { isEligible } from '../../lib/pool/worker.ts';
import { executionName } from '../../lib/resync/run-round.ts';
import type { Call, CallResult } from '../../lib/testing/calls.ts';
import { Faults } from '../../lib/testing/faults.ts';
import { Checker, type Guarantee, isSame, type Violation } from '../../lib/testing/invariants.ts';
import { MemoryPool, type MemoryWorker } from '../../lib/testing/memory-pool.ts';
import { Random } from '../../lib/testing/random.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { inWords, Story } from '../../lib/testing/story.ts';
import { watched } from '../../lib/testing/watched.ts';
import { encodeRequest, parseRequest } from '../../lib/wire/index.ts';
import { moodyHandler, Resource } from './behaviour.ts';
import { type Conditions, conditionsOf, type Mishaps, type Profile } from './profiles.ts';
import { type Asked, Workload } from './workload.ts';

export interface WorldOptions {
  readonly seed: number;
  readonly profile: Profile;
  /** How many of the last lines of its story to keep; 0 where nobody will read it. */
  readonly keepLines?: number;
}

export interface WorldResult {
  readonly steps: number;
  readonly violation?: Violation;
  readonly story: readonly string[];
  readonly injected: ReadonlyMap<string, number>;
  readonly rules: ReadonlyMap<string, number>;
}

/** After so long without faults, virtual time, everything must have come to rest. */
const REST_MS = 40 * 60_000;
const OVERLOOKED_MS = 10 * 60_000;
/** How a dispatch ends of which nobody knows the end. */
const LOST = ['record-lost', 'lost-in-restore'];
const SETTINGS: PoolSettings = { ...DEFAULT_SETTINGS, maxBackoffMs: 20_000, startAttempts: 3 };

/**
 * One world: a pool, clients and workers under faults for some thousand steps; then the faults end and everything has to come to
 * rest; then all jobs are stopped, and nothing may be left. All of it follows from the seed.
 */
export class World {
  readonly #random: Random;
  readonly #scheduler: Scheduler;
  readonly #conditions: Conditions;
  readonly #faults: Faults;
  readonly #checker: Checker;
  readonly #story: Story;
  readonly #pool: MemoryPool;
  readonly #resource = new Resource();
  readonly #workers = new Set<MemoryWorker>();
  readonly #asked = new Map<string, Asked>();
  readonly #clients: Workload[] = [];
  readonly #rules = new Map<string, number>();
  readonly #givenUp = new Set<string>();
  readonly #tried = new Map<string, number>();
  readonly #keys: readonly string[];
  readonly #leaseMs: number;
  readonly #stepsOfFaults: number;
  readonly #workersWanted: number;
  readonly #capacity: number;
  #isCalm = false;
  #atCalm: (() => void)[] = [];
  #steps = 0;
  #workersMade = 0;
  #operations = 0;
  #operating = 0;
  #nextAsk = 0;
  #calmAt = 0;
  #violation: Violation | undefined;

  constructor({ seed, profile, keepLines = 0 }: WorldOptions) {
    const random = new Random(seed);
    this.#random = random;
    const lots = new Random(random.seed());
    this.#scheduler = new Scheduler({ order: () => lots.next() });
    this.#conditions = conditionsOf(profile, random);
    this.#story = new Story(this.#scheduler, keepLines);
    this.#faults = new Faults(new Random(random.seed()), this.#scheduler, this.#conditions.rates);
    this.#leaseMs = random.pick([3_000, 9_000, 30_000]);
    this.#stepsOfFaults = random.between(500, 4_000);
    this.#workersWanted = random.between(1, 4);
    this.#capacity = random.between(1, 4);
    this.#keys = Array.from({ length: random.between(1, 6) }, (_, i) => `k${i + 1}`);
    const restart = random.chance(0.3) ? ({ type: 'on-failure', maxAttempts: 3, backoffMs: 500 } as const) : SETTINGS.restart;

    this.#checker = new Checker({
      scheduler: this.#scheduler,
      leaseMs: this.#leaseMs,
      services: () => this.#pool.services,
      onViolation: (violation) => this.#fail(violation.guarantee, violation.what),
    });
    const heard = (call: Call, sentAt: number, result: CallResult) => this.#heard(call, sentAt, result);
    this.#pool = new MemoryPool({
      scheduler: this.#scheduler,
      network: { fate: (call) => this.#faults.fate(call), isCutOff: (call) => this.#faults.isCutOff(call), heard },
      leaseMs: this.#leaseMs,
      settings: { ...SETTINGS, restart },
      invocations: this.#faults.invocation,
      executions: this.#faults.execution,
      lag: this.#faults.lag,
      disturbance: {
        requests: this.#faults.disturbance(false),
        reports: this.#faults.disturbance(true),
        inboxes: this.#faults.disturbance(true),
      },
      observe: {
        job: this.#checker.job,
        dispatch: this.#checker.dispatch,
        worker: (workerId, before, after) => {
          this.#checker.worker(workerId, before, after);
          if (after.state === 'lost' || (before && before.session !== after.session)) this.#givenUp.add(workerId);
        },
      },
      telemetry: ({ name }) => ({
        decided: ({ subject, key, decision, rule }) => {
          this.#rules.set(String(rule), (this.#rules.get(String(rule)) ?? 0) + 1);
          this.#story.tell(name, () => `decides ${subject} at "${key}" (${rule}): ${decision}`);
        },
        count: (what) => this.#story.tell(name, () => `counts ${what}`),
        failed: ({ message, receiveCount, reason }) =>
          this.#story.tell(name, () => `fails ${message}, received ${receiveCount} times: ${reason}`),
      }),
    });
  }

  async run(): Promise<WorldResult> {
    this.#story.tell(
      'world',
      () => `lease ${this.#leaseMs} ms, ${this.#workersWanted} workers of capacity ${this.#capacity}, keys ${this.#keys.join(', ')}`,
    );
    for (let i = 0; i < this.#workersWanted; i++) this.#hire();
    for (let i = 0; i < this.#random.between(1, 3); i++) this.#clients.push(this.#client(`c${i + 1}`));
    for (const [kind, mean] of Object.entries(this.#conditions.mishaps)) this.#nowAndThen(kind as keyof Mishaps, mean * this.#leaseMs);

    await this.#step(() => this.#steps >= this.#stepsOfFaults);
    this.#calm();
    await this.#rest('after the faults');
    for (const key of this.#keys) {
      this.#checker.stopAsked(key);
      this.#operate((pool) => pool.stop(key));
    }
    await this.#rest('after all jobs were stopped', true);
    this.#pool.end();
    const { injected } = this.#faults;
    return {
      steps: this.#steps,
      ...(this.#violation ? { violation: this.#violation } : {}),
      story: this.#story.lines(),
      injected,
      rules: this.#rules,
    };
  }

  async #step(isDone: () => boolean): Promise<void> {
    while (!this.#violation && !isDone()) {
      await this.#scheduler.step();
      this.#steps += 1;
    }
  }

  #fail(guarantee: Guarantee, what: string): void {
    this.#violation ??= { guarantee, what };
    this.#story.tell('CHECKER', () => `${guarantee}: ${what}`);
  }

  // What goes on: workers, clients, mishaps.

  #hire(): void {
    const workerId = `w${++this.#workersMade}`;
    const random = new Random(this.#random.seed());
    const skewMs = random.between(-3_000, 3_000);
    let worker: MemoryWorker | undefined;
    const process = () => (worker as MemoryWorker).process;
    const handler = moodyHandler(process, {
      random,
      checker: this.#checker,
      badHandler: () => (this.#isCalm ? 0 : this.#conditions.badHandler),
      atCalm: (of, run) => this.#whenCalm(() => of.deliver(run)),
      resource: this.#resource,
      leaseMs: this.#leaseMs,
      tell: this.#story.tell,
    });
    worker = this.#pool.startWorker({
      workerId,
      handler: watched(handler, process, this.#checker, this.#story.tell),
      capacity: this.#capacity,
      skewMs,
      onEvent: ({ workerId: _, ...event }) => this.#story.tell(workerId, () => inWords(event)),
    });
    const { runtime } = worker;
    const hired = worker;
    this.#workers.add(hired);
    this.#story.tell(workerId, () => `is there, its clock off by ${skewMs} ms`);
    const gone = () => {
      if (!this.#workers.delete(hired)) return;
      this.#story.tell(workerId, () => 'is gone');
      this.#scheduler.after(this.#random.between(0, this.#leaseMs), () => {
        if (this.#workers.size < this.#workersWanted) this.#hire();
      });
    };
    process().onDeath(gone);
    runtime.start().catch(() => process().kill());
    void runtime.closed.then(() => process().kill());
  }

  #client(name: string): Workload {
    const skewMs = this.#random.between(-3_000, 3_000);
    return new Workload({
      random: new Random(this.#random.seed()),
      scheduler: this.#scheduler,
      checker: this.#checker,
      client: this.#pool.connect(name, skewMs),
      keys: this.#keys,
      asked: this.#asked,
      pauseMs: Math.max(300, Math.round(this.#leaseMs * this.#random.pick([0.02, 0.05, 0.15, 0.4]))),
      tell: this.#story.tell,
      onUnanswered: (what, dispatchId) => {
        if (dispatchId === undefined || !this.#checker.lostOf(dispatchId)) this.#fail('G3 exact dispatch', what);
      },
    });
  }

  #nowAndThen(kind: keyof Mishaps, meanMs: number): void {
    this.#scheduler.after(this.#random.between(1, Math.round(2 * meanMs)), () => {
      if (this.#isCalm) return;
      this.#mishap(kind);
      this.#nowAndThen(kind, meanMs);
    });
  }

  #mishap(kind: keyof Mishaps): void {
    const worker = this.#workers.size === 0 ? undefined : this.#random.pick([...this.#workers]);
    const forMs = this.#random.between(1, Math.round(this.#leaseMs * this.#random.pick([0.1, 0.5, 1, 3])));
    switch (kind) {
      case 'redrive':
        this.#redrive();
        return;
      case 'badMessage':
        this.#badMessage();
        return;
      case 'resync':
        this.#resync(worker?.process.name);
        break;
      case 'move':
        this.#move();
        return;
      case 'loseRecord':
        this.#loseRecord();
        return;
      case 'close': {
        const { workers } = this.#pool.services;
        const state = this.#random.pick(['closed', 'recovering'] as const);
        this.#story.tell('operator', () => `has the pool ${state} for ${forMs} ms`);
        workers.setPool({ state, generation: 1 });
        this.#scheduler.after(forMs, () => workers.setPool({ state: 'open', generation: 1 }));
        break;
      }
      case 'kill':
        worker?.process.kill();
        break;
      case 'freeze': {
        const suspended = this.#random.chance(0.5);
        this.#story.tell(worker?.process.name ?? '', () => `is ${suspended ? 'suspended' : 'stopped'} for ${forMs} ms`);
        worker?.process.freeze({ suspended });
        this.#scheduler.after(forMs, () => worker?.process.resume());
        break;
      }
      case 'cutOff': {
        const services = this.#random.pick([['registry'], ['inbox'], ['reports'], ['registry', 'inbox', 'reports']]);
        this.#story.tell(worker?.process.name ?? '', () => `is cut off from ${services.join(', ')} for ${forMs} ms`);
        for (const service of services) {
          if (worker) this.#faults.cutOff(worker.process, service);
          this.#scheduler.after(forMs, () => worker && this.#faults.letThrough(worker.process, service));
        }
        return;
      }
      case 'drain':
        this.#story.tell(worker?.process.name ?? '', () => 'is asked to drain');
        worker?.process.deliver(() => void worker.runtime.drain({ deadlineMs: this.#random.between(1_000, 25_000) }));
        break;
      case 'setClock': {
        const byMs = this.#random.between(-20_000, 20_000);
        this.#story.tell(worker?.process.name ?? '', () => `has its clock set by ${byMs} ms`);
        worker?.process.setClock(byMs);
        break;
      }
      default:
        kind satisfies never;
    }
    this.#faults.count(kind);
  }

  /** An operator puts back what was dead-lettered, however old it is by now; not what can never be read. */
  #redrive(): void {
    const { deadRequests, deadReports, requests, reports } = this.#pool.services;
    for (const { body, group } of deadRequests.takeAll()) {
      if (!parseRequest(body).ok || group === undefined || (this.#isCalm && this.#isGivenUp(body))) continue;
      this.#story.tell('operator', () => `redrives ${body}`);
      this.#faults.count('redriven');
      requests.send({ body, group, deduplicationId: `redrive-${++this.#operations}` });
    }
    for (const { body } of deadReports.takeAll()) {
      if (this.#isCalm && this.#isGivenUp(body)) continue;
      this.#story.tell('operator', () => `redrives ${body}`);
      this.#faults.count('redriven');
      reports.send({ body });
    }
  }

  #resync(workerId: string | undefined): void {
    const { machine, workers } = this.#pool.services;
    const row = workers.peek(workerId ?? '');
    if (row) void machine.start(executionName(row, this.#scheduler.now()), { worker: row.workerId, session: row.session });
  }

  /** Somebody deletes a record, or a bug does; mostly of a job that runs, whose worker is often asked before long what it runs. */
  #loseRecord(): void {
    const { jobs, dispatches } = this.#pool.services;
    const all = jobs.all();
    const owned = this.#random.chance(0.7) ? all.filter(isOwned) : [];
    if (all.length === 0) return;
    const job = this.#random.pick<Job>(owned.length > 0 ? owned : all);
    this.#faults.count('loseRecord');
    const { key, dispatchId } = job;
    const what = this.#random.pick(['job', 'job', 'dispatch', 'payload', 'job and dispatch'] as const);
    this.#story.tell('somebody', () => `deletes of "${key}" and dispatch ${dispatchId}: ${what}`);
    if (what === 'payload') dispatches.deletePayload(dispatchId);
    if (what.endsWith('dispatch')) dispatches.delete(dispatchId);
    if (what.startsWith('job')) jobs.delete(key);
    if (isOwned(job) && this.#random.chance(0.7))
      this.#scheduler.after(this.#random.between(0, 2 * this.#leaseMs), () => this.#resync(job.owner.worker));
  }

  /** Asks a job to move, now and then one that has moved on since. */
  #move(): void {
    const key = this.#random.pick(this.#keys);
    const fence = Math.max(0, (this.#pool.services.jobs.peek(key)?.fence ?? 0) - (this.#random.chance(0.2) ? 1 : 0));
    this.#story.tell('operator', () => `asks to move "${key}" under fence ${fence}`);
    this.#faults.count('move');
    this.#pool.services.requests.send({
      body: encodeRequest({ op: 'move', key, fence }),
      group: key,
      deduplicationId: `move-${++this.#operations}`,
    });
  }

  /** What does not parse is refused, and disturbs neither its neighbours nor the dispatch that it names. */
  #badMessage(): void {
    const key = this.#random.pick(this.#keys);
    const known = [...this.#asked.keys()];
    const dispatchId = known.length > 0 && this.#random.chance(0.7) ? this.#random.pick(known) : `bad-${++this.#operations}`;
    const body = this.#random.pick([
      'not json',
      '{}',
      '{"v":99}',
      JSON.stringify({ v: 1, op: 'start', key, dispatchId, payload: 'p', mispelt: true }),
    ]);
    this.#faults.count('badMessage');
    this.#pool.services.requests.send({ body, group: key, deduplicationId: `bad-${++this.#operations}` });
  }

  #heard(call: Call, sentAt: number, result: CallResult): void {
    this.#checker.heard(call, sentAt, result);
    if ('fault' in result && result.fault !== undefined)
      this.#story.tell(call.by.name, () => `${call.service}.${call.method}: ${result.fault}`);
  }

  // The end of faults, and what has to be true then.

  #whenCalm(run: () => void): void {
    if (this.#isCalm) run();
    else this.#atCalm.push(run);
  }

  #calm(): void {
    this.#story.tell('world', () => 'no more faults from here on');
    this.#isCalm = true;
    this.#calmAt = this.#scheduler.now();
    this.#faults.end();
    for (const client of this.#clients) client.end();
    this.#pool.services.workers.setPool({ state: 'open', generation: 1 });
    for (const { process } of this.#workers) process.resume();
    for (const run of this.#atCalm) this.#scheduler.after(0, run);
    this.#atCalm = [];
    if (this.#workers.size === 0) this.#hire();
  }

  #operate(act: (pool: Pool) => Promise<unknown>): void {
    const { pool } = this.#pool.connect(`operator-${++this.#operations}`);
    this.#operating += 1;
    act(pool).then(
      () => {
        this.#operating -= 1;
      },
      (error: unknown) => this.#fail('G8 any order', `without faults an operator hears ${error}`),
    );
  }

  async #rest(when: string, isEmpty = false): Promise<void> {
    // What names a record that is gone for good fails for a quarter of an hour, and holds up its key so long.
    const restMs = this.#faults.injected.has('loseRecord') ? 10 * REST_MS : REST_MS;
    const until = this.#scheduler.now() + restMs;
    // By then what was on its way, however slow, has arrived.
    let nextLook = this.#scheduler.now() + (isEmpty ? 1_000 : 10_000);
    let unrest: string | undefined = 'not looked yet';
    await this.#step(() => {
      if (this.#scheduler.now() < nextLook && this.#scheduler.now() < until) return false;
      nextLook = this.#scheduler.now() + 500;
      this.#redrive();
      this.#ask();
      this.#stopWhatCannotStart();
      unrest = this.#unrest();
      return unrest === undefined || this.#scheduler.now() >= until;
    });
    if (this.#violation) return;
    if (unrest !== undefined) return this.#fail('G6 no job lost', `${when}, ${restMs} ms later: ${unrest}`);
    this.#checkDispatches(when);
    const live = this.#pool.services.jobs.all().filter(({ status }) => status !== 'ended');
    if (isEmpty && live.length > 0) this.#fail('G8 any order', `${when}: ${JSON.stringify(live)}`);
  }

  /**
   * What was lost for good is found out by asking; an audit would do so within the hour. So is what the old session of a worker was given
   * last, where the index did not show it in time, or the round that was to ask about it died.
   */
  #ask(): void {
    const now = this.#scheduler.now();
    const { injected } = this.#faults;
    if (!(injected.has('lost') || injected.has('loseRecord') || this.#isOverlooked()) || now < this.#nextAsk) return;
    this.#nextAsk = now + Math.max(60_000, 4 * this.#leaseMs);
    for (const { workerId, state } of this.#pool.services.workers.all()) if (state === 'active') this.#resync(workerId);
  }

  /** What was lost of a dispatch that nobody runs is lost for good, and its job waits for its start until it is stopped. */
  #stopWhatCannotStart(): void {
    const { jobs, dispatches } = this.#pool.services;
    for (const { status, key, dispatchId } of jobs.all()) {
      if (status !== 'assigned' || dispatches.hasPayload(dispatchId) || this.#isGivenUp(`start of ${dispatchId}`)) continue;
      this.#checker.stopAsked(key);
      this.#operate((pool) => pool.stop(key));
    }
  }

  /** Whether an operator did the same already, and there is no hope. */
  #isGivenUp(what: string): boolean {
    const times = this.#tried.get(what) ?? 0;
    this.#tried.set(what, times + 1);
    return times >= 1;
  }

  /** A job is owned by a session that another one has replaced, and nobody has noticed for long. */
  #isOverlooked(): boolean {
    const wasDisturbed = ['lag', 'failed-execution', 'late-timer'].some((kind) => this.#faults.injected.has(kind));
    if (!wasDisturbed || this.#scheduler.now() - this.#calmAt < OVERLOOKED_MS) return false;
    const { jobs, workers } = this.#pool.services;
    return jobs.all().some((job) => isOwned(job) && workers.peek(job.owner.worker)?.session !== job.owner.session);
  }

  /** Why the world is not at rest yet. */
  #unrest(): string | undefined {
    const { services, isAtWork } = this.#pool;
    if (isAtWork || this.#operating > 0) return 'somebody is at work';
    for (const queue of [services.requests, services.reports])
      if (queue.size > 0) return `queue ${queue.name} holds ${JSON.stringify(queue.messages()[0])}`;
    const rows = services.workers.all();
    for (const { session, state } of rows) {
      const size = state === 'active' ? (services.inboxes.queue(session)?.size ?? 0) : 0;
      if (size > 0) return `the inbox of ${session} holds ${size} commands`;
    }
    const hasRoom = rows.some((row) => isEligible(row, 1));
    for (const job of services.jobs.all()) {
      const isResting =
        job.status === 'running' ||
        (job.status === 'ended' && job.next === undefined) ||
        (!hasRoom && (job.status === 'pending' || job.status === 'ended'));
      if (!isResting) return `job ${JSON.stringify(job)} waits${hasRoom ? ', and a worker has room' : ''}`;
      if (!isOwned(job)) continue;
      const row = services.workers.peek(job.owner.worker);
      if (row?.session !== job.owner.session || row.state !== 'active')
        return `job ${JSON.stringify(job)} is owned by ${JSON.stringify(row)}`;
    }
    return this.#strayHandler();
  }

  #checkDispatches(when: string): void {
    const { services } = this.#pool;
    const named = new Set(
      services.jobs
        .all()
        .flatMap((job) => [...(job.status === 'ended' ? [] : [job.dispatchId]), ...(job.next === undefined ? [] : [job.next])]),
    );
    for (const { dispatchId, starts, outcome, end } of this.#asked.values()) {
      const record = services.dispatches.peek(dispatchId);
      const lost = this.#checker.lostOf(dispatchId);
      const what = `${when}: dispatch ${dispatchId}, ${JSON.stringify(record)},`;
      if (!record) {
        if (lost !== 'record' && starts.some(({ isSent }) => isSent)) this.#fail('G6 no job lost', `${what} was sent`);
        continue;
      }
      if (!outcomeOf(record) && !named.has(dispatchId) && !lost)
        this.#fail('G3 exact dispatch', `${what} has no outcome, and no job names it`);
      // Its record and its worker may both be gone.
      if (record.status === 'started' && !named.has(dispatchId) && !lost)
        this.#fail('G3 exact dispatch', `${what} has no end, and no job names it`);
      const isMismatch = (answer: unknown) => JSON.stringify(answer).includes('fingerprint-mismatch');
      if (outcome && !lost && !isMismatch(outcome) && !isSame(outcome, outcomeOf(record)))
        this.#fail('G3 exact dispatch', `${what} was answered ${JSON.stringify(outcome)}`);
      if (end && !lost && !isMismatch(end) && !isSame(end, endOf(record)))
        this.#fail('G7 ends are final', `${what} was answered ${JSON.stringify(end)}`);
      this.#checkTruth(dispatchId, what);
    }
  }

  /** What is recorded is what happened. */
  #checkTruth(dispatchId: string, what: string): void {
    const record = this.#pool.services.dispatches.peek(dispatchId);
    const { ups, finishes } = this.#checker.truthOf(dispatchId);
    const truth = `${what} in truth was up at ${JSON.stringify(ups.map(({ at }) => at))} and finished at ${JSON.stringify(finishes.map(({ at, failed }) => ({ at, failed })))}`;
    switch (record?.status) {
      case 'started':
      case 'ended': {
        const { at } = record.outcome;
        if (!ups.some((up) => up.at === at)) this.#fail('G3 exact dispatch', truth);
        if (record.status !== 'ended' || record.end.status === 'stopped') return;
        const { status, finishedAt } = record.end;
        const isUnknown = status === 'failed' && LOST.includes(record.end.error.code) && this.#checker.lostOf(dispatchId) !== undefined;
        const isTrue = isUnknown || finishes.some((finish) => finish.at === finishedAt && finish.failed === (status === 'failed'));
        if (!isTrue) this.#fail('G7 ends are final', truth);
        return;
      }
      case 'never-started':
        // A worker may die, or be given up on, before it can tell that the job was up; and what was deleted tells nothing.
        if (this.#checker.lostOf(dispatchId)) return;
        if (ups.some(({ handler: { process } }) => process.state !== 'dead' && !this.#givenUp.has(process.name)))
          this.#fail('G3 exact dispatch', truth);
        return;
      default:
    }
  }

  /** Where what is recorded, what a worker believes and what is alive in truth are not the same. */
  #strayHandler(): string | undefined {
    const jobs = this.#pool.services.jobs;
    const alive = this.#checker.liveHandlers();
    for (const { process, key, dispatchId } of alive) {
      const job = jobs.peek(key);
      const isKnown = job?.status === 'running' && job.dispatchId === dispatchId && job.owner.worker === process.name;
      if (!isKnown) return `${process.name} runs "${key}" for ${dispatchId}, and the record says ${JSON.stringify(job)}`;
    }
    for (const job of jobs.all()) {
      const isUp = alive.some(({ key, dispatchId }) => key === job.key && dispatchId === job.dispatchId);
      if (job.status === 'running' && !isUp) return `no handler of ${JSON.stringify(job)} is alive`;
    }
    for (const { runtime, process } of this.#workers) {
      const inTruth = alive.filter((each) => each.process === process).map(({ key }) => key);
      if (!isSame(runtime.lives.map(({ key }) => key).sort(), inTruth.sort()))
        return `${process.name} believes in ${JSON.stringify(runtime.lives)}, and alive is ${inTruth}`;
    }
    return undefined;
  }
}
