import { expect, test } from 'vitest';
import { measure } from '../../bench/scale.ts';

test('a start makes the same calls and moves as many bytes in a pool of 3 000 jobs as in one of 100', async () => {
  const [small, large] = [await measure(100), await measure(3_000)];
  expect(large.portCalls).toBe(small.portCalls);
  expect(large.bytes).toBeLessThanOrEqual(small.bytes * 1.01);
});
