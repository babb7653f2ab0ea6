import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Command,
  cutMessage,
  cutResult,
  encodeCommand,
  encodeReport,
  encodeRequest,
  type Parsed,
  parseCommand,
  parseReport,
  parseRequest,
  type Refusal,
  type Report,
  type Request,
  type ResyncEntry,
} from '../../lib/wire/index.ts';
import * as any from './arbitraries.ts';
import { refusalOf } from './refusal.ts';

type Fields = Readonly<Record<string, unknown>>;
const families = [
  family('request', any.request, encodeRequest, parseRequest),
  family('command', any.command, encodeCommand, parseCommand),
  family('report', any.report, encodeReport, parseReport),
];

/** One shape for all, so that they share their tests; the messages are broken on purpose there. */
function family<T>(name: string, messages: fc.Arbitrary<T>, encode: (message: T) => string, parse: (body: string) => Parsed<T>) {
  return {
    name,
    messages: messages as fc.Arbitrary<unknown> as fc.Arbitrary<Fields>,
    encode: encode as unknown as (message: Fields) => string,
    parse,
  };
}

const text = (length: number) => '\0'.repeat(length);
const fingerprint = 'f'.repeat(64);
const start = { v: 1, op: 'start', key: 'k', payload: 'p', dispatchId: 'd' };
const startCommand: Command = {
  op: 'start',
  session: 's',
  key: 'k',
  dispatchId: 'd',
  fingerprint,
  payload: Buffer.of(1),
  fence: 7,
  attempt: 1,
};
const fact = { worker: 'w', session: 's', at: 1, key: 'k', dispatchId: 'd', fingerprint, fence: 7 };
const finished: Report = { ...fact, type: 'finished', startedAt: 1 };

describe.each(families)('a $name of any kind', ({ messages, encode, parse }) => {
  test('comes back from the wire as it went in, in ASCII that fits one message', () => {
    fc.assert(
      fc.property(messages, (message) => {
        const body = encode(message);
        expect(body).toMatch(/^[ -~]+$/);
        expect(body.length).toBeLessThanOrEqual(1_048_576);
        expect(parse(body)).toEqual({ ok: true, value: message });
      }),
    );
  });

  test('with one field lost or turned into something else is read right or refused, never thrown at the reader', () => {
    fc.assert(
      fc.property(messages, fc.nat(), fc.option(fc.jsonValue()), (message, n, value) => {
        const wire = JSON.parse(encode(message));
        const name = Object.keys(wire)[n % Object.keys(wire).length] as string;
        if (value === null) delete wire[name];
        else wire[name] = value;
        expectRefusal(parse(JSON.stringify(wire)));
      }),
    );
  });

  test('is never found in arbitrary JSON or text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string({ unit: 'binary' })), (body) => {
        expectRefusal(parse(body), 'always');
      }),
    );
  });

  test.each([
    ['not json', 'body', 'is not JSON', 'a JSON object'],
    ['', 'body', 'is not JSON', 'a JSON object'],
    ['{"v":1', 'body', 'is not JSON', 'a JSON object'],
    ['[]', 'body', 'is a list', 'a JSON object'],
    ['null', 'body', 'is null', 'a JSON object'],
    ['"start"', 'body', 'is "start"', 'a JSON object'],
    ['17', 'body', 'is 17', 'a JSON object'],
    ['{}', 'v', 'is missing', '1'],
    ['{"v":99}', 'v', 'is 99', '1'],
    ['{"v":"1"}', 'v', 'is "1"', '1'],
    ['{"v":{}}', 'v', 'is an object', '1'],
    ['{"__proto__":{"v":1,"op":"assign","type":"left"}}', 'v', 'is missing', '1'],
    ['['.repeat(200_000), 'body', 'is not JSON', 'a JSON object'],
    [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, 'body', 'is a list', 'a JSON object'],
    [' '.repeat(1_048_577), 'body', 'is 1048577 bytes', 'at most 1048576 bytes'],
    [`"${'\u00e9'.repeat(524_288)}"`, 'body', 'is 1048578 bytes', 'at most 1048576 bytes'],
  ])('a hostile body is refused with field, fact and limit (F20)', (body, field, fact, limit) => {
    const where = field === 'body' ? 'the body' : `field "${field}"`;
    const refusal: Refusal = { code: 'invalid-message', field, fact, limit, message: `${where} ${fact}; allowed: ${limit}` };
    expect(parse(body)).toEqual({ ok: false, refusal });
  });

  test.each(['__proto__', 'constructor', 'toString', 'START', '', 7, null])('a kind named %j is refused', (kind) => {
    const parsed = parse(JSON.stringify({ v: 1, op: kind, type: kind }));
    expect(parsed).toMatchObject({
      ok: false,
      refusal: { field: expect.stringMatching(/^(op|type)$/), limit: expect.stringMatching(/^one of /) },
    });
  });

  test('sent by our own side, is refused before the send exactly as its reader would refuse it (F18)', () => {
    fc.assert(
      fc.property(messages, fc.constantFrom('key', 'fence', 'worker'), (message, name) => {
        fc.pre(name in message);
        const broken = { ...message, [name]: -1 };
        const wire = { ...JSON.parse(encode(message)), [name]: -1 };
        const { key: _, dispatchId: __, ...refusal } = expectRefusal(parse(JSON.stringify(wire)), 'always');
        expect(refusalOf(() => encode(broken))).toEqual(refusal);
      }),
    );
  });
});

