import { DEFAULT_SETTINGS, type PoolSettings } from '../../lib/pool/settings.ts';
import type { Call, CallResult } from '../../lib/testing/calls.ts';
import type { Claim, Violation } from '../../lib/testing/claims.ts';
import { Faults } from '../../lib/testing/faults.ts';
import { Incidents } from '../../lib/testing/incidents.ts';
import { Checker } from '../../lib/testing/invariants.ts';
import { MemoryPool } from '../../lib/testing/memory-pool.ts';
import { Random } from '../../lib/testing/random.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { Story } from '../../lib/testing/story.ts';
import { checkAnswers } from './answers.ts';
import { Crew } from './crew.ts';
import { Cues } from './cues.ts';
import { Director } from './director.ts';
import { History } from './history.ts';
import { Mishaps } from './mishaps.ts';
import { Operator } from './operator.ts';
import type { PlotGroup } from './plots.ts';
import { conditionsOf, type Profile } from './profiles.ts';
import { Restorations } from './restorations.ts';
import type { Scene } from './scene.ts';
import { unrest } from './unrest.ts';
import { type Asked, Workload } from './workload.ts';

export interface WorldOptions {
  readonly seed: number;
  readonly profile: Profile;
  /** Plots of this group are acted out, and no others. */
  readonly plots?: PlotGroup | undefined;
  /** How many of the last lines of its story to keep; 0 where nobody will read it. */
  readonly keepLines?: number;
  /** What does not happen, by the name of the incident. */
  readonly without?: (incident: string) => boolean;
  /** So many, in place of what the seed says. */
  readonly workers?: number;
  readonly keys?: number;
}

export interface WorldResult {
  readonly steps: number;
  readonly violation?: Violation;
  readonly story: readonly string[];
  /** Names of all that went wrong and that was asked for, in order; where the story is kept. */
  readonly incidents: readonly string[];
  readonly injected: ReadonlyMap<string, number>;
  readonly rules: ReadonlyMap<string, number>;
  /** How often each claim was looked at. */
  readonly judged: ReadonlyMap<Claim, number>;
}

/** After so long without faults, virtual time, everything must have come to rest. */
const REST_MS = 40 * 60_000;
const SHORT_RETENTION_MS = 60_000;
const SETTINGS: PoolSettings = { ...DEFAULT_SETTINGS, maxBackoffMs: 20_000, startAttempts: 3 };

/**
 * One world: a pool, clients and workers under faults for some thousand steps; then the faults end and everything has to come to
 * rest; then all jobs are stopped, and nothing may be left. All of it follows from the seed.
 */
export class World {
  readonly #scene: Scene;
  readonly #random: Random;
  readonly #story: Story;
  readonly #crew: Crew;
  readonly #operator: Operator;
  readonly #restorations: Restorations;
  #director: Director | undefined;
  readonly #asked = new Map<string, Asked>();
  readonly #clients: Workload[] = [];
  readonly #rules = new Map<string, number>();
  /** Workers that were declared lost or replaced by another session: what they know of the truth, nobody hears of. */
  readonly #givenUp = new Set<string>();
  readonly #stepsOfFaults: number;
  /** An inbox may have forgotten what nobody took for long. */
  readonly #forgets: boolean;
  #isCalm = false;
  #atCalm: (() => void)[] = [];
  #steps = 0;
  #violation: Violation | undefined;

