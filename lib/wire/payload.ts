import { isUtf8 } from 'node:buffer';
import { asciiJson, printable } from './ascii.ts';
import { factOf, refuse, WireError } from './refusal.ts';

/** 256 KiB, counted in bytes of the payload itself, not of its wire form. */
export const maxPayloadBytes = 262_144;

/** A payload inside a JSON message. Without `encoding` it is text that stands for its UTF-8 bytes. */
export interface WirePayload {
  readonly payload: string;
  readonly encoding?: 'base64';
}

const sizeLimit = `at most ${maxPayloadBytes} bytes`;

/**
 * The shorter of escaped text and base64, `encoding` member included; text where both are as long. Base64 where the bytes are no valid
 * UTF-8. Throws a `WireError` where they are too many.
 */
export function encodePayload(bytes: Uint8Array): WirePayload {
  if (!(bytes instanceof Uint8Array)) throw new WireError(refuse('payload', factOf(bytes), 'a Uint8Array'));
  assertSize(bytes.length);
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const base64 = { payload: buffer.toString('base64'), encoding: 'base64' } as const;
  if (!isUtf8(bytes)) return base64;
  // Valid UTF-8 comes back byte for byte; a TextDecoder would swallow a byte order mark.
  const text = { payload: buffer.toString('utf8') };
  return asciiJson(text).length <= asciiJson(base64).length ? text : base64;
}

/** The bytes. Throws a `WireError` where they are too many, or where the text stands for no bytes. */
export function decodePayload({ payload, encoding }: WirePayload): Uint8Array {
  if (encoding === undefined) {
    if (!payload.isWellFormed()) throw new WireError(refuse('payload', 'holds a lone surrogate', 'text, or "encoding": "base64"'));
    assertSize(Buffer.byteLength(payload));
    return new TextEncoder().encode(payload);
  }
  const bytes = Buffer.from(payload, 'base64');
  // Node skips what is not base64, and so would take two texts for the same bytes, or another alphabet for no bytes at all.
  if (bytes.toString('base64') !== payload) {
    throw new WireError(refuse('payload', 'is not base64', 'the standard alphabet with padding, without white space'));
  }
  assertSize(bytes.length);
  return new Uint8Array(bytes);
}

function assertSize(bytes: number): void {
  if (bytes > maxPayloadBytes) throw new WireError(refuse('payload', `is ${bytes} bytes`, sizeLimit));
}

const jsonLimit = 'a JSON value';
const maxDepth = 500;

/**
 * JSON as RFC 8785 has it, in UTF-8: keys sorted, no white space, so that the same value is always the same payload, and so the same request.
 *
 * As `JSON.stringify` does, it calls `toJSON` (a `Date` becomes text) and leaves out properties that are `undefined`. What JSON would
 * change in silence (functions, `NaN`, a `Map`, `undefined` in a list) or cannot say (a bigint, a cycle) is a `WireError` that names its place.
 */
export function jsonPayload(value: unknown): Uint8Array {
  return new TextEncoder().encode(canonicalJson(value, 'payload', []));
}

function canonicalJson(given: unknown, path: string, above: readonly object[]): string {
  const value = hasToJson(given) ? given.toJSON('') : given;
  const refused = (fact: string) => new WireError(refuse(path, fact, jsonLimit));
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw refused(`is ${value}`);
      return JSON.stringify(value);
    case 'object': {
      if (value === null) return 'null';
      if (above.includes(value)) throw refused('contains itself');
      if (above.length === maxDepth) throw refused(`is nested deeper than ${maxDepth} levels`);
      const within = [...above, value];
      if (Array.isArray(value)) {
        // `Array.from` also visits the holes of a sparse list.
        return `[${Array.from(value, (item, index) => canonicalJson(item, `${path}[${index}]`, within)).join()}]`;
      }
      const kind = Object.prototype.toString.call(value).slice(8, -1);
      if (kind !== 'Object') throw refused(`is a ${kind}`);
      const members = Object.entries(value).filter(([, member]) => member !== undefined);
      members.sort(([a], [b]) => (a < b ? -1 : 1));
      return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member, `${path}.${printable(name)}`, within)}`).join()}}`;
    }
    default:
      throw refused(value === undefined ? 'is undefined' : `is a ${typeof value}`);
  }
}

function hasToJson(value: unknown): value is { toJSON(key: string): unknown } {
  return typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function';
}
