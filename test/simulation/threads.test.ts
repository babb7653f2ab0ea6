import { expect, test } from 'vitest';
import { simulate } from './simulate.ts';
import { Threads } from './threads.ts';

test('a run is the same one on however many threads', { timeout: 120_000 }, async () => {
  const of = { seed: 7, steps: 20_000, profiles: ['everything', 'network'] } as const;
  await using threads = new Threads({ size: 3 });
  expect(await simulate({ ...of, run: threads.run, atOnce: 6 })).toEqual(await simulate(of));
});
