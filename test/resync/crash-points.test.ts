import { afterAll, expect, test, vi } from 'vitest';
import { type Left, leftAfter, leftAtRest, type Played, type Point, play, pointsOf } from '../support/crash-points.ts';
import { difference, type LeftBehind } from '../support/left-behind.ts';
import { type EntryScenario, entryScenarios, roundScenarios, settle } from './crash-scenarios.ts';

/**
 * Every cell of table 5 that writes or sends, every step of a round, expiry and reassignment: each call of a port fails, in each way, once or
 * twice in a row, and what is left behind is what is left behind without it.
 */
vi.setConfig({ testTimeout: 60_000 });

const entries = entryScenarios();
const byName = <S extends Played>(scenarios: readonly S[]) => scenarios.map((scenario) => [scenario.name, scenario] as const);

const covered = { redelivered: 0, superseded: 0, rounds: 0 };

afterAll(() => {
  const { redelivered, superseded, rounds } = covered;
  process.stdout.write(
    `crash points: ${redelivered} covered in ${entries.length} entries that come again, ${superseded} where their round was superseded meanwhile, ${rounds} in ${roundScenarios.length} rounds\n`,
  );
});

/** Who is told to stop or let go by the first round is told so by the next one, where the first did not come to it; only starts are compared. */
function startsOf({ records, commands, inWords }: LeftBehind): LeftBehind {
  return { records, inWords, commands: new Map([...commands].filter(([command]) => JSON.parse(command).op === 'start')) };
}

async function failuresOf(scenario: Played, calm: Left, points: readonly (Point & { readonly method: string })[]) {
  const failures: string[] = [];
  let count = 0;
  for (const point of points) {
    const left = await leftAfter(scenario, point);
    if (!left.wasHit) continue;
    count += 1;
    const otherwise = difference(calm, left);
    if (otherwise) failures.push(`${point.fault} ${point.times} at call ${point.call}, ${point.method}: ${otherwise}`);
  }
  return { failures, count };
}

test.for(byName(entries))('whichever call fails, and however, the page comes again: %s', async ([, scenario]) => {
  const calm = await leftAfter(scenario);
  expect(calm.records).toContain('"round": "resolved"');
  const { failures, count } = await failuresOf(scenario, calm, await pointsOf(scenario, /^report$/));
  covered.redelivered += count;
  expect(failures).toEqual([]);
  expect(count).toBeGreaterThan(10);
});

// Nobody asks again about what has no record.
test.for(byName(entries.filter(({ job }) => job !== undefined)))(
  'its round is superseded meanwhile, so the page is discarded, and the next round decides: %s',
  async ([, scenario]) => {
    const whole: EntryScenario = { ...scenario, steps: [...scenario.steps, scenario.nextRound, settle] };
    const calm = await leftAfter(whole);
    const failures: string[] = [];
    for (const point of await pointsOf(scenario, /^report$/)) {
      if (point.times === 'twice' || point.fault === 'overtaken' || point.fault === 'conflict') continue;
      const { plane } = await play(whole, [point], { struck: (_, struck) => void scenario.supersede(struck) });
      covered.superseded += 1;
      const otherwise = difference(startsOf(calm), startsOf(await leftAtRest(plane)));
      if (otherwise) failures.push(`${point.fault} at call ${point.call}, ${point.method}: ${otherwise}`);
    }
    expect(failures).toEqual([]);
  },
);

test.for(byName(roundScenarios))('whichever call fails, and however: %s', async ([, scenario]) => {
  const calm = await leftAfter(scenario);
  expect(calm.inWords).toBe(scenario.leaves);
  const { failures, count } = await failuresOf(scenario, calm, await pointsOf(scenario, /^(resync|report|sweep)/));
  covered.rounds += count;
  expect(failures).toEqual([]);
});
