import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dispatch, endOf, isSameRequest, type Outcome, outcomeOf, type Settlement, settle } from '../../lib/pool/dispatch.ts';
import { settleDispatch } from '../../lib/pool/effects.ts';
import { DEFAULT_SETTINGS } from '../../lib/pool/settings.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { dispatch, fingerprint, KEY, NOW, PAYLOAD } from '../../protocol/cast.ts';

const EXPIRES_AT = 9_000;
const RECORDS = ['absent', 'admitted', 'started', 'ended', 'never-started'] as const;

const settlement = (more: Partial<Settlement>): Settlement => ({
  ...{ dispatchId: 'd1', key: KEY, fingerprint: fingerprint('d1'), fence: 100, requestedAt: 10, outcome: { outcome: 'started', at: 160 } },
  ...more,
});
const SETTLEMENTS = {
  started: settlement({}),
  ended: settlement({ end: { status: 'failed', finishedAt: 400, error: { code: 'boom', message: 'it broke' } } }),
  'never-started': settlement({ outcome: { outcome: 'cancelled', by: 'superseded' } }),
} as const;

describe('a dispatch is settled as far as it was not, and no further', () => {
  const table = {
    absent: { started: 'started', ended: 'ended', 'never-started': 'never-started' },
    admitted: { started: 'started', ended: 'ended', 'never-started': 'never-started' },
    started: { started: 'nothing', ended: 'ended', 'never-started': 'nothing' },
    ended: { started: 'nothing', ended: 'nothing', 'never-started': 'nothing' },
    'never-started': { started: 'nothing', ended: 'nothing', 'never-started': 'nothing' },
  } as const;
  const cells = RECORDS.flatMap((record) =>
    (['started', 'ended', 'never-started'] as const).map((by) => [record, by, table[record][by]] as const),
  );

  test.for(cells)('%s, settled as %s: %s', ([record, by, expected]) => {
    const before = dispatch('d1', record, { fence: 100 });
    expect(settle(before, SETTLEMENTS[by], EXPIRES_AT)?.status ?? 'nothing').toBe(expected);
  });

  const known = RECORDS.flatMap((status) => dispatch('d1', status) ?? []);
  test.for(known)('$status: another key or payload changes nothing', (before) => {
    for (const by of Object.values(SETTLEMENTS)) {
      expect(settle(before, { ...by, key: 'another' }, EXPIRES_AT)).toBeUndefined();
      expect(settle(before, { ...by, fingerprint: fingerprint('d2') }, EXPIRES_AT)).toBeUndefined();
    }
  });

  test('a record that knows no payload takes any, and knows it from then on', () => {
    const { fingerprint: _, ...stopOnly } = dispatch('d1', 'admitted') as Dispatch;
    const settled = settle(stopOnly as Dispatch, SETTLEMENTS['never-started'], EXPIRES_AT);
    expect(settled).toMatchObject({ status: 'never-started', fingerprint: fingerprint('d1') });
  });

  test('where no job names it, an end of a lower fence changes nothing, for a later start may be on its way', () => {
    const before = dispatch('d1', 'started', { fence: 101 });
    const end = { ...SETTLEMENTS.ended, unnamed: true } as const;
    expect(settle(before, end, EXPIRES_AT)).toBeUndefined();
    expect(settle(before, { ...end, fence: 101 }, EXPIRES_AT)?.status).toBe('ended');
    expect(settle(before, SETTLEMENTS.ended, EXPIRES_AT)?.status, 'the end that its job knows').toBe('ended');
  });

  test('a missing record is written whole', () => {
    const { dispatchId, key, fence, outcome, end, requestedAt } = SETTLEMENTS.ended;
    const whole = {
      status: 'ended',
      dispatchId,
      key,
      fingerprint: fingerprint('d1'),
      fence,
      requestedAt,
      outcome,
      end,
      expiresAt: EXPIRES_AT,
    };
    expect(settle(undefined, SETTLEMENTS.ended, EXPIRES_AT)).toEqual(whole);
  });

  test('an outcome keeps the time since when it first ran, whoever ends it', () => {
    const ended = settle(dispatch('d1', 'started'), SETTLEMENTS.ended, EXPIRES_AT);
    expect(ended && outcomeOf(ended)).toEqual({ outcome: 'started', at: 150 });
  });
});

