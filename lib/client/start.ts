import type { Ids } from '../pool/ports.ts';
import { encodeRequest, fingerprintOf, type IfBusy, type Request, type StartRequest } from '../wire/index.ts';
import type { Subject } from './observation.ts';
import { type AnyPayload, bytesOf, type Schema } from './payload.ts';

/** How a start is asked for. */
export interface StartTerms {
  /**
   * 1 to 128 bytes that name this start for ever. Default: a ULID made before the first send, so it is the same in all tries of
   * one call, and in no other. To survive your process, derive it from your data: `order-${order.id}`.
   */
  readonly dispatchId?: string;
  /** What to do where another dispatch holds the key. Default `reject`. */
  readonly ifBusy?: IfBusy;
  /** A start that is not admitted by then (a date, or epoch ms) is refused: `expired`. Default: never. */
  // biome-ignore lint/style/noRestrictedGlobals: the type of what a caller has; no clock is read.
  readonly expiresAt?: Date | number;
}

export interface Entry<P = AnyPayload> extends StartTerms {
  readonly key: string;
  readonly payload: P;
}

export async function startOf(entry: Entry<unknown>, schema: Schema | undefined, ids: Ids): Promise<StartRequest> {
  const { key, payload, dispatchId = ids.next(), ifBusy = 'reject', expiresAt } = entry;
  const bytes = await bytesOf('payload', payload, schema);
  return valid({ op: 'start', key, payload: bytes, dispatchId, ifBusy, expiresAt: expiresAt?.valueOf() });
}

/** The request, if the queue's reader would take it: else it is the caller who hears of it. */
export function valid<R extends Request>(request: R): R {
  encodeRequest(request);
  return request;
}

/** What to look for once it is sent. */
export function subjectOf({ dispatchId, key, payload }: StartRequest): Subject {
  return { dispatchId, key, fingerprint: fingerprintOf(key, payload) };
}
