import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Asked, type Counts, checksOf, isBroken, lostLines, tallyOf } from '../../demo/verdict.ts';

const mishaps = new Map([
  ['restarted', 60],
  ['killed', 70],
  ['frozen', 50],
  ['cut-off', 40],
] as const);
const asked: Asked = { requests: 720, starts: 230, busy: 20, conflicts: 10, malformed: 22, stops: 50, deletions: 17, mishaps };
const exact: Counts = {
  requested: 720,
  dispatches: 250,
  started: 230,
  refused: { 'key-busy': 20, 'fingerprint-mismatch': 10, invalid: 6 },
  deadLettered: 22,
  handlerStarts: 517,
  handedBack: 67,
  reowned: 220,
  restored: 17,
  ends: { succeeded: 180, stopped: 50, 'never-started': 20 },
  lines: { written: 9_000, recorded: 9_000, duplicated: 0, lost: 0 },
  fencedWrites: 0,
  overlaps: 0,
  rounds: { lost: 3, resolved: 1 },
  recovery: {
    restarted: { min: 0.2, median: 0.3, max: 0.5 },
    killed: { min: 1.2, median: 1.3, max: 1.5 },
    frozen: { min: 1.2, median: 1.3, max: 1.5 },
    'cut-off': { min: 0.7, median: 1.3, max: 1.5 },
  },
  workers: { a: 200, b: 190, c: 67, d: 60 },
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
    ['a handler that a repeated start called again (P1)', { handlerStarts: 518 }, 'handlerStarts'],
    ['a lost job that nobody started again (G6)', { reowned: 219 }, 'handlerStarts'],
    ['a conflict that went through (G3)', { refused: { 'key-busy': 20, 'fingerprint-mismatch': 9 } }, 'refused.fingerprint-mismatch'],
    ['a busy key that was taken over (G4)', { refused: { 'key-busy': 19, 'fingerprint-mismatch': 10 } }, 'refused.key-busy'],
    ['a stop that did nothing', { ends: { succeeded: 181, stopped: 49, 'never-started': 20 } }, 'ends.stopped'],
    ['a job that failed', { ends: { succeeded: 179, failed: 1, stopped: 50, 'never-started': 20 } }, 'ends.failed'],
    ['a good request that was dead-lettered', { deadLettered: 23 }, 'deadLettered'],
    ['a request that the queue did not take', { requested: 719 }, 'requested'],
    ['a record that did not come back, or came back with another time (G5, P6)', { restored: 16 }, 'restored'],
    ['more refused writes than a frozen process can have tried', { fencedWrites: 51 }, 'fencedWrites'],
    ['a silent worker that no round has asked', { rounds: { lost: 2, resolved: 2 } }, 'rounds.lost'],
    [
      'a job that was taken from a worker before its lease was over (G2)',
      { recovery: { ...exact.recovery, 'cut-off': { min: 0.6, median: 1.3, max: 1.5 } } },
      'recovery.cut-off.min',
    ],
    ['a worker that knows of another start than the sink', { workers: { a: 516 } }, 'workers'],
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
