import fc from 'fast-check';
import { fingerprintOf, parseRequest } from 'holdfast/wire';
import { expect, test } from 'vitest';
import { dispatchesOf, mishaps, scenarioOf, sizesOf } from '../../demo/scenario.ts';
import { maxInlineBytes } from '../../lib/aws/dispatch-item.ts';

const sizes = fc.record({ jobs: fc.integer({ min: 8, max: 120 }), workers: fc.integer({ min: 1, max: 4 }), seed: fc.nat() });

test('the demo at full size has 200 jobs on 3 workers, 50 stops and 25 starts again, 12 jobs without their records, and everything that may happen to a worker', () => {
  const expected = { jobs: 200, workers: 3, busy: 20, waiting: 5, conflicts: 10, stops: 50, restarts: 25, deletions: 12, mishaps };
  expect(sizesOf(200, 3)).toEqual(expected);
});

test('a scenario is the same for the same seed and another for another', () => {
  expect(scenarioOf(sizesOf(40, 2), '/feeds', 'run', 7)).toEqual(scenarioOf(sizesOf(40, 2), '/feeds', 'run', 7));
  expect(scenarioOf(sizesOf(40, 2), '/feeds', 'run', 7)).not.toEqual(scenarioOf(sizesOf(40, 2), '/feeds', 'run', 8));
});

test('every dispatch of a scenario has an id of its own and is a request that the wire takes', () => {
  fc.assert(
    fc.property(sizes, ({ jobs, workers, seed }) => {
      const scenario = scenarioOf(sizesOf(jobs, workers), '/feeds', 'run', seed);
      const dispatches = dispatchesOf(scenario);
      expect(new Set(dispatches.map(({ dispatchId }) => dispatchId)).size).toBe(dispatches.length);
      for (const body of [...dispatches, ...scenario.stops, ...scenario.conflicts]) {
        expect(parseRequest(JSON.stringify(body))).toMatchObject({ ok: true });
      }
    }),
  );
});

test('nothing malformed in a scenario is a request that the wire takes', () => {
  const { malformed } = scenarioOf(sizesOf(200, 3), '/feeds', 'run', 1);
  expect(malformed).toHaveLength(11);
  for (const { body } of malformed) expect(parseRequest(body)).toMatchObject({ ok: false });
});

test('conflicts repeat the id of a start with another payload', () => {
  const { starts, conflicts } = scenarioOf(sizesOf(200, 3), '/feeds', 'run', 1);
  expect(conflicts).toHaveLength(10);
  for (const conflict of conflicts) {
    const original = starts.find(({ dispatchId }) => dispatchId === conflict.dispatchId);
    expect(original).toMatchObject({ key: conflict.key });
    expect(original?.payload).not.toBe(conflict.payload);
  }
});

test('records are deleted of jobs that have nothing to come after the refusal of a start, or stop and stay so', () => {
  fc.assert(
    fc.property(sizes, ({ jobs, workers, seed }) => {
      const scenario = scenarioOf(sizesOf(jobs, workers), '/feeds', 'run', seed);
      const keysOf = (bodies: readonly { readonly key: string }[]) => new Set(bodies.map(({ key }) => key));
      const { starts, busy, waiting, conflicts, stops, restartsAtOnce, restartsAfterwards, deletions, deletionsAtStop } = scenario;
      const later = keysOf([...waiting, ...conflicts, ...stops, ...restartsAtOnce, ...restartsAfterwards]);
      for (const { key } of deletions) expect([keysOf(busy).has(key), later.has(key)]).toEqual([true, false]);
      const again = keysOf([...restartsAtOnce, ...restartsAfterwards]);
      for (const { key } of deletionsAtStop) expect([keysOf(stops).has(key), again.has(key)]).toEqual([true, false]);
      expect(new Set(deletions.map(({ records }) => records.join())).size).toBe(4);
      for (const { key, dispatchId, fingerprint, records } of [...deletions, ...deletionsAtStop]) {
        const payload = Buffer.from(starts.find((start) => start.dispatchId === dispatchId)?.payload ?? '');
        expect(fingerprintOf(key, payload)).toBe(fingerprint);
        expect(payload.byteLength > maxInlineBytes).toBe(records.includes('payload'));
      }
    }),
  );
});

test('no start waits at a key that is stopped, and only what is stopped is started again', () => {
  fc.assert(
    fc.property(sizes, ({ jobs, workers, seed }) => {
      const { stops, waiting, restartsAtOnce, restartsAfterwards } = scenarioOf(sizesOf(jobs, workers), '/feeds', 'run', seed);
      const stopped = new Set(stops.map(({ key }) => key));
      expect(stopped.size).toBe(stops.length);
      for (const { key } of waiting) expect(stopped).not.toContain(key);
      for (const { key } of [...restartsAtOnce, ...restartsAfterwards]) expect(stopped).toContain(key);
    }),
  );
});