describe('a request that is refused', () => {
  const anId = '1 to 128 bytes of UTF-8, without lone surrogates';
  const aKey = '1 to 1024 bytes of UTF-8, without lone surrogates';
  const known = 'v, op, key, payload, encoding, dispatchId, ifBusy, expiresAt';
  const aFence = 'an integer from 0 to 9007199254740991';
  const move = { v: 1, op: 'move', key: 'k' };
  test.each([
    ['op', 'is "cancel"', 'one of start, stop, notify, assign, move', { ...start, op: 'cancel' }],
    ['key', 'is missing', aKey, { ...start, key: undefined }],
    ['key', 'is empty', aKey, { ...start, key: '' }],
    ['key', 'is 17', aKey, { ...start, key: 17 }],
    ['key', 'is 1026 bytes of UTF-8', aKey, { ...start, key: '\u00e9'.repeat(513) }],
    ['dispatchId', 'is missing', anId, { ...start, dispatchId: undefined }],
    ['dispatchId', 'is 129 bytes of UTF-8', anId, { ...start, dispatchId: 'd'.repeat(129) }],
    ['dispatchId', 'holds a lone surrogate', anId, { ...start, dispatchId: '\udc00' }],
    ['dispatchId', 'is null', anId, { v: 1, op: 'stop', key: 'k', dispatchId: null }],
    ['id', 'is missing', anId, { v: 1, op: 'notify', key: 'k', payload: 'p' }],
    ['payload', 'is missing', 'text, or base64 with "encoding": "base64", of at most 262144 bytes', { ...start, payload: undefined }],
    ['payload', 'is an object', 'text, or base64 with "encoding": "base64", of at most 262144 bytes', { ...start, payload: {} }],
    ['encoding', 'is "gzip"', 'base64, or absent', { ...start, encoding: 'gzip' }],
    ['ifBusy', 'is "wait"', 'one of reject, next, replace', { ...start, ifBusy: 'wait' }],
    ['expiresAt', 'is 1.5', 'whole epoch ms from 0 to 8640000000000000', { ...start, expiresAt: 1.5 }],
    ['expiresAt', 'is -1', 'whole epoch ms from 0 to 8640000000000000', { ...start, expiresAt: -1 }],
    ['expiresAt', 'is "2030-01-01"', 'whole epoch ms from 0 to 8640000000000000', { ...start, expiresAt: '2030-01-01' }],
    ['expiresAt', 'is 8640000000000001', 'whole epoch ms from 0 to 8640000000000000', { ...start, expiresAt: 8.64e15 + 1 }],
    ['fence', 'is missing', aFence, move],
    ['fence', 'is 9007199254740992', aFence, { ...move, fence: 2 ** 53 }],
    ['fence', 'is "7"', aFence, { ...move, fence: '7' }],
    ['dispatchID', 'is not known; did you mean "dispatchId"?', known, { ...start, dispatchId: undefined, dispatchID: 'd' }],
    ['dispatch_id', 'is not known; did you mean "dispatchId"?', known, { ...start, dispatch_id: 'd' }],
    ['ifBussy', 'is not known; did you mean "ifBusy"?', known, { ...start, ifBussy: 'next' }],
    ['priority', 'is not known', known, { ...start, priority: 1 }],
    ['session', 'is not known', known, { ...start, session: 's' }],
    ['payload', 'is not known', 'v, op, key, dispatchId', { v: 1, op: 'stop', key: 'k', payload: 'p' }],
  ])('says that %s %s, and that %s is allowed', (field, fact, limit, message) => {
    const parsed = parseRequest(JSON.stringify(message));
    const refusal = { code: 'invalid-message', field, fact, limit, message: `field "${field}" ${fact}; allowed: ${limit}` };
    expect(parsed).toMatchObject({ ok: false, refusal });
  });

  test('a number beyond what JavaScript can hold is refused, not rounded to another fence (F24)', () => {
    expect(parseRequest('{"v":1,"op":"move","key":"k","fence":9007199254740993}')).toMatchObject({
      ok: false,
      refusal: { field: 'fence' },
    });
    expect(parseRequest('{"v":1,"op":"move","key":"k","fence":1e400}')).toMatchObject({ ok: false, refusal: { fact: 'is Infinity' } });
  });

  test('a field named __proto__ is unknown like any other', () => {
    const parsed = parseRequest('{"v":1,"op":"stop","key":"k","__proto__":{"dispatchId":"d"}}');
    expect(parsed).toMatchObject({ ok: false, refusal: { field: '__proto__', fact: 'is not known' } });
  });

  test('has a message that is one short line of ASCII, whatever the fields are named', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 3000, size: 'max' }), fc.string({ unit: 'binary' }), (name, value) => {
        fc.pre(!(name in { ...start, encoding: 1, ifBusy: 1, expiresAt: 1 }));
        const refused = expectRefusal(parseRequest(JSON.stringify({ ...start, [name]: value })), 'always');
        expect(refused.message.length).toBeLessThan(1024);
      }),
    );
  });

  test('still names its key and, of a start, its dispatch, so that the refusal can be recorded', () => {
    const salvaged = (message: object) => {
      const { key, dispatchId } = expectRefusal(parseRequest(JSON.stringify(message)), 'always');
      return { key, dispatchId };
    };
    expect(salvaged({ ...start, ifBusy: 'wait' })).toEqual({ key: 'k', dispatchId: 'd' });
    expect(salvaged({ ...start, v: '1' })).toEqual({ key: 'k', dispatchId: 'd' });
    expect(salvaged({ ...start, key: '' })).toEqual({ key: undefined, dispatchId: 'd' });
    expect(salvaged({ ...start, dispatchId: '\ud800' })).toEqual({ key: 'k', dispatchId: undefined });
    expect(salvaged({ ...start, dispatchId: 'd'.repeat(129) })).toEqual({ key: 'k', dispatchId: undefined });
  });

  test('does not name the dispatch of a broken stop, nor anything of a version we do not know', () => {
    for (const broken of [{ op: 'stop' }, { op: 'Start' }, { op: undefined }]) {
      expect(parseRequest(JSON.stringify({ ...start, ...broken, extra: 1 }))).not.toHaveProperty('refusal.dispatchId');
    }
    const newer = parseRequest(JSON.stringify({ ...start, v: 2 }));
    expect(newer).toEqual({ ok: false, refusal: expect.not.objectContaining({ key: 'k' }) });
    expect(newer).not.toHaveProperty('refusal.dispatchId');
  });
});