  constructor({ seed, profile, plots, keepLines = 0, without, ...counts }: WorldOptions) {
    const random = new Random(seed);
    this.#random = random;
    const lots = new Random(random.seed());
    const scheduler = new Scheduler({ order: () => lots.next() });
    const conditions = conditionsOf(profile, random, plots);
    this.#story = new Story(scheduler, keepLines);
    const incidents = new Incidents({ without, keep: keepLines > 0 });
    const faults = new Faults(new Random(random.seed()), scheduler, conditions.rates, incidents);
    const leaseMs = random.pick(conditions.leases);
    this.#stepsOfFaults = random.between(500, 4_000);
    // Ends are forgotten no sooner than what an inbox holds.
    const inboxRetentionMs = random.chance(0.5) ? SHORT_RETENTION_MS : undefined;
    this.#forgets = inboxRetentionMs !== undefined;
    const lotOfWorkers = random.between(1, 4);
    const wanted = counts.workers ?? lotOfWorkers;
    const capacity = random.pick([1, 1, 2, 3, 4]);
    const lotOfKeys = random.between(1, 6);
    const keys = Array.from({ length: counts.keys ?? lotOfKeys }, (_, i) => `k${i + 1}`);
    const restart = random.chance(0.3) ? ({ type: 'on-failure', maxAttempts: 3, backoffMs: 500 } as const) : SETTINGS.restart;

    const checker = new Checker({
      scheduler,
      leaseMs,
      services: () => pool.services,
      onViolation: (violation) => this.#broken(violation),
    });
    const history = new History({ scheduler, checker, services: () => pool.services });
    const { tell } = this.#story;
    const heard = (call: Call, sentAt: number, result: CallResult) => {
      checker.heard(call, sentAt, result);
      if ('fault' in result && result.fault !== undefined) tell(call.by.name, () => `${call.service}.${call.method}: ${result.fault}`);
    };
    const pool: MemoryPool = new MemoryPool({
      scheduler,
      network: { fate: (call) => faults.fate(call), isCutOff: (call) => faults.isCutOff(call), heard },
      leaseMs,
      settings: { ...SETTINGS, restart },
      inboxRetentionMs,
      invocations: faults.invocation,
      executions: faults.execution,
      lag: faults.lag,
      disturbance: {
        requests: faults.disturbance(false),
        reports: faults.disturbance(true),
        inboxes: faults.disturbance(true),
      },
      observe: {
        job: (key, before, after) => {
          checker.job(key, before, after);
          history.job(key, before, after);
          this.#director?.job(before, after);
        },
        dispatch: (dispatchId, before, after) => {
          checker.dispatch(dispatchId, before, after);
          history.dispatch(dispatchId, before, after);
        },
        pool: checker.pool,
        worker: (workerId, before, after) => {
          checker.worker(workerId, before, after);
          this.#director?.worker(workerId, before, after);
          if (after.state === 'lost' || (before && before.session !== after.session)) this.#givenUp.add(workerId);
        },
      },
      telemetry: ({ name }) => ({
        decided: ({ subject, key, decision, rule }) => {
          this.#rules.set(String(rule), (this.#rules.get(String(rule)) ?? 0) + 1);
          tell(name, () => `decides ${subject} at "${key}" (${rule}): ${decision}`);
        },
        count: (what) => tell(name, () => `counts ${what}`),
        gauge() {},
        failed: ({ message, receiveCount, reason }) => tell(name, () => `fails ${message}, received ${receiveCount} times: ${reason}`),
      }),
    });
    this.#scene = {
      ...{ scheduler, conditions, faults, cues: new Cues(), incidents, checker, history, pool, leaseMs, keys, tell },
      isRecovering: () => this.#restorations.isRecovering,
      isCalm: () => this.#isCalm,
      whenCalm: (run) => {
        if (this.#isCalm) run();
        else this.#atCalm.push(run);
      },
    };
    this.#crew = new Crew(this.#scene, { random: new Random(random.seed()), wanted, capacity });
    this.#operator = new Operator(this.#scene);
    this.#restorations = new Restorations(this.#scene, new Random(random.seed()));
    tell('world', () => `lease ${leaseMs} ms, ${wanted} workers of capacity ${capacity}, keys ${keys.join(', ')}`);
  }

  async run(): Promise<WorldResult> {
    const { faults, incidents, pool, checker } = this.#scene;
    this.#crew.fill();
    const clients = this.#random.between(1, 3);
    for (let i = 0; i < clients; i++) this.#clients.push(this.#client(`c${i + 1}`));
    const random = new Random(this.#random.seed());
    const mishaps = new Mishaps(this.#scene, {
      random,
      crew: this.#crew,
      operator: this.#operator,
      restorations: this.#restorations,
      clients: this.#clients,
      asked: this.#asked,
    });
    this.#director = new Director(this.#scene, {
      random: new Random(this.#random.seed()),
      crew: this.#crew,
      operator: this.#operator,
      mishaps,
      restorations: this.#restorations,
      clients: this.#clients,
    });

