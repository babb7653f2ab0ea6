import { expect, test } from 'vitest';
import { freshSeed } from './fresh-seed.ts';
import { describeFailure, simulate } from './simulate.ts';

const seed = freshSeed();

const named = 'P1-P5, P10, P11, P14, P17; F1, F2, F6-F8, F10, F11, F15, F20, F27, F33, F36, F49';

test(`keeps every guarantee through 150,000 steps of everything going wrong (${named}), from seed ${seed}`, {
  timeout: 300_000,
}, async () => {
  const { failures, steps } = await simulate({ seed, steps: 150_000, profiles: ['everything'] });
  for (const failure of failures) expect.fail(await describeFailure(failure));
  expect(steps).toBeGreaterThanOrEqual(150_000);
});
