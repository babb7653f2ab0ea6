import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';

const page = readFileSync(new URL('../../docs/handlers.md', import.meta.url), 'utf8');
const [create = '', begin = '', write = ''] =
  /```sql\n([\s\S]*?)```/
    .exec(page)?.[1]
    ?.split(/(?<=;)\n/)
    .map((statement) => statement.trim()) ?? [];

test('the SQL that the handlers page shows refuses a job that was replaced, and lets its successor go on where it was (F36)', () => {
  const database = new DatabaseSync(':memory:');
  database.exec(create);
  const begins = (fence: number) => database.prepare(begin).get({ $key: 'k', $fence: fence }) as { position: number } | undefined;
  const writes = (fence: number, position: number) =>
    database.prepare(write).run({ $key: 'k', $fence: fence, $position: position }).changes;

  expect(begins(5)).toEqual({ position: 0 });
  expect([writes(5, 10), writes(5, 20)]).toEqual([1, 1]);
  expect(begins(7)).toEqual({ position: 20 });
  expect(writes(5, 30)).toBe(0);
  expect(begins(5)).toBeUndefined();
  expect(writes(7, 40)).toBe(1);
  // The fence of a job that is up may rise.
  expect(writes(8, 50)).toBe(1);
  expect(begins(8)).toEqual({ position: 50 });
});