describe('what producers in other languages may send', () => {
  test('raw UTF-8, white space, members in any order; ifBusy is reject unless it says otherwise', () => {
    const body = '{ "payload": "\u00e9",\n "dispatchId": "d", "op": "start", "key": "cam/\u00e9", "v": 1.0 }';
    const value: Request = {
      op: 'start',
      key: 'cam/\u00e9',
      payload: new TextEncoder().encode('\u00e9'),
      dispatchId: 'd',
      ifBusy: 'reject',
    };
    expect(parseRequest(body)).toEqual({ ok: true, value });
  });

  test('base64 where text would do', () => {
    const body = JSON.stringify({ v: 1, op: 'notify', key: 'k', payload: 'e30=', encoding: 'base64', id: 'n' });
    expect(parseRequest(body)).toEqual({ ok: true, value: { op: 'notify', key: 'k', payload: new TextEncoder().encode('{}'), id: 'n' } });
  });
});

describe('old and new code meet during a deploy (P17)', () => {
  const nested = JSON.parse(JSON.stringify({ v: 1, ...fact, type: 'start-failed', error: { code: 'c', message: 'm', retryable: false } }));
  test('a command or report with a field of tomorrow is read by the code of today, without it', () => {
    const command = JSON.parse(encodeCommand(startCommand));
    expect(parseCommand(JSON.stringify({ ...command, traceId: 't' }))).toEqual(parseCommand(encodeCommand(startCommand)));
    const report = { ...nested, hint: 1, error: { ...nested.error, hint: 1 } };
    expect(parseReport(JSON.stringify(report))).toEqual(parseReport(JSON.stringify(nested)));
  });

  test.each([
    ['v', 'is 2', { v: 2 }],
    ['type', 'is "paused"', { type: 'paused' }],
    ['reason', 'is "too-hot"', { type: 'refused', reason: 'too-hot' }],
    ['entries[0].state', 'is "paused"', { type: 'resync', round: 'r', page: 1, pages: 1, entries: [{ ...fact, state: 'paused' }] }],
  ])('what today could misunderstand is refused: %s %s', (field, what, newer) => {
    expect(parseReport(JSON.stringify({ ...nested, ...newer }))).toMatchObject({ ok: false, refusal: { field, fact: what } });
  });

  test('a field that our own side should not send does not leave it', () => {
    const leaky = { ...startCommand, encoding: 'base64', v: 7, rev: 'secret' } as Command;
    expect(encodeCommand(leaky)).toBe(encodeCommand(startCommand));
  });
});

