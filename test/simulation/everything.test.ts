import { expect, test } from 'vitest';
import { freshSeed } from './fresh-seed.ts';
import { describeFailure, simulate } from './simulate.ts';

const seed = freshSeed();

test(`keeps every guarantee through 150,000 steps of everything going wrong, from seed ${seed}`, { timeout: 300_000 }, async () => {
  const { failure, steps } = await simulate(seed, 150_000, 'everything');
  expect(failure && describeFailure(failure)).toBeUndefined();
  expect(steps).toBeGreaterThanOrEqual(150_000);
});
