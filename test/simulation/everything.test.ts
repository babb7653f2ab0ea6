import { availableParallelism } from 'node:os';
import { beforeAll, describe, expect, test } from 'vitest';
import { expected, missing, reached } from './coverage.ts';
import { freshSeed } from './fresh-seed.ts';
import { PROFILES } from './profiles.ts';
import { describeFailure, type SimulationResult, simulate } from './simulate.ts';
import { Threads } from './threads.ts';
import { IMPOSSIBLE, UNREACHED } from './unreached.ts';

const STEPS = 4_000_000;
/** The same in each run, because what is reached but a few times in so many steps is not reached from every seed. */
const SEED = 20_261_202;
const FRESH_STEPS = 500_000;
const named = 'P1-P5, P10, P11, P14, P17; F1, F2, F6-F8, F10, F11, F15, F20, F27, F33, F36, F49';

describe(`${STEPS.toLocaleString('en')} steps of all profiles, from seed ${SEED}`, () => {
  let result: SimulationResult;
  let told: string | undefined;

  beforeAll(async () => {
    const size = availableParallelism();
    await using threads = new Threads({ size, probes: true });
    result = await simulate({ seed: SEED, steps: STEPS, profiles: PROFILES, run: threads.run, atOnce: 2 * size });
    for (const failure of result.failures) told = await describeFailure(failure, threads.run);
  }, 900_000);

  test(`break no guarantee (${named})`, () => {
    expect(told).toBeUndefined();
    expect(result.steps).toBeGreaterThanOrEqual(STEPS);
  });

  test('reach every fault, claim, rule, effect and status that is not known to be out of reach', () => {
    if (result.failures.length === 0) expect(missing(result)).toEqual([]);
  });

  test('reach little of what is said to be out of reach', () => {
    const times = reached(result);
    const often = UNREACHED.flatMap(({ names }) => names).filter((name) => (times.get(name) ?? 0) >= 40);
    expect(often, 'to be left out of unreached.ts').toEqual([]);
  });

  test('reach nothing that the guarantees rule out (G1, G2)', () => {
    const times = reached(result);
    expect(IMPOSSIBLE.flatMap(({ names }) => names).filter((name) => times.get(name))).toEqual([]);
  });
});

const seed = freshSeed();

test(`${FRESH_STEPS.toLocaleString('en')} steps of all profiles, from fresh seed ${seed}, break no guarantee (${named})`, async () => {
  const size = availableParallelism();
  await using threads = new Threads({ size });
  const { failures } = await simulate({ seed, steps: FRESH_STEPS, profiles: PROFILES, run: threads.run, atOnce: 2 * size });
  for (const failure of failures) expect.fail(await describeFailure(failure, threads.run));
}, 300_000);

test('what is known to be out of reach is spoken of by the tables, and named once', () => {
  const names = [...UNREACHED, ...IMPOSSIBLE].flatMap((known) => known.names);
  const all = expected();
  expect(names.filter((name) => !all.has(name))).toEqual([]);
  expect(new Set(names).size).toBe(names.length);
});
