import * as z from 'zod';
import type { StopReason } from './command.ts';
import * as fields from './fields.ts';
import { encodeMessage, type Format, type Parsed, parseMessage } from './message.ts';

/** Why a start, a stop or a job failed. */
export interface JobError {
  readonly code: string;
  /** At most 256 bytes of UTF-8; see `cutMessage`. */
  readonly message: string;
  readonly retryable: boolean;
  /** The handler's wish for the time until the next try. */
  readonly retryAfterMs?: number;
}

/** A worker session is there and its inbox exists. */
export interface RegisteredReport {
  readonly type: 'registered';
  readonly worker: string;
  readonly session: string;
  /** Epoch ms by the worker's clock: when it happened, so a repeated report carries the first time. So in every report. */
  readonly at: number;
}

/** A worker session has ended with no handler alive. */
export interface LeftReport {
  readonly type: 'left';
  readonly worker: string;
  readonly session: string;
  readonly at: number;
}

/** What every fact about a job carries. */
interface Fact {
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly worker: string;
  /** The session in which it happened. */
  readonly session: string;
  readonly at: number;
  /** Epoch ms; absent where this worker never saw it up. */
  readonly startedAt?: number;
}

export interface StartedReport extends Fact {
  readonly type: 'started';
  readonly startedAt: number;
}

export interface StartFailedReport extends Fact {
  readonly type: 'start-failed';
  readonly error: JobError;
}

/** What really runs at a key where a start met it. */
export interface RunningJob {
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly startedAt: number;
}

/** Why a worker did not start a job; the job that holds the key stands beside `key-busy` alone. */
export type WorkerRefusal =
  | { readonly reason: 'key-busy'; readonly running: RunningJob }
  | { readonly reason: 'at-capacity' | 'draining' | 'fingerprint-mismatch' };

export type RefusedReport = Fact & { readonly type: 'refused' } & WorkerRefusal;
export type KeyBusyReport = Extract<RefusedReport, { readonly reason: 'key-busy' }>;

export interface StoppedReport extends Fact {
  readonly type: 'stopped';
  /** Absent where a start came after the command that ended its fence was forgotten. */
  readonly reason?: StopReason;
}

/** A stop was refused by the handler or passed its deadline: the job still runs. */
export interface StopFailedReport extends Fact {
  readonly type: 'stop-failed';
  readonly error: JobError;
}

/** The job was let go, to run elsewhere. */
export interface ReleasedReport extends Fact {
  readonly type: 'released';
}

/** The job ended by itself at `at`; without `error` it succeeded. */
export interface FinishedReport extends Fact {
  readonly type: 'finished';
  readonly startedAt: number;
  readonly error?: JobError;
  /** JSON of at most 1 KiB as it travels; see `cutResult`. */
  readonly result?: unknown;
  /** There was a result, too large or not JSON. */
  readonly resultOmitted?: true;
}

/** The answer to `confirm`: all that is needed to write the job's records anew. */
export interface ConfirmedReport extends Fact {
  readonly type: 'confirmed';
  readonly startedAt: number;
  readonly payload: Uint8Array;
}

/** A fact about one job, by the worker that had it. */
export type FactReport =
  | StartedReport
  | StartFailedReport
  | RefusedReport
  | StoppedReport
  | StopFailedReport
  | ReleasedReport
  | FinishedReport
  | ConfirmedReport;

interface KnownEntry {
  readonly key: string;
  readonly fence: number;
  readonly dispatchId: string;
  readonly fingerprint: string;
}

/** What a worker says about one job in a resync round, asked or unasked. `finishedAt` is the `at` of the fact it repeats. */
export type ResyncEntry =
  | (KnownEntry & { readonly state: 'running'; readonly startedAt: number })
  | (KnownEntry & { readonly state: 'starting' })
  | (KnownEntry & {
      readonly state: 'succeeded';
      readonly startedAt: number;
      readonly finishedAt: number;
      readonly result?: unknown;
      readonly resultOmitted?: true;
    })
  | (KnownEntry & { readonly state: 'failed'; readonly startedAt: number; readonly finishedAt: number; readonly error: JobError })
  | (KnownEntry & { readonly state: 'stopped'; readonly startedAt?: number; readonly finishedAt: number; readonly reason?: StopReason })
  | (KnownEntry & { readonly state: 'released'; readonly startedAt?: number; readonly finishedAt: number })
  | (KnownEntry & { readonly state: 'start-failed'; readonly finishedAt: number; readonly error: JobError })
  | (KnownEntry & { readonly state: 'refused' } & WorkerRefusal)
  | { readonly state: 'unrecognized'; readonly key: string; readonly fence: number };

/** One page of a worker's answer to a resync round. */
export interface ResyncReport {
  readonly type: 'resync';
  readonly worker: string;
  readonly session: string;
  readonly at: number;
  /** The round's token. */
  readonly round: string;
  /** 1 to `pages`. */
  readonly page: number;
  /** Of the whole answer, unasked jobs included. */
  readonly pages: number;
  readonly entries: readonly ResyncEntry[];
}

