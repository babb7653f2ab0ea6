/**
 * `npm run simulate -- [--seed S] [--steps N] [--profile P]`: the real code under seeded faults, world after world, on `--jobs N` cores. A
 * world that fails is told, with `--shrink` the least of it that still fails; the command that is printed with it runs it again.
 * `npm run simulate -- --mutants`: whether the simulation notices each of the small breakages in mutants.ts.
 * `npm run simulate -- --mutant TEXT`: the same of those whose name has it; with `--shrink` each is told.
 *
 * Exit 1 where a guarantee broke, or a mutant survived; 2 where it was asked for something else.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { createLogUpdate } from 'log-update';
import { missing } from './coverage.ts';
import { MUTANTS } from './mutants.ts';
import { controls, tableOf, tryAll } from './mutation.ts';
import { PLOTS, type PlotGroup } from './plots.ts';
import { PROFILES, type Profile } from './profiles.ts';
import { shrink } from './shrink.ts';
import { describeFailure, type Failure, type RunWorld, type SimulationResult, simulate, type Task } from './simulate.ts';
import { Threads } from './threads.ts';

// The one place of the simulation that knows real time and chance: to draw a seed, and to say how fast it went.

const usage = `usage: npm run simulate -- [--seed S] [--steps N] [--profile ${PROFILES.join('|')}|all] [--plots ${Object.keys(PLOTS).join('|')}]
                              [--jobs N] [--keep-going] [--shrink]
       npm run simulate -- --seed S --profile P [--plots P] [--workers N] [--keys N] --only INCIDENTS [--mutant NAME]
       npm run simulate -- --mutants | --mutant TEXT [--seed S] [--jobs N] [--shrink]`;

interface Asked {
  readonly seed: number;
  readonly steps: number;
  readonly profiles: readonly Profile[];
  readonly plots?: PlotGroup;
  readonly jobs: number;
  readonly keepsGoing: boolean;
  readonly shrinks: boolean;
  /** The rest of what is known of a world that was shrunk. */
  readonly replay?: Pick<Task, 'only' | 'workers' | 'keys'>;
  readonly mutant?: string;
}

