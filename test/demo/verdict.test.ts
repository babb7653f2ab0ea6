import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Asked, type Counts, checksOf, isBroken, lostLines, tallyOf } from '../../demo/verdict.ts';

const asked: Asked = { requests: 720, starts: 230, busy: 20, conflicts: 10, malformed: 22, stops: 50 };
const exact: Counts = {
  requested: 720,
  dispatches: 250,
  started: 230,
  refused: { 'key-busy': 20, 'fingerprint-mismatch': 10, invalid: 6 },
  deadLettered: 22,
  handlerStarts: 297,
  handedBack: 67,
  ends: { succeeded: 180, stopped: 50, 'never-started': 20 },
  lines: { written: 9_000, recorded: 9_000, duplicated: 0, lost: 0 },
  fencedWrites: 0,
  overlaps: 0,
  workers: { a: 100, b: 90, c: 67, d: 40 },
  seconds: 60,
};

function broken(change: Partial<Counts>, settledOnce = 250): readonly string[] {
  return checksOf({ ...exact, ...change }, asked, settledOnce)
    .filter(isBroken)
    .map(({ name }) => name);
}

describe('the verdict', () => {
  test('finds nothing wrong with a run that is exact', () => {
    expect(broken({})).toEqual([]);
  });

  test.each<readonly [string, Partial<Counts>, string]>([
    ['a key with two live handlers (G2)', { overlaps: 1 }, 'overlaps'],
    ['a line recorded twice', { lines: { ...exact.lines, duplicated: 1 } }, 'lines.duplicated'],
    ['a line that was lost', { lines: { ...exact.lines, recorded: 8_999, lost: 1 } }, 'lines.lost'],
    ['a line that nobody wrote', { lines: { ...exact.lines, recorded: 9_001 } }, 'lines.recorded'],
    ['a job that never started (G6)', { started: 229 }, 'started'],
    ['a handler that a repeated start called again (P1)', { handlerStarts: 298 }, 'handlerStarts'],
    ['a conflict that went through (G3)', { refused: { 'key-busy': 20, 'fingerprint-mismatch': 9 } }, 'refused.fingerprint-mismatch'],
    ['a busy key that was taken over (G4)', { refused: { 'key-busy': 19, 'fingerprint-mismatch': 10 } }, 'refused.key-busy'],
    ['a stop that did nothing', { ends: { succeeded: 181, stopped: 49, 'never-started': 20 } }, 'ends.stopped'],
    ['a job that failed', { ends: { succeeded: 179, failed: 1, stopped: 50, 'never-started': 20 } }, 'ends.failed'],
    ['a good request that was dead-lettered', { deadLettered: 23 }, 'deadLettered'],
    ['a request that the queue did not take', { requested: 719 }, 'requested'],
    ['a worker that knows of another start than the sink', { workers: { a: 296 } }, 'workers'],
  ])('names %s', (_, change, name) => {
    expect(broken(change)).toContain(name);
  });

  test('names a dispatch that is not settled, or was settled anew (G3, G7)', () => {
    expect(broken({}, 249)).toEqual(['settled once']);
  });
});

test('a line counts as lost unless it is recorded under its number as it was written', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 8 }), fc.nat(7), (written, at) => {
      const recorded = new Map(written.map((text, index) => [index + 1, text]));
      expect(lostLines(written, recorded)).toBe(0);
      if (at >= written.length) return;
      expect(lostLines(written, new Map(recorded).set(at + 1, `${written[at]}!`))).toBe(1);
      recorded.delete(at + 1);
      expect(lostLines(written, recorded)).toBe(1);
    }),
  );
});

test('a tally counts each name', () => {
  expect(tallyOf(['a', 'b', 'a'])).toEqual({ a: 2, b: 1 });
});
