import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { WorkerRow } from '../../lib/pool/worker.ts';
import { decideExpiry, type Silence } from '../../lib/resync/decide-expiry.ts';
import type { Round } from '../../lib/resync/round.ts';
import { worker } from '../../protocol/cast.ts';

const TIMEOUT = 30_000;
const settings = { now: 100_000, roundTimeoutMs: TIMEOUT, maxSilentRounds: 3 };

function aRound(more: Partial<Round> = {}): Round {
  const round = { token: 'R1', worker: 'w1', session: 's1', state: 'armed', beat: 7, openedAt: 1, deadline: 2, asked: 1 } as const;
  return { ...round, applied: new Set(), skipped: 0, counts: {}, ...more };
}
function aRow(more: Partial<WorkerRow> = {}): WorkerRow {
  return worker('w1', 's1', { round: 'R1', beat: 7, ...more });
}
function expiry(row: WorkerRow | undefined, { round = aRound(), silence = { rounds: 0 } }: { round?: Round; silence?: Silence } = {}) {
  return decideExpiry(round, row, silence, settings);
}

describe('a round whose time is up', () => {
  test.for<[string, WorkerRow | undefined, string]>([
    ['no row', undefined, 'stale'],
    ['the row of another session', aRow({ session: 's2' }), 'stale'],
    ['beat unchanged, active', aRow(), 'lost'],
    ['beat unchanged, draining', aRow({ state: 'draining' }), 'lost'],
    ['beat unchanged, revoked: only a lease of waiting decides', aRow({ state: 'revoked' }), 'wait'],
    ['lost by an earlier run of this step', aRow({ state: 'lost' }), 'gone'],
    ['left meanwhile', aRow({ state: 'left' }), 'gone'],
    ['beat moved, answered: the pages are still in the queue', aRow({ beat: 8, answered: 'R1' }), 'behind'],
    ['beat moved, not answered', aRow({ beat: 8 }), 'again'],
    ['beat moved, an older round answered', aRow({ beat: 8, answered: 'R0' }), 'again'],
  ])('%s: %s', ([, row, outcome]) => {
    expect(expiry(row).outcome).toBe(outcome);
  });

  test('is stale where the round is resolved already, or closed and another one is the current one (R3)', () => {
    for (const row of [aRow(), aRow({ round: 'R2' })]) expect(expiry(row, { round: aRound({ state: 'resolved' }) }).outcome).toBe('stale');
    for (const row of [aRow({ round: 'R2' }), aRow({ round: 'R2', beat: 8 })])
      expect(expiry(row, { round: aRound({ state: 'closed' }) }).outcome).toBe('stale');
  });

  describe.each<Partial<Round>>([{ state: 'open', asked: 0 }, { state: 'armed' }])('that the row does not point at yet (%o)', (more) => {
    const round = aRound(more);
    const row = (more: Partial<WorkerRow> = {}) => aRow({ round: 'R0', ...more });
    test('is judged by the beat all the same: a dead worker that nobody managed to ask is lost', () => {
      expect(expiry(row(), { round }).outcome).toBe('lost');
      expect(expiry(row({ state: 'draining' }), { round }).outcome).toBe('lost');
      expect(expiry(row({ leaseMs: 70_000 }), { round }).outcome).toBe('again');
      expect(expiry(row({ state: 'revoked' }), { round }).outcome).toBe('wait');
    });

    test('is given more time once where the worker beats, then opened anew; never is the worker revoked for a question that it was not asked', () => {
      const silence = { rounds: 2 };
      const behind = { rounds: 2, behind: 'R1' };
      expect(expiry(row({ beat: 8 }), { round, silence })).toEqual({ outcome: 'behind', silence: behind });
      expect(expiry(row({ beat: 8 }), { round, silence: behind })).toEqual({ outcome: 'again', silence: behind });
    });
  });

  test('means the same again where the round was closed for it, and nobody heard of that', () => {
    for (const row of [aRow(), aRow({ leaseMs: 70_000 }), aRow({ beat: 8 })])
      expect(expiry(row, { round: aRound({ state: 'closed' }) })).toEqual(expiry(row));
    expect(expiry(aRow({ round: 'R2' }), { round: aRound({ state: 'closed' }) }).outcome).toBe('stale');
  });

  test('revokes a worker that beats through three rounds without an answer', () => {
    const first = expiry(aRow({ beat: 8 }));
    const second = expiry(aRow({ beat: 9 }), { silence: first.outcome === 'again' ? first.silence : { rounds: 0 } });
    expect([first.outcome, second.outcome]).toEqual(['again', 'again']);
    expect(expiry(aRow({ beat: 10 }), { silence: second.outcome === 'again' ? second.silence : { rounds: 0 } }).outcome).toBe('revoke');
  });

  test('never revokes a worker that has answered, however late the control plane is', () => {
    expect(expiry(aRow({ beat: 8, answered: 'R1' }), { silence: { rounds: 99 } }).outcome).toBe('behind');
  });

  test('gives an answered round more time once, then asks anew: a page of the answer may be lost for good', () => {
    const row = aRow({ beat: 8, answered: 'R1' });
    const first = expiry(row, { silence: { rounds: 2 } });
    expect(first).toEqual({ outcome: 'behind', silence: { rounds: 2, behind: 'R1' } });
    expect(expiry(row, { silence: { rounds: 2, behind: 'R1' } })).toEqual({ outcome: 'again', silence: { rounds: 2, behind: 'R1' } });
    expect(expiry(row, { silence: { rounds: 2, behind: 'R0' } }).outcome).toBe('behind');
  });

  test('a session with a longer lease than the round needs as many unchanged rounds as cover it', () => {
    const row = aRow({ leaseMs: 70_000 });
    let silence: Silence = { rounds: 0 };
    const outcomes: string[] = [];
    for (let round = 0; round < 3; round++) {
      const decided = expiry(row, { silence });
      outcomes.push(decided.outcome);
      if (decided.outcome === 'again') silence = decided.silence;
    }
    expect(outcomes).toEqual(['again', 'again', 'lost']);
  });

  test('a beat in between starts the count of unchanged rounds anew', () => {
    const silence = { rounds: 0, unchanged: { beat: 6, ms: 60_000 } };
    expect(expiry(aRow({ leaseMs: 70_000 }), { silence }).outcome).toBe('again');
  });

  test('law: lost only ever follows from an unchanged beat that covers the row’s own lease', () => {
    fc.assert(
      fc.property(
        fc.record({
          beat: fc.integer({ min: 5, max: 9 }),
          lease: fc.integer({ min: 3_000, max: 90_000 }),
          rounds: fc.nat(5),
          beatBefore: fc.integer({ min: 5, max: 9 }),
          ms: fc.nat(90_000),
        }),
        ({ beat, lease, rounds, beatBefore, ms }) => {
          const decided = expiry(aRow({ beat, leaseMs: lease }), { silence: { rounds, unchanged: { beat: beatBefore, ms } } });
          if (decided.outcome !== 'lost') return;
          expect(beat).toBe(7);
          expect(TIMEOUT + (beatBefore === 7 ? ms : 0)).toBeGreaterThanOrEqual(lease);
        },
      ),
    );
  });
});
