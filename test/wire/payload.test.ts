import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { asciiJson } from '../../lib/wire/ascii.ts';
import { decodePayload, encodePayload, encodeRequest, jsonPayload, maxPayloadBytes, parseRequest } from '../../lib/wire/index.ts';
import { bytes } from './arbitraries.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);

describe('bytes', () => {
  test('any payload comes back byte for byte', () => {
    fc.assert(
      fc.property(bytes, (payload) => {
        expect(decodePayload(encodePayload(payload))).toEqual(payload);
      }),
    );
  });

  test.each([
    ['empty', utf8('')],
    ['NUL', Uint8Array.of(0)],
    ['a byte order mark first', utf8('\ufeff{}')],
    ['only a byte order mark', utf8('\ufeff')],
    ['U+FFFD itself', utf8('\ufffd')],
    ['a lone continuation byte', Uint8Array.of(0x80)],
    ['an overlong NUL', Uint8Array.of(0xc0, 0x80)],
    ['a surrogate in UTF-8', Uint8Array.of(0xed, 0xa0, 0x80)],
    ['a character cut off', Uint8Array.of(0xf0, 0x9f, 0x98)],
    ['beyond U+10FFFF', Uint8Array.of(0xf4, 0x90, 0x80, 0x80)],
    ['UTF-16', Uint8Array.of(0xff, 0xfe, 0x61, 0x00)],
    ['a view into a larger buffer', Buffer.from('xxabcxx').subarray(2, 5)],
  ])('%s comes back byte for byte', (_, payload) => {
    expect([...decodePayload(encodePayload(payload))]).toEqual([...payload]);
  });

  test('a number of 20 digits in the payload is not touched (F24)', () => {
    const payload = utf8('{"id":12345678901234567890}');
    const body = encodeRequest({ op: 'notify', key: 'k', payload, id: 'n' });
    expect(JSON.parse(body).payload).toBe('{"id":12345678901234567890}');
    expect(parseRequest(body)).toMatchObject({ ok: true, value: { payload } });
  });

  test.each([
    ['NULs', 0x00],
    ['letters', 0x61],
    ['no UTF-8', 0xff],
    ['quotes', 0x22],
  ])('262,144 bytes of %s are taken and fit into one message; one more is refused', (_, byte) => {
    const start = { op: 'start', key: '\0'.repeat(1024), dispatchId: '\0'.repeat(128), ifBusy: 'replace', expiresAt: 8.64e15 } as const;
    const payload = new Uint8Array(maxPayloadBytes).fill(byte);
    const body = encodeRequest({ ...start, payload });
    expect(body.length).toBeLessThan(1_048_576);
    expect(parseRequest(body)).toEqual({ ok: true, value: { ...start, payload } });
    const refusal = 'field "payload" is 262145 bytes; allowed: at most 262144 bytes';
    expect(() => encodeRequest({ ...start, payload: new Uint8Array(maxPayloadBytes + 1).fill(byte) })).toThrow(refusal);
  });

  test('the limit counts bytes of the payload, whichever form a producer sent', () => {
    const start = { v: 1, op: 'start', key: 'k', dispatchId: 'd' };
    const text = '\u00e9'.repeat(maxPayloadBytes / 2);
    const base64 = (size: number) => Buffer.alloc(size).toString('base64');
    expect(parseRequest(JSON.stringify({ ...start, payload: text }))).toMatchObject({ ok: true });
    expect(parseRequest(JSON.stringify({ ...start, payload: base64(maxPayloadBytes), encoding: 'base64' }))).toMatchObject({ ok: true });
    for (const payload of [{ payload: `${text}x` }, { payload: base64(maxPayloadBytes + 1), encoding: 'base64' }]) {
      expect(parseRequest(JSON.stringify({ ...start, ...payload }))).toMatchObject({
        ok: false,
        refusal: { field: 'payload', fact: 'is 262145 bytes', limit: 'at most 262144 bytes', key: 'k', dispatchId: 'd' },
      });
    }
  });
});

