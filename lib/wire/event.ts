import * as z from 'zod';
import * as fields from './fields.ts';

// What a pool tells on an EventBridge bus. Readers ignore fields and kinds of events that they do not know, so both may be added under the
// same `v`. The names are for readers too: an outcome and an end have the fields that `Dispatch.outcome()` and `ended()` give.

/** `source` of every event. */
export const eventSource = 'holdfast';

const { version: v, pool, generation, eventId: id, recordedAt, key, dispatchId, failure } = fields;
const told = { v, pool, generation, id, recordedAt };
const ofDispatch = { ...told, key, dispatchId };

const status = z.enum(['pending', 'assigned', 'running', 'stopping', 'releasing', 'ended']);
const state = z.enum(['active', 'draining', 'revoked', 'lost', 'left']);
const endedBy = z.enum(['stop-requested', 'replaced', 'pool-closed']);
/** By what the job came to be: `pending`, `stopping`, `releasing`, and how it is `ended`. */
const why = z.enum([
  ...['admitted', 'released', 'start-failed', 'owner-lost', 'unrecognized', 'restart', 'refused'],
  ...endedBy.options,
  ...['moved', 'worker-draining'],
  ...['succeeded', 'failed', 'stopped', 'never-started'],
] as const);

const jobChange = z.object({
  ...ofDispatch,
  from: status.optional().meta({ description: 'Status until now; absent where the key had no job of this dispatch.' }),
  to: status.meta({ description: 'Status from now on.' }),
  why: why.optional().meta({ description: 'Why it waits, stops, is let go of or has ended; absent where it is assigned or running.' }),
  worker: fields.worker.optional().meta({ description: "Whose the job is or, where it is nobody's now, whose it was until now." }),
  fence: fields.fence,
  at: fields.recordedAt.meta({
    description: 'When it happened: as the worker reported it where it did, else when it was recorded. Epoch ms.',
  }),
});

const notStarted = [
  z.object({
    outcome: z.literal('refused'),
    reason: z.literal('key-busy'),
    holder: z
      .object({ dispatchId, sameRequest: z.boolean() })
      .meta({ description: 'Who held the key, and whether it asked for the same.' }),
  }),
  z.object({ outcome: z.literal('refused'), reason: z.enum(['next-taken', 'pool-closed', 'expired', 'invalid']) }),
  z.object({
    outcome: z.literal('start-failed'),
    error: failure,
    attempts: fields.attempt.meta({ description: 'How often it was tried.' }),
  }),
  z.object({ outcome: z.literal('cancelled'), by: z.enum(['stop', 'superseded']) }),
] as const;
const started = z.object({
  outcome: z.literal('started'),
  at: fields.startedAt.meta({ description: 'Since when it first ran. Epoch ms.' }),
});

const { finishedAt } = fields;
const ends = [
  z.object({ status: z.literal('succeeded'), finishedAt, result: fields.result, resultOmitted: fields.resultOmitted }),
  z.object({ status: z.literal('failed'), finishedAt, error: failure }),
  z.object({ status: z.literal('stopped'), finishedAt, reason: endedBy }),
  z.object({
    status: z.literal('never-started'),
    outcome: z.union(notStarted).meta({ description: 'What became of the request instead.' }),
  }),
] as const;

const workerChange = z.object({
  ...told,
  worker: fields.worker,
  session: fields.session,
  from: state.optional().meta({ description: 'State until now; absent where the session is new.' }),
  to: state.meta({ description: 'State from now on.' }),
});

function event<const T extends string, D extends z.ZodType>(type: T, detail: D) {
  return z.object({ source: z.literal(eventSource), 'detail-type': z.literal(type), detail });
}

/** What EventBridge delivers, less what it adds itself, by `detail-type`. */
export const eventSchemas = {
  'Holdfast Job Change': event('Holdfast Job Change', jobChange),
  'Holdfast Dispatch Outcome': event('Holdfast Dispatch Outcome', z.intersection(z.object(ofDispatch), z.union([started, ...notStarted]))),
  'Holdfast Dispatch End': event('Holdfast Dispatch End', z.intersection(z.object(ofDispatch), z.union(ends))),
  'Holdfast Worker Change': event('Holdfast Worker Change', workerChange),
};

type Schemas = typeof eventSchemas;
export type JobChangeEvent = z.output<Schemas['Holdfast Job Change']>;
export type DispatchOutcomeEvent = z.output<Schemas['Holdfast Dispatch Outcome']>;
export type DispatchEndEvent = z.output<Schemas['Holdfast Dispatch End']>;
export type WorkerChangeEvent = z.output<Schemas['Holdfast Worker Change']>;

/** One event, by its `detail-type`. */
export type PoolEvent = JobChangeEvent | DispatchOutcomeEvent | DispatchEndEvent | WorkerChangeEvent;
