import fc from 'fast-check';
import { expect, test } from 'vitest';
import { beatDueInMs, beatRetryMs, elapsedMs, heldForMs, leftMs, renewed } from '../../lib/worker/lease.ts';

const ms = fc.integer({ min: 0, max: 10_000_000 });
const moment = fc.record({ wall: fc.integer({ min: 1_000_000_000_000, max: 1_900_000_000_000 }), monotonic: ms });
const leaseMs = fc.integer({ min: 3_000, max: 90_000 });

test('no clock that is set back, and none that stands still, makes a lease longer', () => {
  fc.assert(
    fc.property(leaseMs, moment, ms, ms, fc.integer({ min: -10_000_000, max: 10_000_000 }), (leaseMs, since, passed, stood, set) => {
      const truth = { wall: since.wall + passed, monotonic: since.monotonic + passed };
      const suspended = { ...truth, monotonic: since.monotonic + Math.max(0, passed - stood) };
      const setBack = { ...truth, wall: truth.wall + set };
      for (const now of [suspended, setBack]) {
        expect(elapsedMs(since, now)).toBeGreaterThanOrEqual(passed);
        expect(leftMs({ leaseMs, since }, now)).toBeLessThanOrEqual(Math.max(0, leaseMs - passed));
        expect(heldForMs({ leaseMs, since }, now)).toBeLessThanOrEqual(Math.max(0, Math.floor((2 / 3) * leaseMs) - passed));
      }
    }),
  );
});

test('jobs are stopped a third of the lease before its end, and a heartbeat is due a third before that', () => {
  fc.assert(
    fc.property(leaseMs, moment, (leaseMs, since) => {
      const lease = { leaseMs, since };
      expect(leftMs(lease, since)).toBe(leaseMs);
      expect(heldForMs(lease, since)).toBe(Math.floor((2 / 3) * leaseMs));
      expect(beatDueInMs(lease, since)).toBe(Math.floor(leaseMs / 3));
      expect(beatDueInMs(lease, since) + 3 * beatRetryMs(leaseMs)).toBeLessThan(heldForMs(lease, since));
    }),
  );
});

test('a heartbeat that was sent earlier than the last successful one changes nothing when its answer comes late', () => {
  fc.assert(
    fc.property(leaseMs, moment, moment, (leaseMs, since, sent) => {
      const after = renewed({ leaseMs, since }, sent);
      expect(after.since.monotonic).toBe(Math.max(since.monotonic, sent.monotonic));
      expect(after.leaseMs).toBe(leaseMs);
    }),
  );
});
