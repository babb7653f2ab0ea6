import { describe, expect, test } from 'vitest';
import { MUTANTS } from './mutants.ts';
import { shrink } from './shrink.ts';
import { describeFailure, replayOf, simulate } from './simulate.ts';
import { Threads } from './threads.ts';

describe('a world that fails', () => {
  test('is cut down to the few incidents without which it does not fail, and they alone replay it', { timeout: 240_000 }, async () => {
    const { edits } = MUTANTS.find(({ name }) => name === 'next is dropped and never settled') ?? { edits: [] };
    await using threads = new Threads({ size: 2, edits });
    const { failures } = await simulate({ seed: 1, steps: 200_000, profiles: ['everything'], run: threads.run, atOnce: 2 });
    const [failure] = failures;
    if (!failure) throw new Error('the mutant was not caught');
    const { task, incidents, ...shrunk } = await shrink(failure, { run: threads.run, atOnce: 2 });

    // A start, a second one that waits as next, and a stop by key.
    expect(incidents.before).toBeGreaterThan(20);
    expect(incidents.left.length).toBeLessThanOrEqual(5);
    expect(shrunk.failure.violation.guarantee).toBe(failure.violation.guarantee);

    // Not one of them can be left out.
    for (const name of incidents.left) {
      const { violation } = await threads.run({ ...task, only: incidents.left.filter((other) => other !== name) });
      expect(violation?.guarantee, name).not.toBe(failure.violation.guarantee);
    }
    const story = await describeFailure(shrunk.failure, threads.run, task);
    expect(story).toContain(`${failure.violation.guarantee} was broken`);
    expect(story).toContain(`npm run simulate -- ${replayOf(task)}`);
    expect(replayOf(task)).toContain(`--only '${incidents.left.join(',')}'`);
  });
});
