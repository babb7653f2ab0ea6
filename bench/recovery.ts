import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Child } from '../demo/child.ts';
import { awsClients } from '../lib/aws/clients.ts';
import { clientPorts, poolPorts } from '../lib/aws/ports.ts';
import { createPool, type Pool } from '../lib/client/pool.ts';
import { isOwned } from '../lib/pool/job.ts';
import type { ResyncPorts } from '../lib/resync/ports.ts';
import type { Round } from '../lib/resync/round.ts';
import type { WorkerEvent } from '../lib/worker/events.ts';
import { childEnvironment, clientConfig } from '../stack/environment.ts';
import { removeFolder } from '../stack/leashed.ts';
import { type LocalStack, startLocalStack } from '../stack/local-stack.ts';
import { median, numbered } from './numbers.ts';

/**
 * How long the jobs of a worker that is killed (SIGKILL) run nowhere, on the deployed pool with real worker processes: from the kill to the
 * moment that another worker's handler is up.
 *
 * Said in leases of the pool, which is what the time is made of: some of it until the silence is noticed, one whole lease of a round. What
 * the emulator's processes and this machine take comes on top and does not grow with the lease.
 */
export interface RecoveryResult {
  readonly bench: 'recovery';
  readonly leaseSeconds: number;
  readonly workers: number;
  readonly jobs: number;
  /** Of every job of every run, in leases. */
  readonly recovery: Spread;
  /** Where the time went, run by run, in leases. */
  readonly phases: Readonly<Record<Phase, Spread>>;
  readonly runs: readonly RecoveryRun[];
  /** Which number is beyond its limit. */
  readonly breaches: readonly string[];
}

export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export interface RecoveryRun {
  /** What the killed worker ran. */
  readonly jobs: number;
  readonly recovery: Spread;
  /** How long before its death it beat last; in leases, as the phases, which follow each other from the kill on. */
  readonly sinceBeat: number;
  readonly phases: Readonly<Record<Phase, number>>;
}

/** Until a round is opened; until its worker is declared lost; then of the last of its jobs: until it is assigned, until it runs. */
type Phase = 'notice' | 'round' | 'assign' | 'start';
const PHASES: readonly Phase[] = ['notice', 'round', 'assign', 'start'];

const LEASE_SECONDS = 6;
const RUNS = 10;
const WORKERS = 3;
const JOBS = 30;
const MEDIAN_LIMIT = 1.8;
const MAX_LIMIT = 2.2;
const MAX_EXTRA_SECONDS = 2;

export async function recovery(log: (line: string) => void): Promise<RecoveryResult> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-recovery-'));
  try {
    const context = { leaseSeconds: String(LEASE_SECONDS), removalPolicy: 'destroy' };
    await using stack = await startLocalStack({ pool: 'recovery', context, log });
    await using stage = new Stage(stack, folder);
    await stage.fill();
    log('the first run warms up what AWS would have warm');
    await stage.run(0);
    const runs: RecoveryRun[] = [];
    const all: number[] = [];
    for (let index = 0; index < RUNS; index += 1) {
      const { run, times } = await stage.run(index / RUNS);
      log(`run ${index + 1} of ${RUNS}: ${JSON.stringify(run)}`);
      runs.push(run);
      all.push(...times);
    }
    const whole = spreadOf(all);
    const phases = Object.fromEntries(PHASES.map((phase) => [phase, spreadOf(runs.map((run) => run.phases[phase]))]));
    return {
      ...{ bench: 'recovery', leaseSeconds: LEASE_SECONDS, workers: WORKERS, jobs: JOBS, recovery: whole },
      phases: phases as Record<Phase, Spread>,
      ...{ runs, breaches: breachesOf(whole) },
    };
  } finally {
    await removeFolder(folder);
  }
}

function breachesOf({ median, max }: Spread): readonly string[] {
  const maxLimit = rounded(MAX_LIMIT + MAX_EXTRA_SECONDS / LEASE_SECONDS);
  return [
    ...(median > MEDIAN_LIMIT ? [`median: ${median} leases, at most ${MEDIAN_LIMIT}`] : []),
    ...(max > maxLimit ? [`max: ${max} leases, at most ${maxLimit}`] : []),
  ];
}

const lookEveryMs = 25;
/** The emulator first sweeps more than a minute after it was deployed to. */
const patienceMs = 150_000;

/** Some workers on a deployed pool, and jobs that they run. */
class Stage implements AsyncDisposable {
  readonly #stack: LocalStack;
  readonly #folder: string;
  readonly #pool: Pool;
  readonly #ports: ResyncPorts;
  readonly #workers = new Set<BenchWorker>();
  readonly #disposables = new AsyncDisposableStack();
  #launched = 0;

  constructor(stack: LocalStack, folder: string) {
    this.#stack = stack;
    this.#folder = folder;
    const clients = awsClients(clientConfig(stack.environments.root));
    this.#disposables.defer(() => clients.destroy());
    this.#ports = poolPorts(stack.poolConfig, silent, clients);
    this.#pool = this.#disposables.use(createPool(clientPorts(stack.poolConfig, clients)));
  }