const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ outcome: fc.constant('started' as const), at: fc.integer({ min: 100, max: 105 }) }),
  fc.constantFrom<Outcome>(
    { outcome: 'cancelled', by: 'stop' },
    { outcome: 'refused', reason: 'expired' },
    { outcome: 'start-failed', error: { code: 'boom', message: 'it broke' }, attempts: 5 },
  ),
);
/** Mostly of the same request; now and then of one that has no business with it. */
const anySettlement: fc.Arbitrary<Settlement> = fc
  .record({
    outcome,
    finishedAt: fc.option(fc.integer({ min: 200, max: 205 }), { nil: undefined }),
    fence: fc.integer({ min: 98, max: 102 }),
    unnamed: fc.boolean(),
    key: fc.oneof({ weight: 6, arbitrary: fc.constant(KEY) }, fc.constant('another')),
    payload: fc.oneof({ weight: 6, arbitrary: fc.constantFrom('d1', undefined) }, fc.constant('d2' as const)),
  })
  .map(({ outcome: became, finishedAt, fence, unnamed, key, payload }) => {
    const { fingerprint: _, ...bare } = settlement({ outcome: became, fence, key });
    return {
      ...bare,
      ...(payload ? { fingerprint: fingerprint(payload) } : {}),
      ...(became.outcome === 'started' && finishedAt !== undefined ? { end: { status: 'succeeded', finishedAt } as const } : {}),
      ...(unnamed ? { unnamed } : {}),
    };
  });
const records = fc.constantFrom(...RECORDS).map((status) => dispatch('d1', status, { fence: 100 }));
const history = fc.array(anySettlement, { minLength: 1, maxLength: 8 });

/** Every record that a sequence of settlements goes through. */
function statesOf(first: Dispatch | undefined, settlements: readonly Settlement[]): readonly (Dispatch | undefined)[] {
  const states = [first];
  for (const [index, by] of settlements.entries()) states.push(settle(states.at(-1), by, EXPIRES_AT + index) ?? states.at(-1));
  return states;
}

describe('whatever is settled, in whatever order', () => {
  test('the same again changes nothing', () => {
    fc.assert(
      fc.property(records, history, (first, settlements) => {
        const last = statesOf(first, settlements).at(-1);
        const once = settlements.at(-1) as Settlement;
        expect(settle(last, once, EXPIRES_AT + 1_000)).toBeUndefined();
      }),
    );
  });

  test('an outcome never changes, and the first end wins', () => {
    fc.assert(
      fc.property(records, history, (first, settlements) => {
        const states = statesOf(first, settlements).filter((state) => state !== undefined);
        for (const [index, state] of states.entries()) {
          const later = states.slice(index + 1);
          const known = outcomeOf(state);
          if (known) for (const each of later) expect(outcomeOf(each)).toEqual(known);
          if (endOf(state)) for (const each of later) expect(each).toEqual(state);
        }
      }),
    );
  });

  test('key, payload and time of the request stay', () => {
    fc.assert(
      fc.property(records, history, (first, settlements) => {
        const states = statesOf(first, settlements).filter((state) => state !== undefined);
        const [earliest] = states;
        for (const state of states) {
          expect(isSameRequest(state, earliest?.key ?? '', earliest?.fingerprint)).toBe(true);
          expect(state.requestedAt).toBe(earliest?.requestedAt);
        }
        const fences = states.map(({ fence }) => fence);
        expect(fences, 'a fence never falls').toEqual(fences.toSorted((one, other) => one - other));
      }),
    );
  });

  test('facts about one run lead to the same record in any order, any number of times', () => {
    const started = settlement({ outcome: { outcome: 'started', at: 150 } });
    const ended = { ...started, end: { status: 'succeeded', finishedAt: 300 } as const };
    const facts = fc.array(fc.constantFrom(started, ended), { maxLength: 6 }).map((some) => [...some, ended]);
    const anyOrder = facts.chain((all) => fc.shuffledSubarray(all, { minLength: all.length }));
    fc.assert(
      fc.property(
        fc.constantFrom('absent', 'admitted', 'started').map((status) => dispatch('d1', status)),
        anyOrder,
        (first, settlements) => {
          const last = statesOf(first, settlements).at(-1);
          expect(last).toMatchObject({ status: 'ended', outcome: { at: 150 }, end: { finishedAt: 300 } });
        },
      ),
    );
  });

  test('a store that is settled without being read first comes to hold the same', async () => {
    await fc.assert(
      fc.asyncProperty(records, history, async (first, settlements) => {
        const scheduler = new Scheduler({ startsAt: NOW });
        const services = new MemoryServices({ clock: scheduler, timer: scheduler });
        const kept = first && 'expiresAt' in first ? { ...first, expiresAt: NOW + DEFAULT_SETTINGS.retentionMs } : first;
        if (kept && (kept.status === 'admitted' || kept.status === 'started')) {
          await services.dispatches.admit({ ...kept, status: 'admitted', fingerprint: fingerprint('d1') }, PAYLOAD.d1);
        }
        if (kept && kept.status !== 'admitted') await services.dispatches.change(kept, kept.status === 'started' ? 'admitted' : 'absent');
        for (const by of settlements) await settleDispatch(services.poolPorts(), DEFAULT_SETTINGS, by);

        const pure = settlements.reduce((state, by) => settle(state, by, NOW + DEFAULT_SETTINGS.retentionMs) ?? state, kept);
        const stored = services.dispatches.peek('d1');
        expect(stored).toEqual(pure);
      }),
      { numRuns: 1_000 },
    );
  });
});