describe('reports', () => {
  const running = { dispatchId: 'other', fingerprint, fence: 3, startedAt: 5 };
  test.each([
    ['startedAt', 'is missing', { type: 'started' }],
    ['fingerprint', `is "${'F'.repeat(48)}..."`, { type: 'started', startedAt: 1, fingerprint: 'F'.repeat(64) }],
    ['reason', 'is missing', { type: 'refused' }],
    ['running', 'is missing', { type: 'refused', reason: 'key-busy' }],
    ['running.fence', 'is -1', { type: 'refused', reason: 'key-busy', running: { ...running, fence: -1 } }],
    ['error', 'is missing', { type: 'start-failed' }],
    ['error.code', 'is empty', { type: 'stop-failed', error: { code: '', message: '', retryable: true } }],
    ['error.code', 'is missing', { type: 'finished', startedAt: 1, error: { message: 'm' } }],
    ['error', 'is null', { type: 'finished', startedAt: 1, error: null }],
    [
      'error.message',
      'is 258 bytes of UTF-8',
      { type: 'finished', startedAt: 1, error: { code: 'c', message: '\u00e9'.repeat(129), retryable: true } },
    ],
    ['result', 'is 1025 bytes', { type: 'finished', startedAt: 1, result: 'r'.repeat(1023) }],
    ['reason', 'is "bored"', { type: 'stopped', reason: 'bored' }],
    ['payload', 'is missing', { type: 'confirmed', startedAt: 1 }],
    ['page', 'is 3', { type: 'resync', round: 'r', page: 3, pages: 2, entries: [] }],
    ['page', 'is 0', { type: 'resync', round: 'r', page: 0, pages: 2, entries: [] }],
    ['entries', 'is an object', { type: 'resync', round: 'r', page: 1, pages: 1, entries: {} }],
    [
      'entries[0].error',
      'is missing',
      { type: 'resync', round: 'r', page: 1, pages: 1, entries: [{ ...fact, state: 'failed', startedAt: 1, finishedAt: 2 }] },
    ],
  ])('are refused where %s %s', (field, what, broken) => {
    expect(parseReport(JSON.stringify({ v: 1, ...fact, ...broken }))).toMatchObject({ ok: false, refusal: { field, fact: what } });
  });

  test('what runs stands beside key-busy alone', () => {
    const body = JSON.stringify({ v: 1, ...fact, type: 'refused', reason: 'draining', running });
    expect(parseReport(body)).toEqual({ ok: true, value: { ...fact, type: 'refused', reason: 'draining' } });
  });

  test('a result nested beyond all measure is refused, not a stack overflow', () => {
    const body = encodeReport(finished).replace(/}$/, `,"result":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
    expect(parseReport(body)).toMatchObject({ ok: false, refusal: { field: 'result', fact: 'is not JSON' } });
  });

  test('no result, and null as a result, are two things', () => {
    expect(parseReport(encodeReport(finished))).toEqual({ ok: true, value: finished });
    expect(parseReport(encodeReport({ ...finished, result: null }))).toEqual({ ok: true, value: { ...finished, result: null } });
  });

  test('full pages of the longest entries that are allowed fit into one message', () => {
    const error = { code: text(128), message: text(256), retryable: true, retryAfterMs: Number.MAX_SAFE_INTEGER };
    const times = { startedAt: 8.64e15, finishedAt: 8.64e15 };
    const known = { key: text(1024), fence: Number.MAX_SAFE_INTEGER, dispatchId: text(128), fingerprint };
    const longest: readonly ResyncEntry[] = [
      { ...known, ...times, state: 'failed', error },
      { ...known, ...times, state: 'succeeded', result: 'r'.repeat(1022), resultOmitted: true },
      {
        ...known,
        state: 'refused',
        reason: 'key-busy',
        running: { dispatchId: text(128), fingerprint, fence: 2 ** 52, startedAt: 8.64e15 },
      },
    ];
    for (const entry of longest) {
      const entries = Array<ResyncEntry>(100).fill(entry);
      const page: Report = {
        type: 'resync',
        worker: text(128),
        session: text(128),
        at: 8.64e15,
        round: text(128),
        page: 1,
        pages: 1,
        entries,
      };
      expect(parseReport(encodeReport(page))).toEqual({ ok: true, value: page });
    }
    const jobs = Array(100).fill({ key: text(1024), fence: Number.MAX_SAFE_INTEGER, running: false });
    const asked: Command = { op: 'resync', session: text(128), round: text(128), beat: Number.MAX_SAFE_INTEGER, page: 1, pages: 1, jobs };
    expect(parseCommand(encodeCommand(asked))).toEqual({ ok: true, value: asked });
  });

  test('a page that does not fit is refused before the send', () => {
    const entries = Array<ResyncEntry>(10_000).fill({ key: 'k'.repeat(100), fence: 1, state: 'unrecognized' });
    const page: Report = { type: 'resync', worker: 'w', session: 's', at: 1, round: 'r', page: 1, pages: 1, entries };
    expect(refusalOf(() => encodeReport(page))).toMatchObject({ field: 'body', limit: 'at most 1048576 bytes' });
  });
});

describe('what a handler said is cut to what a report carries', () => {
  test('any message is cut to 256 bytes, at a character, with an ellipsis where something is missing', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '\u00e9', '\u20ac', '\u{1f600}', '\ud800'), maxLength: 400 }), (message) => {
        const cut = cutMessage(message);
        const whole = message.toWellFormed();
        const error = { code: 'c', message: cut, retryable: false };
        expect(parseReport(encodeReport({ ...finished, error }))).toMatchObject({ ok: true, value: { error } });
        if (Buffer.byteLength(whole) <= 256) expect(cut).toBe(whole);
        else {
          expect(cut).toMatch(/\u2026$/);
          expect(whole.startsWith(cut.slice(0, -1))).toBe(true);
          expect(Buffer.byteLength(cut)).toBeGreaterThan(252);
        }
      }),
    );
  });

  test('a result is kept where it is JSON of at most 1 KiB, else said to be omitted', () => {
    const loop: unknown[] = [];
    loop.push(loop);
    expect(cutResult(undefined)).toEqual({});
    expect(cutResult(null)).toEqual({ result: null });
    expect(cutResult('r'.repeat(1022))).toEqual({ result: 'r'.repeat(1022) });
    for (const result of ['r'.repeat(1023), '\u00e9'.repeat(171), loop, () => 1, 1n, Symbol.iterator]) {
      expect(cutResult(result)).toEqual({ resultOmitted: true });
    }
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const body = encodeReport({ ...finished, ...cutResult(value) });
        expect(parseReport(body)).toMatchObject({ ok: true });
      }),
    );
  });
});

/** A refusal says where, what and what would do, in one line of ASCII. Without 'always', a message that is right after all is no refusal. */
function expectRefusal(parsed: Parsed<unknown>, refused: 'always' | 'perhaps' = 'perhaps'): Refusal {
  if (parsed.ok) {
    expect(refused).toBe('perhaps');
    return {} as Refusal;
  }
  const { refusal } = parsed;
  expect(refusal.code).toBe('invalid-message');
  const where = refusal.field === 'body' ? 'the body' : `field "${refusal.field}"`;
  expect(refusal.message).toBe(`${where} ${refusal.fact}; allowed: ${refusal.limit}`);
  expect(refusal.message).toMatch(/^[ -~]+$/);
  expect(refusal.fact).not.toBe('');
  expect(refusal.limit).not.toBe('');
  return refusal;
}