    await this.#step(() => this.#steps >= this.#stepsOfFaults);
    this.#calm();
    await this.#rest('after the faults');
    this.#operator.stopAll();
    await this.#rest('after all jobs were stopped', true);
    pool.end();
    return {
      steps: this.#steps,
      ...(this.#violation ? { violation: this.#violation } : {}),
      story: this.#story.lines(),
      incidents: incidents.names,
      injected: faults.injected,
      rules: this.#rules,
      judged: checker.judged,
    };
  }

  async #step(isDone: () => boolean): Promise<void> {
    while (!this.#violation && !isDone()) {
      await this.#scene.scheduler.step();
      this.#steps += 1;
    }
  }

  #broken(violation: Violation): void {
    this.#violation ??= violation;
    this.#story.tell('CHECKER', () => `${violation.claim}: ${violation.what}`);
  }

  #client(name: string): Workload {
    const { scheduler, conditions, incidents, checker, history, pool, keys, leaseMs, tell } = this.#scene;
    const random = this.#random;
    const skewMs = random.between(-3_000, 3_000);
    return new Workload({
      ...{ scheduler, incidents, checker, history, keys, tell },
      random: new Random(random.seed()),
      client: pool.connect(name, skewMs),
      asked: this.#asked,
      pauseMs: Math.max(300, Math.round(leaseMs * random.pick(conditions.isPlotted ? [0.1, 0.4, 1] : [0.02, 0.05, 0.15, 0.4]))),
    });
  }

  // The end of faults, and what has to be true then.

  #calm(): void {
    const { scheduler, faults, cues, pool, tell } = this.#scene;
    tell('world', () => 'no more faults from here on');
    this.#isCalm = true;
    faults.end();
    cues.end();
    for (const client of this.#clients) client.end();
    this.#operator.open(pool.services.workers.peekPool().generation);
    this.#crew.calm();
    for (const run of this.#atCalm) scheduler.after(0, run);
    this.#atCalm = [];
  }

  async #rest(when: string, isEmpty = false): Promise<void> {
    const { scheduler, faults, pool, checker, history } = this.#scene;
    // What names a record that is gone for good fails for a quarter of an hour, and holds up its key so long.
    const restMs = faults.injected.has('loseRecord') || faults.injected.has('restoreTable') ? 10 * REST_MS : REST_MS;
    const until = scheduler.now() + restMs;
    // By then what was on its way, however slow, has arrived.
    let nextLook = scheduler.now() + (isEmpty ? 1_000 : 10_000);
    let left: string | undefined = 'not looked yet';
    await this.#step(() => {
      if (scheduler.now() < nextLook && scheduler.now() < until) return false;
      nextLook = scheduler.now() + 500;
      this.#operator.redrive();
      if (this.#forgets || ['lost', 'loseRecord', 'restoreTable', 'purge'].some((kind) => faults.injected.has(kind))) this.#operator.ask();
      this.#operator.stopWhatCannotStart();
      this.#operator.forgetTheHopeless();
      if (isEmpty) this.#operator.stopWhatWasRestored();
      const isOperated = this.#operator.isAtWork || this.#restorations.isRecovering;
      left = isOperated ? 'an operator is at work' : unrest(this.#scene, this.#crew);
      return left === undefined || scheduler.now() >= until;
    });
    if (this.#violation) return;
    checker.check(left === undefined, 'everything comes to rest once nothing fails', () => `${when}, ${restMs} ms later: ${left}`);
    if (left !== undefined) return;
    checkAnswers(this.#scene, this.#asked.values(), (workerId) => this.#givenUp.has(workerId), when);
    history.check(when);
    const live = pool.services.jobs.all().filter(({ status }) => status !== 'ended');
    if (isEmpty) checker.check(live.length === 0, 'nothing is left once all was stopped', () => `${when}: ${JSON.stringify(live)}`);
  }
}
