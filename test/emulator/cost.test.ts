import { expect, inject, it } from 'vitest';
import { cost } from '../../bench/cost.ts';

it('starts and stops a job within the budget of units, requests and dollars', async () => {
  Object.assign(process.env, inject('stack').environments.root);
  const { cases, breaches } = await cost(() => {}, [256, 1_024]);
  expect(breaches).toEqual([]);
  expect(cases.map(({ payloadBytes, batch }) => [payloadBytes, batch])).toEqual([
    [256, 1],
    [256, 10],
    [1_024, 1],
    [1_024, 10],
  ]);
});
