import { createHash } from 'node:crypto';
import { refuse, WireError } from './refusal.ts';

/** How long a text may be in UTF-8. Lone surrogates, which have no UTF-8 form, are refused everywhere. */
export interface TextRule {
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly limit: string;
}

export function textRule(minBytes: number, maxBytes: number): TextRule {
  return { minBytes, maxBytes, limit: `${minBytes} to ${maxBytes} bytes of UTF-8, without lone surrogates` };
}

/**
 * Any text. Keys are compared byte by byte and never normalised, trimmed, joined or cut: `é` composed and `é` decomposed are two keys,
 * and so are `a#b` and `a/b`.
 */
export const keyRule = textRule(1, 1024);
/** Dispatch, worker, session and notification ids, round tokens, error codes. */
export const idRule = textRule(1, 128);

/** What is wrong with `text`; undefined where nothing is. */
export function breachOf(text: string, { minBytes, maxBytes }: TextRule): string | undefined {
  if (!text.isWellFormed()) return 'holds a lone surrogate';
  const bytes = Buffer.byteLength(text);
  if (bytes < minBytes) return 'is empty';
  return bytes > maxBytes ? `is ${bytes} bytes of UTF-8` : undefined;
}

/** Throws a `WireError` where `id` is not 1 to 128 bytes of UTF-8; `field` is the name that the error gives it. */
export function assertId(field: string, id: string): void {
  assertText(field, id, idRule);
}

/** Throws a `WireError` where `key` is not 1 to 1024 bytes of UTF-8. */
export function assertKey(key: string): void {
  assertText('key', key, keyRule);
}

function assertText(field: string, text: string, by: TextRule): void {
  const fact = breachOf(text, by);
  if (fact) throw new WireError(refuse(field, fact, by.limit));
}

/** The message group of everything about a key, in every FIFO queue: SHA-256 hex of its UTF-8 bytes. Throws as `assertKey` does. */
export function groupIdOf(key: string): string {
  // A lone surrogate would be hashed as U+FFFD, and so share a group with another key.
  assertKey(key);
  return createHash('sha256').update(key, 'utf8').digest('hex');
}