function askedFor(): Asked | undefined {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        steps: { type: 'string', default: '100000' },
        profile: { type: 'string', default: 'everything' },
        plots: { type: 'string' },
        jobs: { type: 'string', default: String(availableParallelism()) },
        'keep-going': { type: 'boolean', default: false },
        shrink: { type: 'boolean', default: false },
        only: { type: 'string' },
        workers: { type: 'string' },
        keys: { type: 'string' },
        mutants: { type: 'boolean', default: false },
        mutant: { type: 'string' },
      },
    });
    const { mutants, profile, plots, only, 'keep-going': keepsGoing, shrink: shrinks } = values;
    const profiles = PROFILES.filter((known) => profile === 'all' || known === profile);
    const mutant = mutants ? '' : values.mutant;
    // Mutants are tried by the same seed each time, for what is to be known is whether they can be caught, and how quickly.
    const seed = Number(values.seed ?? (mutant === undefined ? Math.floor(Math.random() * 2 ** 31) : 1));
    const counts = Object.entries({ workers: values.workers, keys: values.keys }).flatMap(([name, count]) =>
      count === undefined ? [] : [[name, Number(count)] as const],
    );
    const [steps, jobs] = [Number(values.steps), Number(values.jobs)];
    const isRight =
      (plots === undefined || plots in PLOTS) &&
      profiles.length > 0 &&
      [seed, steps, jobs, ...counts.map(([, count]) => count)].every(Number.isSafeInteger) &&
      jobs > 0;
    if (!isRight) return undefined;
    const replay = only === undefined ? {} : { replay: { only: only.split(','), ...Object.fromEntries(counts) } };
    return {
      seed,
      steps,
      profiles,
      ...(plots !== undefined && { plots: plots as PlotGroup }),
      jobs,
      keepsGoing,
      shrinks,
      ...replay,
      ...(mutant !== undefined && { mutant }),
    };
  } catch {
    return undefined;
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`);
/** Redrawn in place on a terminal; elsewhere nobody would see it move. */
const progress = process.stdout.isTTY ? createLogUpdate(process.stdout) : undefined;
/** Of fewer steps, what they did not reach says nothing. */
const ENOUGH_STEPS = 1_000_000;
const thousands = (count: number) => Math.round(count).toLocaleString('en');

async function simulation({ seed, steps, profiles, plots, jobs, keepsGoing, shrinks }: Asked): Promise<boolean> {
  const began = performance.now();
  const pace = (so: SimulationResult) => thousands((so.steps / (performance.now() - began)) * 1_000);
  await using threads = new Threads({ size: jobs, probes: true });
  let told = 0;
  const result = await simulate({
    ...{ seed, steps, profiles, plots, keepsGoing, run: threads.run, atOnce: 2 * jobs },
    async onWorld(so) {
      progress?.(`${thousands(so.steps)} of ${thousands(steps)} steps, world ${thousands(so.worlds)}, ${pace(so)} steps/s`);
      for (; told < so.failures.length; told++) await tell(so.failures[told] as Failure, threads.run, jobs, shrinks);
    },
  });
  progress?.clear();
  const faults = [...result.injected].sort(([, one], [, other]) => other - one).map(([kind, count]) => `${kind} ${thousands(count)}`);
  const many = `${thousands(result.steps)} steps in ${thousands(result.worlds)} worlds, ${pace(result)} steps/s`;
  print(`seed ${seed}, profile ${profiles.join(', ')}: ${many}`);
  print(`faults injected: ${faults.join(', ') || 'none'}`);
  if (result.steps >= ENOUGH_STEPS) print(`never reached, and nobody says why: ${missing(result).join(', ') || 'nothing'}`);
  return result.failures.length === 0;
}

async function tell(failure: Failure, run: RunWorld, jobs: number, shrinks: boolean): Promise<void> {
  if (!shrinks) {
    print(`${await describeFailure(failure, run)}\n`);
    return;
  }
  const { task, incidents, ...shrunk } = await shrink(failure, {
    ...{ run, atOnce: jobs },
    onProgress: (left, runs) => progress?.(`shrinking: ${left} incidents left after ${runs} runs`),
  });
  progress?.clear();
  print(await describeFailure(shrunk.failure, run, task));
  print(`${incidents.left.length} of ${incidents.before} incidents are left: ${incidents.left.join(', ') || 'none'}\n`);
}

async function replayed({ seed, profiles, plots, replay, mutant }: Asked): Promise<boolean> {
  const task: Task = { seed, profile: profiles[0] as Profile, plots, ...replay };
  const edits = mutant === undefined ? [] : (MUTANTS.find(({ name }) => name === mutant)?.edits ?? []);
  await using threads = new Threads({ size: 1, edits });
  const { violation, steps } = await threads.run(task);
  if (violation)
    print(await describeFailure({ seed, profile: task.profile, ...(plots && { plots }), violation, steps }, threads.run, task));
  else print(`nothing is broken by these incidents: ${thousands(steps)} steps`);
  return !violation;
}

async function mutants({ seed, jobs, mutant = '', shrinks }: Asked): Promise<boolean> {
  const all = MUTANTS.filter(({ name }) => name.includes(mutant));
  const tries = await tryAll(all, { seed, jobs, onProgress: (line) => progress?.(line) });
  progress?.clear();
  for (const { mutant, verdict } of shrinks ? tries : []) {
    if (verdict.outcome !== 'caught' || !verdict.failure) continue;
    await using threads = new Threads({ size: jobs, edits: mutant.edits });
    print(`${mutant.name}:\n`);
    await tell(verdict.failure, threads.run, jobs, true);
    print(`(to run it again, add: --mutant '${mutant.name}')\n`);
  }
  const survivors = tries.filter(({ verdict }) => verdict.outcome === 'survived');
  print(tableOf(tries));
  print(`${tries.length - survivors.length} of ${tries.length} mutants were caught`);
  const alike = await controls(tries, { seed, jobs });
  for (const { seed: world, profile, violation } of alike)
    print(
      `the code as it is breaks ${violation.guarantee} as well (seed ${world}, profile ${profile}): what was caught there proves nothing`,
    );
  return tries.length > 0 && survivors.length === 0 && alike.length === 0;
}

function carryOut(asked: Asked): Promise<boolean> {
  if (asked.replay) return replayed(asked);
  return asked.mutant === undefined ? simulation(asked) : mutants(asked);
}

const asked = askedFor();
if (!asked) {
  process.stderr.write(`${usage}\n`);
  process.exitCode = 2;
} else if (!(await carryOut(asked))) {
  // Not `exit`, which would cut off what a pipe has not taken yet.
  process.exitCode = 1;
}
