import fc from 'fast-check';
import { afterAll, expect, test, vi } from 'vitest';
import { FAULTS, type Left, leftAfter, leftAfterDeadLetter, pointsOf, touchedBefore } from '../support/crash-points.ts';
import { difference } from '../support/left-behind.ts';
import type { Scenario } from '../support/scenario.ts';
import { scenarios } from './crash-scenarios.ts';

// Hundreds of runs in each test.
vi.setConfig({ testTimeout: 60_000 });

const named = scenarios.map((scenario) => [scenario.name, scenario] as const);

const PAIRS = 2_000;
let covered = 0;

const calmRuns = new Map<string, Promise<Left>>();

/** Without faults it is always the same. */
function calmly(scenario: Scenario): Promise<Left> {
  const run = calmRuns.get(scenario.name) ?? leftAfter(scenario);
  calmRuns.set(scenario.name, run);
  return run;
}

afterAll(() => {
  process.stdout.write(`crash points: ${covered} covered in ${scenarios.length} scenarios, and ${PAIRS} pairs of them\n`);
});

test.for(named)('whichever call fails, and however: %s', async ([, scenario]) => {
  const calm = await calmly(scenario);
  expect(calm.inWords).toBe(scenario.leaves);

  const failures: string[] = [];
  let isSweptUp = false;
  for (const point of await pointsOf(scenario)) {
    const left = await leftAfter(scenario, point);
    if (!left.wasHit) continue;
    covered += 1;
    isSweptUp ||= left.isWaiting && !calm.isWaiting;
    const otherwise = difference(calm, left);
    if (otherwise) failures.push(`${point.fault} ${point.times} at call ${point.call}, ${point.method}: ${otherwise}`);
  }
  expect(failures).toEqual([]);
  expect(isSweptUp, 'something is left to the sweep').toBe(false);
});

test.for(named)('dead-lettered where it died, told truly, and redriven: %s', async ([, scenario]) => {
  const failures: string[] = [];
  for (const point of await pointsOf(scenario)) {
    if (point.times === 'twice' || !(point.fault === 'died-before' || point.fault === 'died-after')) continue;
    covered += 1;
    const left = await leftAfterDeadLetter(scenario, point);
    // Nobody can tell whether what came in between came before the message or after it.
    const before = difference(await calmly(touchedBefore(scenario, left.atStep)), left);
    const after = before && difference(await calmly(touchedBefore(scenario, left.atStep + 1)), left);
    if (after) failures.push(`${point.fault} at call ${point.call}, ${point.method}: ${before}\nand: ${after}`);
  }
  expect(failures).toEqual([]);
});

test('any two faults lead where none leads', async () => {
  const call = fc.nat({ max: 40 });
  const fault = fc.constantFrom(...FAULTS);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...scenarios), call, fault, call, fault, async (scenario, call1, fault1, later, fault2) => {
      const first = { call: call1, fault: fault1, times: 'once' } as const;
      const second = { call: call1 + 1 + later, fault: fault2, times: 'once' } as const;
      expect(difference(await calmly(scenario), await leftAfter(scenario, first, second))).toBeUndefined();
    }),
    { numRuns: PAIRS },
  );
});
