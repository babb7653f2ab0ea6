import { createHash } from 'node:crypto';
import { assertKey } from './key.ts';

/**
 * What a dispatch id is admitted with: SHA-256, as 64 lower-case hex digits, over
 *
 *     length of the key     4 bytes, unsigned, big-endian
 *     the key               UTF-8
 *     length of the payload 4 bytes, unsigned, big-endian
 *     the payload           the bytes as they are, never their wire form
 *
 * In Python: `sha256(pack(">I", len(k)) + k + pack(">I", len(p)) + p).hexdigest()`. The lengths keep (`a`, `bc`) and (`ab`, `c`) apart.
 * Throws a `WireError` where the key breaks its rule.
 */
export function fingerprintOf(key: string, payload: Uint8Array): string {
  assertKey(key);
  const hash = createHash('sha256');
  for (const part of [Buffer.from(key), payload]) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    hash.update(length).update(part);
  }
  return hash.digest('hex');
}
