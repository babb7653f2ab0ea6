import type { Violation } from '../../lib/testing/claims.ts';
import { Random } from '../../lib/testing/random.ts';
import type { PlotGroup } from './plots.ts';
import type { Profile } from './profiles.ts';
import { World, type WorldOptions, type WorldResult } from './world.ts';

/** A world to run, as plain data. */
export interface Task extends Omit<WorldOptions, 'without'> {
  /** Of all that would go wrong or be asked for, only this happens, by the names of the incidents. */
  readonly only?: readonly string[];
}

/** `met`: what was decided, by name, where somebody notes it. */
export type RunWorld = (task: Task) => Promise<WorldResult & { readonly met?: ReadonlyMap<string, number> }>;

export const inThisThread: RunWorld = ({ only, ...options }) => {
  const kept = only && new Set(only);
  return new World({ ...options, ...(kept && { without: (incident) => !kept.has(incident) }) }).run();
};

export interface SimulateOptions {
  /** Everything follows from it, however many worlds run at once. */
  readonly seed: number;
  readonly steps: number;
  /** Worlds take turns. */
  readonly profiles: readonly Profile[];
  /** Plots of this group are acted out in each world, and no others. */
  readonly plots?: PlotGroup | undefined;
  /** By default in this thread. */
  readonly run?: RunWorld;
  /** Worlds that `run` takes on at once. */
  readonly atOnce?: number;
  /** Goes on with the next world after one that failed. */
  readonly keepsGoing?: boolean;
  /** Called after each world, and waited for. */
  readonly onWorld?: (so: SimulationResult) => void | Promise<void>;
}

export interface SimulationResult {
  readonly steps: number;
  readonly worlds: number;
  readonly injected: ReadonlyMap<string, number>;
  readonly rules: ReadonlyMap<string, number>;
  readonly met: ReadonlyMap<string, number>;
  readonly judged: ReadonlyMap<string, number>;
  readonly failures: readonly Failure[];
}

/** Of one world that failed. */
export interface Failure {
  readonly seed: number;
  readonly profile: Profile;
  readonly plots?: PlotGroup;
  readonly violation: Violation;
  readonly steps: number;
}

/** World after world, the first of them by `seed` itself, until so many steps were run or one of them breaks a guarantee. */
export async function simulate(options: SimulateOptions): Promise<SimulationResult> {
  const { seed, steps, profiles, plots, run = inThisThread, atOnce = 1, keepsGoing = false, onWorld } = options;
  const seeds = new Random(seed);
  const counts = () => new Map<string, number>();
  const [injected, rules, met, judged] = [counts(), counts(), counts(), counts()];
  let so: SimulationResult = { steps: 0, worlds: 0, injected, rules, met, judged, failures: [] };
  let begun = 0;
  const next = () => {
    const of = { seed: begun === 0 ? seed : seeds.seed(), profile: profiles[begun % profiles.length] as Profile, ...(plots && { plots }) };
    begun += 1;
    const result = run(of);
    // Those that are run in vain fail in vain.
    result.catch(() => {});
    return { of, result };
  };
  // They are taken in the order of their seeds, whichever ends first.
  const ahead = Array.from({ length: atOnce }, next);
  while (so.steps < steps && (keepsGoing || so.failures.length === 0)) {
    const { of, result } = ahead.shift() ?? next();
    const { violation, ...world } = await result;
    ahead.push(next());
    add(injected, world.injected);
    add(rules, world.rules);
    add(judged, world.judged);
    add(met, world.met ?? new Map());
    const failures = violation ? [...so.failures, { ...of, violation, steps: world.steps }] : so.failures;
    so = { ...so, steps: so.steps + world.steps, worlds: so.worlds + 1, failures };
    await onWorld?.(so);
  }
  return so;
}

/** The same world once more, this time with its story. */
export async function describeFailure(
  { seed, profile, plots, violation }: Failure,
  run: RunWorld = inThisThread,
  task: Task = { seed, profile, plots },
): Promise<string> {
  const again = await run({ ...task, keepLines: 4000 });
  if (!again.violation)
    throw new Error(`world ${seed} (${profile}) broke a guarantee, and did not when it was run again: it is not deterministic`);
  return [
    ...again.story,
    '',
    `${violation.guarantee} was broken: ${violation.what}`,
    `seed ${seed}, profile ${profile}; again with: npm run simulate -- ${replayOf(task)}`,
  ].join('\n');
}

/** The options of the command line that run it. */
export function replayOf({ seed, profile, plots, workers, keys, only }: Task): string {
  const counts = Object.entries({ workers, keys }).flatMap(([name, count]) => (count === undefined ? [] : [`--${name} ${count}`]));
  return [
    `--seed ${seed} --steps 1 --profile ${profile}`,
    ...(plots ? [`--plots '${plots}'`] : []),
    ...counts,
    ...(only ? [`--only '${only.join(',')}'`] : []),
  ].join(' ');
}

function add(sums: Map<string, number>, counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
}
