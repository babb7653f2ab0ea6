import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CLAIMS } from '../../lib/testing/claims.ts';
import { MUTANTS } from './mutants.ts';
import { ROOT } from './transform.ts';

const page = readFileSync(new URL('docs/simulation.md', ROOT), 'utf8');

/** The rows below the heading, but for the table's head. */
function rowsUnder(heading: string): readonly (readonly string[])[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  const lines = section.split('\n').filter((line) => line.startsWith('|'));
  return lines.slice(2).map((line) => line.slice(2, -2).split(' | '));
}

test('docs/simulation.md has every claim of the checker, under its guarantee', () => {
  expect(rowsUnder('Guarantees and their checks').map(([guarantee, claim]) => [guarantee, claim])).toEqual(
    Object.entries(CLAIMS).map(([claim, guarantee]) => [guarantee, claim]),
  );
});

test('docs/simulation.md has every mutant, with what notices it', () => {
  const noticed = rowsUnder('Mutants');
  expect(noticed.map(([name]) => name)).toEqual(MUTANTS.map(({ name }) => name));
  for (const [index, { focused, profile = 'everything' }] of MUTANTS.entries())
    expect(noticed[index]?.[1], noticed[index]?.[0]).toBe(focused ? `\`${focused.test}\`: ${focused.because}` : profile);
});

test('the tests that notice a mutant in place of the simulation are there', () => {
  const files = [...new Set(MUTANTS.flatMap(({ focused }) => focused?.test ?? []))];
  expect(files.filter((file) => !existsSync(new URL(file, ROOT)))).toEqual([]);
});
