import { Table } from 'console-table-printer';
import { failingTest } from './focused.ts';
import type { Mutant } from './mutants.ts';
import type { PlotGroup } from './plots.ts';
import type { Profile } from './profiles.ts';
import { type Failure, simulate } from './simulate.ts';
import { Threads } from './threads.ts';

/** What became of a mutant, and after how many steps. */
export type Verdict =
  /** `failure`: of the world in which a guarantee broke; none where the code broke down, or a test noticed. */
  | { readonly outcome: 'caught'; readonly by: string; readonly what: string; readonly steps: number; readonly failure?: Failure }
  | { readonly outcome: 'survived'; readonly steps: number };

export interface Try {
  readonly mutant: Mutant;
  readonly verdict: Verdict;
}

export interface TryOptions {
  readonly seed: number;
  readonly jobs: number;
  readonly onProgress?: (line: string) => void;
}

const PROFILE = 'everything';
const STEPS = 1_000_000;
/** A broken rule may have the code go round in circles. */
const WORLD_TIMEOUT_MS = 60_000;

/** Runs the simulation on the broken code until it notices, or its steps are used up; or the test that notices in its place. */
export async function tried(mutant: Mutant, seed: number): Promise<Verdict> {
  const { edits, profile = PROFILE, plots, steps = STEPS, focused } = mutant;
  if (focused) {
    const what = await failingTest(mutant, focused.test);
    return what === undefined ? { outcome: 'survived', steps: 0 } : { outcome: 'caught', by: focused.test, what, steps: 0 };
  }
  await using threads = new Threads({ size: 1, edits, worldTimeoutMs: WORLD_TIMEOUT_MS });
  let so = 0;
  try {
    const result = await simulate({
      ...{ seed, steps, profiles: [profile], plots, run: threads.run },
      onWorld(of) {
        so = of.steps;
      },
    });
    const [failure] = result.failures;
    if (!failure) return { outcome: 'survived', steps: result.steps };
    const { guarantee, what } = failure.violation;
    return { outcome: 'caught', by: guarantee, what, steps: result.steps, failure };
  } catch (error) {
    // The code broke down, or did not come to an end.
    return { outcome: 'caught', by: 'a crash', what: String(error), steps: so };
  }
}

/** Each of them, some side by side; in the order of the list. */
export async function tryAll(mutants: readonly Mutant[], { seed, jobs, onProgress }: TryOptions): Promise<readonly Try[]> {
  const tries: Try[] = [];
  const left = [...mutants.entries()];
  let done = 0;
  const work = async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [index, mutant] = next;
      onProgress?.(`${done} of ${mutants.length} mutants tried; now: ${mutant.name}`);
      tries[index] = { mutant, verdict: await tried(mutant, seed) };
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return tries;
}

/**
 * The code as it is, by the same seed and for as many steps as it took to catch the slowest mutant of each profile and its plots: what breaks there too says
 * nothing about mutants.
 */
export async function controls(tries: readonly Try[], { seed, jobs }: Pick<TryOptions, 'seed' | 'jobs'>): Promise<readonly Failure[]> {
  const runs = new Map<string, { readonly profile: Profile; readonly plots?: PlotGroup | undefined; steps: number }>();
  for (const { mutant, verdict } of tries) {
    const { profile = PROFILE, plots, focused } = mutant;
    if (focused || verdict.outcome !== 'caught') continue;
    const run = runs.get(`${profile} ${plots}`) ?? { profile, plots, steps: 0 };
    runs.set(`${profile} ${plots}`, { ...run, steps: Math.max(run.steps, verdict.steps) });
  }
  await using threads = new Threads({ size: jobs });
  const failures: Failure[] = [];
  for (const { profile, plots, steps } of runs.values()) {
    const result = await simulate({ seed, steps, profiles: [profile], plots, run: threads.run, atOnce: 2 * jobs });
    failures.push(...result.failures);
  }
  return failures;
}

export function tableOf(tries: readonly Try[]): string {
  const table = new Table({
    shouldDisableColors: true,
    columns: [
      { name: 'mutant', alignment: 'left', maxLen: 60 },
      { name: 'by', title: 'caught by', alignment: 'left' },
      { name: 'steps', title: 'after steps', alignment: 'right' },
      { name: 'profile', alignment: 'left' },
      { name: 'plots', alignment: 'left' },
      { name: 'world', title: 'seed', alignment: 'right' },
    ],
  });
  for (const { mutant, verdict } of tries) {
    const { name, profile = PROFILE, plots = '', focused } = mutant;
    const row = { mutant: name, profile: focused ? '' : profile, plots, steps: focused ? '' : verdict.steps.toLocaleString('en') };
    table.addRow(
      verdict.outcome === 'caught'
        ? { ...row, by: verdict.by, world: verdict.failure?.seed ?? '' }
        : { ...row, by: '✗ survived', world: '' },
    );
  }
  return table.render();
}
