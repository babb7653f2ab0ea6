import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { PROFILES } from './profiles.ts';
import { describeFailure, simulate } from './simulate.ts';
import { World } from './world.ts';

/** Lines of `seed profile what it found`; what stands after # is for people. */
const kept = readFileSync(new URL('kept-seeds.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => line.split(/\s+/, 2))
  .map(([seed, name]) => ({ seed: Number(seed), profile: PROFILES.find((profile) => profile === name) ?? 'everything' }));

test.each(kept)('seed $seed of profile $profile, which failed once, fails no more', { timeout: 60_000 }, async ({ seed, profile }) => {
  const { failures } = await simulate({ seed, steps: 1, profiles: [profile] });
  for (const failure of failures) expect.fail(await describeFailure(failure));
});

describe('a run', () => {
  test.each([1, 2, 3])('is the same line by line when its seed is the same: %i', { timeout: 60_000 }, async (seed) => {
    const run = async () => new World({ seed, profile: 'everything', keepLines: 100_000 }).run();
    const [first, second] = [await run(), await run()];
    expect(first.story.length).toBeGreaterThan(0);
    expect(second.story.join('\n')).toBe(first.story.join('\n'));
    expect(second.steps).toBe(first.steps);
  });

  test('is another one when its seed is another one', { timeout: 60_000 }, async () => {
    const [first, second] = [
      await new World({ seed: 1, profile: 'everything', keepLines: 500 }).run(),
      await new World({ seed: 2, profile: 'everything', keepLines: 500 }).run(),
    ];
    expect(second.story.join('\n')).not.toBe(first.story.join('\n'));
  });

  test('asks neither real time nor chance', { timeout: 60_000 }, async () => {
    const asked: string[] = [];
    const isOurs = () => /\/(lib|test\/simulation)\//.test(new Error().stack ?? '');
    for (const [name, owner] of Object.entries({ setTimeout: globalThis, setInterval: globalThis, random: Math, now: Date })) {
      const real = Reflect.get(owner, name);
      const spied = (...args: unknown[]) => {
        if (isOurs()) asked.push(name);
        return Reflect.apply(real, owner, args);
      };
      vi.spyOn(owner as unknown as Record<string, (...args: unknown[]) => unknown>, name).mockImplementation(spied);
    }
    try {
      await new World({ seed: 4, profile: 'everything' }).run();
    } finally {
      vi.restoreAllMocks();
    }
    expect(asked).toEqual([]);
  });
});
