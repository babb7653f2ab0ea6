import { describe, expect, test } from 'vitest';
import { freshSeed } from './fresh-seed.ts';
import { describeFailure, simulate } from './simulate.ts';

const seed = freshSeed();

describe.each(['calm', 'network', 'processes', 'restore'] as const)('profile %s', (profile) => {
  test(`keeps every guarantee through 50,000 steps, from seed ${seed}`, { timeout: 300_000 }, async () => {
    const { failure, steps } = await simulate(seed, 50_000, profile);
    expect(failure && describeFailure(failure)).toBeUndefined();
    expect(steps).toBeGreaterThanOrEqual(50_000);
  });
});