  async fill(): Promise<void> {
    for (let index = 0; index < WORKERS; index += 1) this.#launch();
    await this.#until('the workers are registered', async () => {
      const rows = await this.#ports.workers.list(0);
      return [...this.#workers].every(({ id }) => rows.some((row) => row.workerId === id && row.generation !== undefined));
    });
    const entries = Array.from({ length: JOBS }, (_, index) => ({ key: `job-${numbered(index)}`, payload: '{}' }));
    for await (const sent of this.#pool.startMany(entries)) if (!sent.sent) throw sent.error;
    await this.#until('the jobs run', () => [...this.#workers].reduce((sum, { keys }) => sum + keys.size, 0) === JOBS);
  }

  /** Kills the worker that runs most, some part of its heartbeat's interval after a heartbeat; the next one takes its place. */
  async run(part: number): Promise<{ readonly run: RecoveryRun; readonly times: readonly number[] }> {
    const [victim] = [...this.#workers].sort((one, other) => other.keys.size - one.keys.size) as [BenchWorker];
    const beatAt = await victim.nextBeat();
    await wait((part * LEASE_SECONDS * 1_000) / 3);
    const keys = [...victim.keys.keys()];
    const killedAt = Date.now();
    this.#workers.delete(victim);
    await victim.kill();

    const round = this.#expired(victim.id);
    await this.#until('every job runs elsewhere', () => keys.every((key) => this.#startOf(key) !== undefined));
    const { openedAt, lostAt } = await round;
    const started = keys.map((key) => this.#startOf(key) ?? Number.NaN);
    const lastStart = Math.max(...started);
    const jobs = await this.#ports.jobs.getMany(keys);
    const lastAssigned = Math.max(...jobs.map((job) => (isOwned(job) ? job.assignedAt : 0)));
    const times = started.map((at) => leases(at - killedAt));

    this.#launch();
    const fresh = [...this.#workers].at(-1) as BenchWorker;
    await this.#until('the next worker is registered', async () => {
      const row = fresh.id === '' ? undefined : await this.#ports.workers.get(fresh.id);
      return row?.generation !== undefined;
    });
    const phases = {
      notice: leases(openedAt - killedAt),
      round: leases(lostAt - openedAt),
      assign: leases(lastAssigned - lostAt),
      start: leases(lastStart - lastAssigned),
    };
    return { run: { jobs: keys.length, recovery: spreadOf(times), sinceBeat: leases(killedAt - beatAt), phases }, times };
  }

  /** Watches the row until it is lost: when, and when the round was opened that found it so. */
  async #expired(workerId: string): Promise<{ readonly openedAt: number; readonly lostAt: number }> {
    let round: Round | undefined;
    let lostAt = 0;
    await this.#until(`worker ${workerId} is lost`, async () => {
      const row = await this.#ports.workers.get(workerId);
      lostAt = Date.now();
      if (row?.round !== undefined) round = await this.#ports.rounds.get(row.round);
      return row?.state === 'lost';
    });
    return { openedAt: round?.openedAt ?? Number.NaN, lostAt };
  }

  /** When the job's present handler came up, of the workers that live. */
  #startOf(key: string): number | undefined {
    return [...this.#workers].map(({ keys }) => keys.get(key)).find((at) => at !== undefined);
  }

  #launch(): void {
    this.#launched += 1;
    const environment = childEnvironment(this.#stack.environments.work);
    const worker = new BenchWorker(`worker-${this.#launched}`, environment, this.#folder);
    this.#workers.add(worker);
    this.#disposables.defer(() => worker.kill());
  }

  async #until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = performance.now() + patienceMs;
    while (!(await isSo())) {
      if (performance.now() > deadline) throw new Error(`not so after ${patienceMs / 1_000} s: ${what}`);
      await wait(lookEveryMs);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#disposables.disposeAsync();
  }
}

/** A worker process, and what it says of itself. */
class BenchWorker {
  id = '';
  /** What runs there, and since when. */
  readonly keys = new Map<string, number>();
  readonly #child: Child;
  readonly #beats: ((at: number) => void)[] = [];

  constructor(name: string, environment: Readonly<Record<string, string>>, folder: string) {
    const [script, preload] = [new URL('recovery-worker.ts', import.meta.url), new URL('../demo/report-events.ts', import.meta.url)];
    this.#child = new Child({ name, script, preload, environment, folder });
    this.#child.process.on('message', (event: WorkerEvent) => this.#note(event, Date.now()));
  }

  nextBeat(): Promise<number> {
    return new Promise((resolve) => this.#beats.push(resolve));
  }

  async kill(): Promise<void> {
    this.#child.process.kill('SIGKILL');
    await this.#child.ended;
  }

  #note(event: WorkerEvent, at: number): void {
    if (event.type === 'registered') this.id = event.workerId;
    else if (event.type === 'renewed') for (const beaten of this.#beats.splice(0)) beaten(at);
    else if (event.type === 'job-started') this.keys.set(event.key, at);
    else if (event.type === 'job-stopped' || event.type === 'job-released' || event.type === 'job-ended') this.keys.delete(event.key);
  }
}

function leases(ms: number): number {
  return rounded(ms / 1_000 / LEASE_SECONDS);
}

function spreadOf(values: readonly number[]): Spread {
  return { min: Math.min(...values), median: median(values), max: Math.max(...values) };
}

function rounded(value: number): number {
  return Number(value.toFixed(2));
}

const silent = { decided() {}, count() {}, gauge() {}, failed() {} };