describe('the wire form', () => {
  test('is the shorter of text and base64', () => {
    fc.assert(
      fc.property(bytes, (payload) => {
        const base64 = { payload: Buffer.from(payload).toString('base64'), encoding: 'base64' };
        const chosen = asciiJson(encodePayload(payload)).length;
        expect(chosen).toBeLessThanOrEqual(asciiJson(base64).length);
        const text = Buffer.from(payload).toString();
        if (Buffer.from(text).equals(payload)) expect(chosen).toBeLessThanOrEqual(asciiJson({ payload: text }).length);
      }),
    );
    expect(encodePayload(utf8('{"rate":5}'))).toEqual({ payload: '{"rate":5}' });
    expect(encodePayload(utf8('\u00e9'))).toEqual({ payload: '\u00e9' });
    expect(encodePayload(utf8('\u00e9'.repeat(40)))).toHaveProperty('encoding', 'base64');
  });

  test.each(['AAA', 'AAA=A', 'AA-_', 'AA\n==', ' AA==', 'AB==', '=', '\u00e9'])(
    'base64 %j, which Node would read somehow, is refused',
    (payload) => {
      expect(() => decodePayload({ payload, encoding: 'base64' })).toThrow('field "payload" is not base64');
    },
  );

  test('text that stands for no bytes is refused', () => {
    expect(() => decodePayload({ payload: 'a\ud800' })).toThrow('field "payload" holds a lone surrogate');
  });

  test('text in place of bytes is refused, not guessed at', () => {
    const payload = 'text' as unknown as Uint8Array;
    expect(() => encodeRequest({ op: 'notify', key: 'k', payload, id: 'n' })).toThrow('field "payload" is "text"; allowed: a Uint8Array');
  });
});

test('JSON is ASCII on the wire, and says the same', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(asciiJson(value)).toMatch(/^[ -~]*$/);
      expect(JSON.parse(asciiJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(asciiJson('~\x7f\u00e9\u2028\ud800\u{1f600}')).toBe('"~\\u007f\\u00e9\\u2028\\ud800\\ud83d\\ude00"');
});

describe('JSON payloads', () => {
  const text = (value: unknown) => Buffer.from(jsonPayload(value)).toString();

  test('the same value is the same bytes, in whatever order its members were set', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true }), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(jsonPayload(reversed)).toEqual(jsonPayload(value));
      }),
    );
  });

  test('any JSON value is written as what it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(text(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test('it is RFC 8785, by the examples of the RFC', () => {
    const given = String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`;
    expect(text(JSON.parse(given))).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    );
    const names = ['\u20ac', '\r', '\ufb33', '1', '\u{1f600}', '\u0080', '\u00f6'];
    const sorted = ['\r', '1', '\u0080', '\u00f6', '\u20ac', '\u{1f600}', '\ufb33'];
    expect(text(Object.fromEntries(names.map((name) => [name, 0])))).toBe(`{${sorted.map((name) => `${JSON.stringify(name)}:0`).join()}}`);
  });

  test('toJSON is asked, and properties that are undefined are left out', () => {
    expect(text({ b: undefined, at: new Date(0), url: new URL('https://a.example/') })).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","url":"https://a.example/"}',
    );
    expect(text(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}');
  });

  const loop: Record<string, unknown> = {};
  loop.a = [loop];
  test.each([
    ['undefined', undefined, 'field "payload" is undefined'],
    ['undefined in a list', { a: [1, undefined] }, 'field "payload.a[1]" is undefined'],
    ['a hole', { a: Array(1) }, 'field "payload.a[0]" is undefined'],
    ['a function', { on: () => 1 }, 'field "payload.on" is a function'],
    ['a symbol', [Symbol.iterator], 'field "payload[0]" is a symbol'],
    ['NaN', { n: Number.NaN }, 'field "payload.n" is NaN'],
    ['Infinity', { n: -1 / 0 }, 'field "payload.n" is -Infinity'],
    ['a bigint', { n: 1n }, 'field "payload.n" is a bigint'],
    ['a cycle', loop, 'field "payload.a[0]" contains itself'],
    ['a Map', { tags: new Map() }, 'field "payload.tags" is a Map'],
    ['a Set', { tags: new Set() }, 'field "payload.tags" is a Set'],
    ['bytes', { raw: Uint8Array.of(1) }, 'field "payload.raw" is a Uint8Array'],
    ['a promise', Promise.resolve(1), 'field "payload" is a Promise'],
    ['an error', { e: new Error('x') }, 'field "payload.e" is a Error'],
    ['a name of any characters', { 'a\n\u00e9': 1n }, 'field "payload.a\\n\\u00e9" is a bigint'],
  ])('%s is refused with its place', (_, value, message) => {
    expect(() => jsonPayload(value)).toThrow(`${message}; allowed: a JSON value`);
  });

  test('an object that stands twice in a value is no cycle', () => {
    const shared = { a: 1 };
    expect(text([shared, shared])).toBe('[{"a":1},{"a":1}]');
  });

  test('a value nested beyond all measure is refused, not a stack overflow', () => {
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level += 1) deep = [deep];
    expect(() => jsonPayload(deep)).toThrow('is nested deeper than 500 levels');
  });
});
