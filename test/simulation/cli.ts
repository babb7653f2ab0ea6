/**
 * `npm run simulate -- [--seed S] [--steps N] [--profile P]`: the real code under seeded faults, world after world, on `--jobs N` cores.
 * `npm run simulate -- --mutants [--only TEXT]`: whether the simulation notices each of the small breakages in mutants.ts.
 *
 * Exit 1 where a guarantee broke, or a mutant survived; 2 where it was asked for something else.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { createLogUpdate } from 'log-update';
import { rulesNeverReached } from './coverage.ts';
import { MUTANTS } from './mutants.ts';
import { tableOf, tryAll } from './mutation.ts';
import { PROFILES, type Profile } from './profiles.ts';
import { describeFailure, type SimulationResult, simulate } from './simulate.ts';
import { Threads } from './threads.ts';

// The one place of the simulation that knows real time and chance: to draw a seed, and to say how fast it went.

const usage = `usage: npm run simulate -- [--seed S] [--steps N] [--profile ${PROFILES.join('|')}|all] [--jobs N] [--keep-going]
       npm run simulate -- --mutants [--only TEXT] [--seed S] [--jobs N]`;

interface Asked {
  readonly seed: number;
  readonly steps: number;
  readonly profiles: readonly Profile[];
  readonly jobs: number;
  readonly keepsGoing: boolean;
  readonly mutants: boolean;
  readonly only: string;
}

function askedFor(): Asked | undefined {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        steps: { type: 'string', default: '100000' },
        profile: { type: 'string', default: 'everything' },
        jobs: { type: 'string', default: String(availableParallelism()) },
        'keep-going': { type: 'boolean', default: false },
        mutants: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
      },
    });
    const { mutants, only, profile, 'keep-going': keepsGoing } = values;
    const profiles = PROFILES.filter((known) => profile === 'all' || known === profile);
    // Mutants are tried by the same seed each time, for what is to be known is whether they can be caught, and how quickly.
    const seed = Number(values.seed ?? (mutants ? 1 : Math.floor(Math.random() * 2 ** 31)));
    const [steps, jobs] = [Number(values.steps), Number(values.jobs)];
    const isRight = profiles.length > 0 && [seed, steps, jobs].every(Number.isSafeInteger) && jobs > 0;
    return isRight ? { seed, steps, profiles, jobs, keepsGoing, mutants, only } : undefined;
  } catch {
    return undefined;
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`);
/** Redrawn in place on a terminal; elsewhere nobody would see it move. */
const progress = process.stdout.isTTY ? createLogUpdate(process.stdout) : undefined;
const thousands = (count: number) => Math.round(count).toLocaleString('en');

async function simulation({ seed, steps, profiles, jobs, keepsGoing }: Asked): Promise<boolean> {
  const began = performance.now();
  const pace = (so: SimulationResult) => thousands((so.steps / (performance.now() - began)) * 1_000);
  await using threads = new Threads({ size: jobs });
  let told = 0;
  const tell = async ({ failures }: Pick<SimulationResult, 'failures'>) => {
    for (const failure of failures.slice(told)) {
      told += 1;
      print(`${await describeFailure(failure, threads.run)}\n`);
    }
  };
  const result = await simulate({
    ...{ seed, steps, profiles, keepsGoing, run: threads.run, atOnce: 2 * jobs },
    onWorld(so) {
      progress?.(`${thousands(so.steps)} of ${thousands(steps)} steps, world ${thousands(so.worlds)}, ${pace(so)} steps/s`);
      if (keepsGoing) void tell(so);
    },
  });
  progress?.clear();
  const speed = pace(result);
  await tell(result);
  const faults = [...result.injected].sort(([, one], [, other]) => other - one).map(([kind, count]) => `${kind} ${thousands(count)}`);
  print(
    `seed ${seed}, profile ${profiles.join(', ')}: ${thousands(result.steps)} steps in ${thousands(result.worlds)} worlds, ${speed} steps/s`,
  );
  print(`faults injected: ${faults.join(', ') || 'none'}`);
  print(`rules never reached: ${rulesNeverReached(result.rules).join(', ') || 'none'}`);
  return result.failures.length === 0;
}

async function mutants({ seed, jobs, only }: Asked): Promise<boolean> {
  const all = MUTANTS.filter(({ name }) => name.includes(only));
  const tries = await tryAll(all, { seed, jobs, onProgress: (line) => progress?.(line) });
  progress?.clear();
  const survivors = tries.filter(({ verdict }) => verdict.outcome === 'survived');
  print(tableOf(tries));
  print(`${tries.length - survivors.length} of ${tries.length} mutants were caught`);
  return tries.length > 0 && survivors.length === 0;
}

const asked = askedFor();
if (!asked) {
  process.stderr.write(`${usage}\n`);
  process.exitCode = 2;
} else if (!(await (asked.mutants ? mutants(asked) : simulation(asked)))) {
  // Not `exit`, which would cut off what a pipe has not taken yet.
  process.exitCode = 1;
}
