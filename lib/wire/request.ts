import * as z from 'zod';
import * as fields from './fields.ts';
import { encodeMessage, type Format, type Parsed, parseMessage } from './message.ts';

/** What a start does when another dispatch holds the key. */
export type IfBusy = 'reject' | 'next' | 'replace';

/** Asks for a job at `key`. */
export interface StartRequest {
  readonly op: 'start';
  readonly key: string;
  readonly payload: Uint8Array;
  /** Names this start for ever: sent again it is the same start, with another key or payload it is refused. */
  readonly dispatchId: string;
  /** Default `reject`. */
  readonly ifBusy: IfBusy;
  /** Epoch ms; a start that is not admitted by then is refused. */
  readonly expiresAt?: number;
}

/** Stops one dispatch, or, without a dispatch id, whatever is admitted at `key`. */
export interface StopRequest {
  readonly op: 'stop';
  readonly key: string;
  readonly dispatchId?: string;
}

/** Hands `payload` to the job that is live at `key`. */
export interface NotifyRequest {
  readonly op: 'notify';
  readonly key: string;
  readonly payload: Uint8Array;
  /** Stable across repeats, so that a handler can tell them apart. */
  readonly id: string;
}

/** Internal: find an owner for the job that waits at `key`. */
export interface AssignRequest {
  readonly op: 'assign';
  readonly key: string;
}

/** Internal: let the owner of `fence` go of the job, so that it is placed again. */
export interface MoveRequest {
  readonly op: 'move';
  readonly key: string;
  readonly fence: number;
}

export type Request = StartRequest | StopRequest | NotifyRequest | AssignRequest | MoveRequest;

const { version: v, key } = fields;
const internal = { description: 'Internal: sent by the control plane alone.', 'x-internal': true };

/** The wire form, by `op`. */
export const requestSchemas = {
  start: z.strictObject({
    v,
    op: z.literal('start'),
    key,
    ...fields.payload,
    dispatchId: fields.dispatchId,
    ifBusy: fields.ifBusy.default('reject'),
    expiresAt: fields.expiresAt.optional(),
  }),
  stop: z.strictObject({ v, op: z.literal('stop'), key, dispatchId: fields.dispatchId.optional() }),
  notify: z.strictObject({ v, op: z.literal('notify'), key, ...fields.payload, id: fields.notificationId }),
  assign: z.strictObject({ v, op: z.literal('assign'), key }).meta(internal),
  move: z.strictObject({ v, op: z.literal('move'), key, fence: fields.fence }).meta(internal),
};

type WireRequest = z.output<(typeof requestSchemas)[keyof typeof requestSchemas]>;
const requests: Format<WireRequest> = { tag: 'op', schemas: requestSchemas };

/** Reads the body of a message in the request queue. Unknown fields are refused. */
export function parseRequest(body: string): Parsed<Request> {
  return parseMessage(requests, body);
}

/** The body for the request queue, in ASCII. Throws a `WireError` where the reader would refuse it. */
export function encodeRequest(request: Request): string {
  return encodeMessage(requests, request);
}
