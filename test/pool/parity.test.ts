import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const rows = readFileSync(new URL('docs/parity.md', root), 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, id, what, tests] = line.match(/^\| ([PRF]\d+) \| (.+?) \| (.+) \|$/) ?? [];
    return id && what && tests ? [{ id, what, tests, files: [...tests.matchAll(/`([^`]+)`/g)].map(([, file]) => file as string) }] : [];
  });

test('docs/parity.md has a row for each requirement', () => {
  const ids = rows.map(({ id }) => id);
  for (let number = 1; number <= 18; number++) expect(ids).toContain(`P${number}`);
  for (let number = 1; number <= 14; number++) expect(ids).toContain(`R${number}`);
  expect(new Set(ids).size).toBe(ids.length);
});

test.for(rows)('$id: $what', ({ id, tests, files }) => {
  if (tests.startsWith('does not apply')) return expect(files).toEqual([]);
  expect(files.length, 'tests that prove it').toBeGreaterThan(0);
  const named = new RegExp(`\\b${id}\\b|\\b${id[0]}\\d+[-–]${id[0]}?\\d+\\b`);
  // Where one file plays the scenarios of another, the id stands with the scenario.
  const [first, ...others] = files;
  for (const file of tests.includes('swept by') ? [first as string] : [first as string, ...others]) {
    expect(readFileSync(new URL(file, root), 'utf8'), `${file} names ${id}`).toMatch(named);
  }
});
