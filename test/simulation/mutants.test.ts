import { describe, expect, test } from 'vitest';
import { MUTANTS } from './mutants.ts';
import { tried } from './mutation.ts';
import { assertFits } from './transform.ts';

describe('the mutants', () => {
  test('are at least 30, each with a name of its own', () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(30);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  });

  test.for(MUTANTS.map(({ name, edits }) => [name, edits] as const))('fits the code as it is: %s', ([, edits]) => {
    for (const edit of edits) assertFits(edit);
  });

  test('which no longer fit are an error, and not a run of unchanged code', () => {
    const edit = { file: 'lib/pool/job.ts', find: 'what is not there', replace: '' };
    expect(() => assertFits(edit)).toThrow('lib/pool/job.ts: what is to be replaced occurs 0 times, not once: what is not there');
    expect(() => assertFits({ ...edit, find: 'readonly' })).toThrow(/occurs \d+ times, not once/);
  });

  test('are run as they are broken: one is caught, and the code beside it goes on unbroken', { timeout: 120_000 }, async () => {
    const broken = MUTANTS.find(({ name }) => name === 'a job ends at the time of processing');
    if (!broken) throw new Error('no such mutant');
    const steps = 30_000;
    const [caught, unbroken] = await Promise.all([tried({ ...broken, steps }, 1), tried({ name: 'nothing', edits: [], steps }, 1)]);
    expect(caught).toMatchObject({ outcome: 'caught', by: 'G7 ends are final' });
    expect(unbroken.outcome).toBe('survived');
  });
});
