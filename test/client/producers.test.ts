import { expect, test } from 'vitest';
import { parseRequest } from '../../lib/wire/index.ts';
import { blocksOf } from '../support/producers-page.ts';

test('every message that the page for producers shows is a request', () => {
  const lines = blocksOf('json').join('').trimEnd().split('\n');
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) expect(parseRequest(line)).toMatchObject({ ok: true });
});
