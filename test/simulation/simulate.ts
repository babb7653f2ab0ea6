import type { Violation } from '../../lib/testing/invariants.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Profile } from './profiles.ts';
import { World } from './world.ts';

export interface SimulationResult {
  readonly steps: number;
  readonly worlds: number;
  readonly injected: ReadonlyMap<string, number>;
  readonly rules: ReadonlyMap<string, number>;
  readonly failure?: Failure;
}

export interface Failure {
  /** Of the one world that failed. */
  readonly seed: number;
  readonly profile: Profile;
  readonly violation: Violation;
  readonly story: readonly string[];
}

/** World after world, the first of them by `seed` itself, until so many steps were run or one of them breaks a guarantee. */
export async function simulate(seed: number, steps: number, profile: Profile): Promise<SimulationResult> {
  const seeds = new Random(seed);
  const injected = new Map<string, number>();
  const rules = new Map<string, number>();
  let done = 0;
  let worlds = 0;
  for (let of = seed; done < steps; of = seeds.seed()) {
    const result = await new World({ seed: of, profile }).run();
    done += result.steps;
    worlds += 1;
    add(injected, result.injected);
    add(rules, result.rules);
    if (result.violation) return { steps: done, worlds, injected, rules, failure: await failureOf(of, profile) };
  }
  return { steps: done, worlds, injected, rules };
}

/** The same world once more, this time with its story. */
export async function failureOf(seed: number, profile: Profile, keepLines = 4000): Promise<Failure> {
  const { violation, story } = await new World({ seed, profile, keepLines }).run();
  if (!violation)
    throw new Error(`world ${seed} (${profile}) broke a guarantee, and did not when it was run again: it is not deterministic`);
  return { seed, profile, violation, story };
}

export function describeFailure({ seed, profile, violation, story }: Failure): string {
  const replay = `npm run simulate -- --seed ${seed} --steps 1 --profile ${profile}`;
  return [
    ...story,
    '',
    `${violation.guarantee} was broken: ${violation.what}`,
    `seed ${seed}, profile ${profile}; again with: ${replay}`,
  ].join('\n');
}

function add(sums: Map<string, number>, counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
}
