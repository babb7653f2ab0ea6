import { expect, test } from 'vitest';
import { resync } from '../../bench/resync.ts';

test('a worker of 1 000 jobs is asked, answers and is replaced within the budgets of bytes, writes and requests, with as many calls per job as one of 200', async () => {
  const { cases, breaches } = await resync(() => {}, [200, 1_000]);
  expect(breaches).toEqual([]);
  expect(cases.map(({ jobs, fate, writesPerJob, requestsPerJob }) => [fate, jobs, writesPerJob, requestsPerJob])).toEqual([
    ['unchanged', 200, 0, 0],
    ['unchanged', 1_000, 0, 0],
    ['finished', 200, 1, 0],
    ['finished', 1_000, 1, 0],
    ['lost', 200, 2, 1],
    ['lost', 1_000, 2, 1],
  ]);
}, 60_000);
