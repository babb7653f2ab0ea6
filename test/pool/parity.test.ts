import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const rows = readFileSync(new URL('docs/parity.md', root), 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, id, what, tests] = line.match(/^\| ([PRF]\d+) \| (.+?) \| (.+) \|$/) ?? [];
    if (!id || !what || !tests) return [];
    // Where one file plays the scenarios of another, the id stands with the scenario.
    const named = tests.replaceAll(/ \(swept by `[^`]+`\)/g, '');
    return [{ id, what, tests, files: filesIn(tests), naming: filesIn(named) }];
  });

function filesIn(text: string): readonly string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, file]) => file as string);
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
/** Faults that were reported of other systems; numbers that are not here were none of this one's. */
const REPORTED = [
  1, 2, 4, 5, 6, 7, 8, 10, 11, 13, 15, 18, 19, 20, 22, 24, 26, 27, 29, 31, 32, 33, 34, 36, 37, 39, 40, 41, 43, 44, 47, 48, 49,
];

test('docs/parity.md has a row for each requirement and each field report, and one only', () => {
  const expected = [...numbers(1, 18).map((n) => `P${n}`), ...numbers(1, 14).map((n) => `R${n}`), ...REPORTED.map((n) => `F${n}`)];
  expect(rows.map(({ id }) => id)).toEqual(expected);
});

test.for(rows)('$id: $what', ({ id, tests, files, naming }) => {
  if (tests.startsWith('does not apply')) return expect(files).toEqual([]);
  expect(naming.length, 'tests that prove it').toBeGreaterThan(0);
  for (const file of files) expect(existsSync(new URL(file, root)), `${file} is there`).toBe(true);
  for (const file of naming) expect(names(readFileSync(new URL(file, root), 'utf8'), id), `${file} names ${id}`).toBe(true);
});

/** As it is, or within a range such as P6–P9. */
function names(text: string, id: string): boolean {
  const [kind, number] = [id[0], Number(id.slice(1))];
  if (new RegExp(`\\b${id}\\b`).test(text)) return true;
  return [...text.matchAll(new RegExp(`\\b${kind}(\\d+)[-–]${kind}?(\\d+)\\b`, 'g'))].some(
    ([, from, to]) => Number(from) <= number && number <= Number(to),
  );
}
