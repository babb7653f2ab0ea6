import fc from 'fast-check';
import type { Command, Report, Request, ResyncEntry, StopReason } from '../../lib/wire/index.ts';

/** Any characters but lone surrogates, of every length in UTF-8. */
const text = (maxBytes: number) =>
  fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: Math.min(32, maxBytes / 4) }),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
    fc.constantFrom(
      '0',
      '123',
      '-',
      '..',
      ':',
      '=',
      'a#b',
      '__proto__',
      '\0',
      '\ufeff',
      '\u2028',
      'k'.repeat(maxBytes),
      '\u{1f600}'.repeat(maxBytes / 4),
    ),
  );
export const key = text(1024);
export const id = text(128);
export const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.string({ unit: 'binary', maxLength: 100 }).map((chars) => new TextEncoder().encode(chars)),
  fc.json().map((json) => new TextEncoder().encode(json)),
);

const fingerprint = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 });
const fence = fc.maxSafeNat();
const time = fc.nat({ max: 8_640_000_000_000_000 });
const session = id;
const page = fc.tuple(fc.integer({ min: 1, max: 9 }), fc.nat({ max: 9 })).map(([page, more]) => ({ page, pages: page + more }));
const error = joined(
  fc.record({ code: id, message: fc.string({ unit: 'binary', maxLength: 64 }), retryable: fc.boolean() }),
  perhaps({ retryAfterMs: fence }),
);
const reason = fc.constantFrom<StopReason>(
  'stop-requested',
  'replaced',
  'moved',
  'worker-draining',
  'pool-closed',
  'lease-lost',
  'evicted',
);
// -0 is no other number in JSON, so it does not come back as itself.
const result = fc.jsonValue({ maxDepth: 2 }).filter((value) => JSON.stringify(value).length <= 170 && !hasMinusZero(value));

function hasMinusZero(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.values(value).some(hasMinusZero) : Object.is(value, -0);
}

/** Each field is there or not. */
function perhaps<T>(fields: { [F in keyof T]: fc.Arbitrary<T[F]> }) {
  return fc.record(fields, { requiredKeys: [] }) as fc.Arbitrary<Partial<T>>;
}

export const request: fc.Arbitrary<Request> = fc.oneof(
  joined(
    fc.record({
      op: fc.constant('start' as const),
      key,
      payload: bytes,
      dispatchId: id,
      ifBusy: fc.constantFrom('reject', 'next', 'replace'),
    }),
    perhaps({ expiresAt: time }),
  ),
  joined(fc.record({ op: fc.constant('stop' as const), key }), perhaps({ dispatchId: id })),
  fc.record({ op: fc.constant('notify' as const), key, payload: bytes, id }),
  fc.record({ op: fc.constant('assign' as const), key }),
  fc.record({ op: fc.constant('move' as const), key, fence }),
);

export const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    op: fc.constant('start' as const),
    session,
    key,
    dispatchId: id,
    fingerprint,
    payload: bytes,
    fence,
    attempt: fc.integer({ min: 1 }),
  }),
  fc.record({ op: fc.constantFrom('stop', 'release'), session, key, dispatchId: id, fingerprint, fence, reason }),
  fc.record({ op: fc.constant('notify' as const), session, key, fence, id, payload: bytes }),
  joined(
    fc.record({
      op: fc.constant('resync' as const),
      session,
      round: id,
      beat: fence,
      jobs: fc.array(fc.record({ key, fence, running: fc.boolean() }), { maxLength: 4 }),
    }),
    page,
  ),
  fc.record({ op: fc.constant('confirm' as const), session, key, fence }),
);

const running = fc.record({ dispatchId: id, fingerprint, fence, startedAt: time });
const refusal = fc.oneof(
  fc.record({ reason: fc.constant('key-busy' as const), running }),
  fc.record({ reason: fc.constantFrom('at-capacity', 'draining', 'fingerprint-mismatch') }),
);
const resulted = fc.oneof(fc.constant({}), fc.record({ result }), fc.constant({ resultOmitted: true as const }));

const known = { key, fence, dispatchId: id, fingerprint };
const entry: fc.Arbitrary<ResyncEntry> = fc.oneof(
  fc.record({ ...known, state: fc.constant('running' as const), startedAt: time }),
  fc.record({ ...known, state: fc.constant('starting' as const) }),
  joined(fc.record({ ...known, state: fc.constant('succeeded' as const), startedAt: time, finishedAt: time }), resulted),
  fc.record({ ...known, state: fc.constant('failed' as const), startedAt: time, finishedAt: time, error }),
  joined(fc.record({ ...known, state: fc.constant('stopped' as const), finishedAt: time }), perhaps({ startedAt: time, reason })),
  joined(fc.record({ ...known, state: fc.constant('released' as const), finishedAt: time }), perhaps({ startedAt: time })),
  fc.record({ ...known, state: fc.constant('start-failed' as const), finishedAt: time, error }),
  joined(fc.record({ ...known, state: fc.constant('refused' as const) }), refusal),
  fc.record({ state: fc.constant('unrecognized' as const), key, fence }),
);

const saidBy = { worker: id, session, at: time };
const fact = { ...saidBy, key, dispatchId: id, fingerprint, fence };
export const report: fc.Arbitrary<Report> = fc.oneof(
  fc.record({ ...saidBy, type: fc.constantFrom('registered', 'left') }),
  fc.record({ ...fact, type: fc.constant('started' as const), startedAt: time }),
  joined(fc.record({ ...fact, type: fc.constantFrom('start-failed', 'stop-failed'), error }), perhaps({ startedAt: time })),
  joined(joined(fc.record({ ...fact, type: fc.constant('refused' as const) }), perhaps({ startedAt: time })), refusal),
  joined(fc.record({ ...fact, type: fc.constant('stopped' as const) }), perhaps({ startedAt: time, reason })),
  joined(fc.record({ ...fact, type: fc.constant('released' as const) }), perhaps({ startedAt: time })),
  joined(fc.record({ ...fact, type: fc.constant('finished' as const), startedAt: time }), fc.oneof(fc.record({ error }), resulted)),
  fc.record({ ...fact, type: fc.constant('confirmed' as const), startedAt: time, payload: bytes }),
  joined(fc.record({ ...saidBy, type: fc.constant('resync' as const), round: id, entries: fc.array(entry, { maxLength: 4 }) }), page),
);

function joined<A extends object, B extends object>(a: fc.Arbitrary<A>, b: fc.Arbitrary<B>): fc.Arbitrary<A & B> {
  return fc.tuple(a, b).map(([left, right]) => ({ ...left, ...right }));
}
