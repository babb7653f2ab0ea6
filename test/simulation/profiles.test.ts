import { describe, expect, test } from 'vitest';
import { freshSeed } from './fresh-seed.ts';
import { describeFailure, simulate } from './simulate.ts';

const seed = freshSeed();

describe.each(['calm', 'network', 'processes', 'restore'] as const)('profile %s', (profile) => {
  test(`keeps every guarantee through 50,000 steps, from seed ${seed}`, { timeout: 300_000 }, async () => {
    const { failures, steps } = await simulate({ seed, steps: 50_000, profiles: [profile] });
    for (const failure of failures) expect.fail(await describeFailure(failure));
    expect(steps).toBeGreaterThanOrEqual(50_000);
  });
});
