import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assertId, assertKey, encodeRequest, fingerprintOf, groupIdOf, parseRequest } from '../../lib/wire/index.ts';
import { bytes, key } from './arbitraries.ts';
import { refusalOf } from './refusal.ts';

describe('keys that must never merge (F22)', () => {
  test('two different keys never share a group, a fingerprint or a body', () => {
    fc.assert(
      fc.property(key, key, bytes, (a, b, payload) => {
        fc.pre(a !== b);
        expect(groupIdOf(a)).not.toBe(groupIdOf(b));
        expect(fingerprintOf(a, payload)).not.toBe(fingerprintOf(b, payload));
        expect(encodeRequest({ op: 'assign', key: a })).not.toBe(encodeRequest({ op: 'assign', key: b }));
      }),
    );
  });

  test('no byte can move between key and payload without another fingerprint', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii', minLength: 2, maxLength: 40 }), fc.nat(), fc.nat(), (whole, i, j) => {
        const [cut, other] = [1 + (i % whole.length), 1 + (j % whole.length)];
        fc.pre(cut !== other);
        const at = (n: number) => fingerprintOf(whole.slice(0, n), Buffer.from(whole.slice(n)));
        expect(at(cut)).not.toBe(at(other));
      }),
    );
  });

  test.each([
    ['composed and decomposed', '\u00e9', 'e\u0301'],
    ['trailing blank', 'a', 'a '],
    ['byte order mark', 'a', '\ufeffa'],
    ['case', 'a', 'A'],
    ['digits', '0', '00'],
    ['escape and what it stands for', '\\u00e9', '\u00e9'],
    ['the end of 1024 bytes', `${'k'.repeat(1023)}a`, `${'k'.repeat(1023)}b`],
  ])('%s: both keys come back from the wire as they went in', (_, a, b) => {
    const back = [a, b].map((key) => parseRequest(encodeRequest({ op: 'assign', key })));
    expect(back).toEqual([a, b].map((key) => ({ ok: true, value: { op: 'assign', key } })));
    expect(groupIdOf(a)).not.toBe(groupIdOf(b));
  });
});

describe('limits', () => {
  test.each(['k'.repeat(1024), '\u00e9'.repeat(512), '\u{1f600}'.repeat(256), '\0', ' ', '"'])(
    'a key of up to 1024 bytes is taken',
    (key) => {
      expect(() => assertKey(key)).not.toThrow();
      expect(groupIdOf(key)).toMatch(/^[0-9a-f]{64}$/);
    },
  );

  test.each([
    ['', 'is empty'],
    ['k'.repeat(1025), 'is 1025 bytes of UTF-8'],
    [`k${'\u00e9'.repeat(512)}`, 'is 1025 bytes of UTF-8'],
    ['k'.repeat(2048), 'is 2048 bytes of UTF-8'],
    ['\ud800', 'holds a lone surrogate'],
    ['a\udc00b', 'holds a lone surrogate'],
  ])('another key is refused with the fact, never cut or hashed', (key, fact) => {
    const refusal = { field: 'key', fact, limit: '1 to 1024 bytes of UTF-8, without lone surrogates' };
    for (const use of [
      assertKey,
      groupIdOf,
      (key: string) => fingerprintOf(key, Buffer.of()),
      (key: string) => encodeRequest({ op: 'assign', key }),
    ]) {
      expect(refusalOf(() => use(key))).toMatchObject(refusal);
    }
  });

  test('an id may be 128 bytes, and its refusal carries the name it is given', () => {
    expect(() => assertId('workerId', '\u00e9'.repeat(64))).not.toThrow();
    expect(refusalOf(() => assertId('workerId', 'w'.repeat(129)))).toMatchObject({
      field: 'workerId',
      fact: 'is 129 bytes of UTF-8',
      limit: '1 to 128 bytes of UTF-8, without lone surrogates',
    });
  });
});

test('group id and fingerprint are what another implementation computes', () => {
  // These two were computed with Python's hashlib and struct.
  expect(groupIdOf('tenant:17')).toBe('6012d0aca916b575e9415b680cbfc6bb9018ad5e4aba38c27ed1b1b4003e3d93');
  expect(fingerprintOf('tenant:17', Buffer.from('{"url":"https://feeds.example/17"}'))).toBe(
    '575b97631512dacfdc661821cc78e14f6726c0dd41f4a56c90f6c026adcc0cc0',
  );
  fc.assert(
    fc.property(key, bytes, (key, payload) => {
      const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
      const raw = new TextEncoder().encode(key);
      const prefixed = (part: Uint8Array) => [0, 0, part.length >> 8, part.length & 255, ...part];
      expect(groupIdOf(key)).toBe(sha256(raw));
      expect(fingerprintOf(key, payload)).toBe(sha256(Uint8Array.from([...prefixed(raw), ...prefixed(payload)])));
    }),
  );
});