export type Report = RegisteredReport | LeftReport | FactReport | ResyncReport;

const { version: v, key, dispatchId, fingerprint, fence, worker, session, at, startedAt, finishedAt, jobError: error } = fields;
const reason = fields.stopReason.optional();
const outcome = { result: fields.result, resultOmitted: fields.resultOmitted };

const running = z.object(
  { dispatchId, fingerprint, fence, startedAt },
  { error: 'what runs there: dispatchId, fingerprint, fence, startedAt' },
);
const keyBusy = { reason: z.literal('key-busy'), running };
const others = ['at-capacity', 'draining', 'fingerprint-mismatch'] as const;
const notBusy = { reason: z.enum(others) };

/** `refused` is two members of its union: what runs stands beside `key-busy` alone. */
function refusedUnion<S extends z.ZodRawShape>(shape: S) {
  return z.discriminatedUnion('reason', [z.object({ ...shape, ...keyBusy }), z.object({ ...shape, ...notBusy })], {
    error: `one of key-busy, ${others.join(', ')}`,
  });
}

const saidBy = { v, worker, session, at };
const fact = { ...saidBy, key, dispatchId, fingerprint, fence, startedAt: startedAt.optional() };
const known = { key, fence, dispatchId, fingerprint };

const entry = z.discriminatedUnion(
  'state',
  [
    z.object({ ...known, state: z.literal('running'), startedAt }),
    z.object({ ...known, state: z.literal('starting') }),
    z.object({ ...known, state: z.literal('succeeded'), startedAt, finishedAt, ...outcome }),
    z.object({ ...known, state: z.literal('failed'), startedAt, finishedAt, error }),
    z.object({ ...known, state: z.literal('stopped'), startedAt: startedAt.optional(), finishedAt, reason }),
    z.object({ ...known, state: z.literal('released'), startedAt: startedAt.optional(), finishedAt }),
    z.object({ ...known, state: z.literal('start-failed'), finishedAt, error }),
    refusedUnion({ ...known, state: z.literal('refused') }),
    z.object({ key, fence, state: z.literal('unrecognized') }),
  ],
  { error: 'one of running, starting, succeeded, failed, stopped, released, start-failed, refused, unrecognized' },
);

/** The wire form, by `type`. */
export const reportSchemas = {
  registered: z.object({ ...saidBy, type: z.literal('registered') }),
  left: z.object({ ...saidBy, type: z.literal('left') }),
  started: z.object({ ...fact, type: z.literal('started'), startedAt }),
  'start-failed': z.object({ ...fact, type: z.literal('start-failed'), error }),
  refused: refusedUnion({ ...fact, type: z.literal('refused') }),
  stopped: z.object({ ...fact, type: z.literal('stopped'), reason }),
  'stop-failed': z.object({ ...fact, type: z.literal('stop-failed'), error }),
  released: z.object({ ...fact, type: z.literal('released') }),
  finished: z.object({ ...fact, type: z.literal('finished'), startedAt, error: error.optional(), ...outcome }),
  confirmed: z.object({ ...fact, type: z.literal('confirmed'), startedAt, ...fields.payload }),
  resync: z
    .object({
      ...saidBy,
      type: z.literal('resync'),
      round: fields.round,
      page: fields.page,
      pages: fields.pages,
      entries: z.array(entry, { error: 'a list of entries' }),
    })
    .check(fields.checkPage),
};

type WireReport = z.output<(typeof reportSchemas)[keyof typeof reportSchemas]>;
const reports: Format<WireReport> = { tag: 'type', schemas: reportSchemas };

/** Reads the body of a message in the report queue. Unknown fields are ignored. */
export function parseReport(body: string): Parsed<Report> {
  return parseMessage(reports, body);
}

/** The body for the report queue, in ASCII. Throws a `WireError` where the reader would refuse it. */
export function encodeReport(report: Report): string {
  return encodeMessage(reports, report);
}

/** An error message cut to what a report carries: 256 bytes of UTF-8, whole characters, ending in `…` where something is missing. */
export function cutMessage(message: string): string {
  const bytes = Buffer.from(message.toWellFormed());
  if (bytes.length <= fields.maxMessageBytes) return bytes.toString();
  let end = fields.maxMessageBytes - Buffer.byteLength('…');
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString('utf8', 0, end)}…`;
}

/** What a report carries of that which a job returned: the value, or that there was one, too large or not JSON; nothing of `undefined`. */
export function cutResult(value: unknown): Pick<FinishedReport, 'result' | 'resultOmitted'> {
  if (value === undefined) return {};
  const length = fields.jsonLength(value);
  return length !== undefined && length <= fields.maxResultLength ? { result: value } : { resultOmitted: true };
}
