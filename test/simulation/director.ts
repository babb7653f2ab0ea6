import { isOwned, type Job } from '../../lib/pool/job.ts';
import type { WorkerRow } from '../../lib/pool/worker.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Crew } from './crew.ts';
import type { Mishaps } from './mishaps.ts';
import type { Operator } from './operator.ts';
import { anyPlot, type Deed, type Plot, plotsOf, type Situation } from './plots.ts';
import type { Restorations } from './restorations.ts';
import type { Scene } from './scene.ts';
import type { Workload } from './workload.ts';

export interface DirectorOptions {
  readonly random: Random;
  readonly crew: Crew;
  readonly operator: Operator;
  readonly mishaps: Mishaps;
  readonly restorations: Restorations;
  readonly clients: readonly Workload[];
}

/** What is under way at a key. */
interface Course {
  readonly plot: Plot;
  readonly lots: Random;
  stage: number;
}

/** A plot is given up on after so long without the situation that it waits for; an owner is given up on after leases. */
const PATIENCE_MS = 4_000;
const PATIENCE_LEASES = 3;

/** Has plots come to pass, one after the other at each key, until it is calm. */
export class Director {
  readonly #scene: Scene;
  readonly #options: DirectorOptions;
  readonly #plots: readonly Plot[];
  readonly #courses = new Map<string, Course>();

  constructor(scene: Scene, options: DirectorOptions) {
    this.#scene = scene;
    this.#options = options;
    const { profile, isPlotted, plots } = scene.conditions;
    this.#plots = plotsOf(profile, plots);
    if (isPlotted && this.#plots.length > 0) for (const key of scene.keys) this.#soon(key, new Random(options.random.seed()));
  }

  #soon(key: string, lots: Random): void {
    const { scheduler, isCalm } = this.#scene;
    scheduler.after(lots.between(1, lots.pick([50, 500])), () => {
      if (!isCalm()) this.#begin(key, new Random(lots.seed()), () => this.#soon(key, lots));
    });
  }

  #begin(key: string, random: Random, next: () => void): void {
    const { scheduler, conditions, leaseMs, pool } = this.#scene;
    const job = pool.services.jobs.peek(key);
    if (job && isOwned(job) && job.status !== 'running' && random.chance(0.7)) {
      // On its way to somewhere; or nobody knows, until its worker is asked.
      if (random.chance(0.3)) this.#do('resync', job, random);
      next();
      return;
    }
    const ofRunning = job?.status === 'running' && random.chance(0.5) ? this.#plots.filter(([first]) => first?.at === 'running') : [];
    const plots = ofRunning.length > 0 ? ofRunning : this.#plots;
    const plot = !conditions.plots && random.chance(0.1) ? anyPlot(conditions.profile, random) : random.pick(plots);
    const course: Course = { plot, lots: new Random(random.seed()), stage: 0 };
    this.#courses.set(key, course);
    if (job && job.status === plot[0]?.at) this.#isAt(job.status, job);
    // Whatever it begins with, a job that is started comes by there.
    else random.pick(this.#options.clients).ask('start', key, { ifBusy: 'replace' });
    const look = (stage: number) =>
      scheduler.after(course.plot[stage]?.at === 'owner given up' ? PATIENCE_LEASES * leaseMs : PATIENCE_MS, () => {
        if (course.stage > stage && course.stage < course.plot.length) look(course.stage);
        else next();
      });
    look(0);
  }

  /** The record of a key changed. */
  job(before: Job | undefined, after: Job | undefined): void {
    const job = after ?? before;
    if (job && (before?.status !== after?.status || before?.fence !== after?.fence)) this.#isAt(after?.status ?? 'deleted', job);
  }

  /** The row of a worker changed, and its jobs may have to go elsewhere. */
  worker(workerId: string, before: WorkerRow | undefined, after: WorkerRow): void {
    const isGivenUp = before && (before.session !== after.session || (before.state !== after.state && after.state !== 'draining'));
    if (!isGivenUp) return;
    for (const job of this.#scene.pool.services.jobs.all())
      if (isOwned(job) && job.owner.worker === workerId) this.#isAt('owner given up', job);
  }

  #isAt(situation: Situation, job: Job): void {
    const { scheduler, isCalm } = this.#scene;
    const course = this.#courses.get(job.key);
    if (isCalm() || !course) return;
    const stage = course.plot[course.stage];
    if (stage?.at !== situation) return;
    course.stage += 1;
    const { lots } = course;
    let afterMs = 0;
    for (const deeds of stage.deeds) {
      // A command takes some ten milliseconds, and a handler's start or stop some hundred.
      afterMs += lots.between(0, lots.pick([0, 5, 50, 300]));
      const deed = lots.pick([deeds].flat());
      const random = new Random(lots.seed());
      scheduler.after(afterMs, () => {
        if (!isCalm()) this.#do(deed, job, random);
      });
    }
  }

  #do(deed: Deed, { key, dispatchId, ...job }: Job, random: Random): void {
    const { incidents, faults, cues, leaseMs, pool } = this.#scene;
    const { crew, operator, mishaps, restorations, clients } = this.#options;
    if (!incidents.happens(`plot: ${deed}`)) return;
    faults.count(`plot: ${deed}`);
    switch (deed) {
      case 'start':
      case 'notify':
        random.pick(clients).ask(deed, key);
        return;
      case 'replay':
        random.pick(clients).ask('start', key, { dispatchId });
        return;
      case 'contradict':
        random.pick(clients).ask('start', key, { dispatchId, payload: 'other' });
        return;
      case 'stop':
        random.pick(clients).ask('stop', key, random.chance(0.5) ? { dispatchId } : {});
        return;
      case 'move':
        operator.move(key, random);
        return;
      case 'resync':
        if ('owner' in job) operator.resync(job.owner.worker);
        return;
      case 'resync all':
        for (const { workerId } of pool.services.workers.all()) operator.resync(workerId);
        return;
      case 'evict':
        if ('owner' in job) operator.evict(job.owner.worker);
        return;
      case 'loseRecord':
        if (mishaps.loseRecord(key, random)) faults.count(deed);
        return;
      case 'restoreTable':
        if (restorations.restore(random)) faults.count(deed);
        return;
      case 'close':
        if (!restorations.isRecovering) operator.close(random.pick(['closed', 'recovering'] as const), random.between(1, leaseMs));
        return;
      case 'lost':
      case 'late':
      case 'again':
        faults.worsen(deed, key, random.between(200, random.pick([1_000, 5_000])));
        return;
      case 'slow':
      case 'failed':
        // So short that one call is slow, and the next is not.
        faults.worsen(deed, key, random.between(1, random.pick([20, 100, 1_000])));
        return;
      case 'slow owner':
        if ('owner' in job) faults.worsen('slow', job.owner.worker, random.between(1, random.pick([20, 100, 1_000])));
        return;
      case 'ends':
      case 'fails':
      case 'fails for now':
      case 'start throws':
      case 'start is to be tried again':
      case 'start is slow':
      case 'stop throws':
      case 'stop is slow':
        cues.give(key, deed);
        return;
      case 'kill':
      case 'restart':
      case 'freeze':
      case 'cutOff':
      case 'drain': {
        const worker = 'owner' in job && crew.workers.find(({ process }) => process.name === job.owner.worker);
        if (worker) mishaps.befalls(worker, deed, random.between(1, Math.round(leaseMs * random.pick([0.1, 0.5, 2, 4]))), random);
        return;
      }
      default:
        deed satisfies never;
    }
  }
}
