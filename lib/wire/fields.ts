import * as z from 'zod';
import { asciiJson } from './ascii.ts';
import { breachOf, idRule, keyRule, type TextRule, textRule } from './key.ts';
import { maxPayloadBytes } from './payload.ts';

// The fields that messages are made of. In each, `error` is the limit: what a refusal says is allowed. The fact comes from the value,
// or, where the value alone does not show it, from the `fact` of a custom issue. What JSON Schema cannot say (bytes, surrogates) is
// said by its description, and its length in characters is a bound that every allowed value keeps.
//
// zod is imported as a namespace: a bundler drops what is not used of it, three quarters of its size.

function text(by: TextRule, description: string) {
  return z
    .string({ error: by.limit })
    .check(({ value, issues }) => {
      const fact = breachOf(value, by);
      if (fact) issues.push({ code: 'custom', input: value, message: by.limit, params: { fact } });
    })
    .meta({ description: `${description} ${by.limit}.`, minLength: by.minBytes, maxLength: by.maxBytes });
}

function integer(description: string, minimum: number, maximum = Number.MAX_SAFE_INTEGER, what = 'an integer') {
  const error = `${what} from ${minimum} to ${maximum}`;
  return z.int({ error }).min(minimum, { error }).max(maximum, { error }).meta({ description });
}

/** Epoch ms that a `Date` can hold. */
const time = (description: string) => integer(`${description} Epoch ms.`, 0, 8_640_000_000_000_000, 'whole epoch ms');
const oneOf = <const T extends string>(values: readonly T[]) => z.enum(values, { error: `one of ${values.join(', ')}` });

export const version = z.literal(1, { error: '1' }).meta({ description: 'Version of the format.' });

export const key = text(keyRule, 'Names the job; any text, compared byte by byte, never normalised.');
export const dispatchId = text(idRule, 'Names one request to start.');
export const notificationId = text(idRule, 'Names one notification; the same in each repeat of it.');
export const worker = text(idRule, 'Names the worker.');
export const session = text(idRule, 'Names one registration of a worker.');
export const round = text(idRule, 'Names one resync of one worker session.');

export const fingerprint = z
  .string({ error: '64 lower-case hex digits' })
  .regex(/^[0-9a-f]{64}$/, { error: '64 lower-case hex digits' })
  .meta({ description: 'SHA-256 over length-prefixed key bytes and payload bytes.' });
export const fence = integer('Fencing token; rises at every assignment of a key.', 0);
export const attempt = integer('1 for the first try; rises with each retry or restart.', 1);
export const beat = integer('The beat of the worker when the round was opened.', 0);
export const page = integer('1 to pages.', 1);
export const pages = integer('How many pages there are.', 1);
export function checkPage({ value: { page, pages }, issues }: z.core.ParsePayload<{ page: number; pages: number }>): void {
  if (page <= pages) return;
  issues.push({ code: 'custom', path: ['page'], input: page, message: `1 to pages, ${pages}`, params: { fact: `is ${page}` } });
}

export const at = time('When it happened, by the clock of the worker.');
export const startedAt = time('Since when the job is, or was, up.');
export const finishedAt = time('When the job ended.');
export const expiresAt = time('A start that is not admitted by then is refused.');

export const eventId = text(textRule(1, 64), 'The same in each repeat of this event, and in no other one: drop what you have seen.');
export const pool = z.string({ error: 'the name of a pool' }).meta({ description: 'Name of the pool.' });
export const generation = integer('Generation of the pool when this was published; rises when it is closed and opened again.', 1);
export const recordedAt = time('When the pool wrote it down, by the clock of the writer.');

export const flag = z.boolean({ error: 'true or false' });
export const ifBusy = oneOf(['reject', 'next', 'replace']).meta({ description: 'What to do where another dispatch holds the key.' });
export const stopReason = oneOf(['stop-requested', 'replaced', 'moved', 'worker-draining', 'pool-closed', 'lease-lost', 'evicted']);

const payloadLimit = `text, or base64 with "encoding": "base64", of at most ${maxPayloadBytes} bytes`;
export const payload = {
  payload: z.string({ error: payloadLimit }).meta({
    description: `Without encoding: text that stands for its UTF-8 bytes, without lone surrogates. At most ${maxPayloadBytes} bytes, decoded.`,
    maxLength: 4 * Math.ceil(maxPayloadBytes / 3),
  }),
  encoding: z
    .literal('base64', { error: 'base64, or absent' })
    .optional()
    .meta({ description: 'The payload is base64: standard alphabet, padded.' }),
};

/** Measured as it travels, escapes included, so that a full resync page of results always fits into one message. */
export const maxResultLength = 1024;
const resultLimit = `JSON of at most ${maxResultLength} bytes, escaped to ASCII`;
export const result = z
  .unknown()
  .check(({ value, issues }) => {
    const length = jsonLength(value);
    const fact = length === undefined ? 'is not JSON' : `is ${length} bytes`;
    if (length === undefined || length > maxResultLength) {
      issues.push({ code: 'custom', input: value, message: resultLimit, params: { fact } });
    }
  })
  .optional()
  .meta({ description: `What the job returned: ${resultLimit}.` });
export const resultOmitted = z.literal(true, { error: 'true, or absent' }).optional();

/** How long a value is as it travels; undefined where it is not JSON, or nested too deeply to be written. */
export function jsonLength(value: unknown): number | undefined {
  try {
    return asciiJson(value).length;
  } catch {
    return undefined;
  }
}

export const maxMessageBytes = 256;
export const jobError = z
  .object(
    {
      code: text(idRule, 'For programs.'),
      message: text(textRule(0, maxMessageBytes), 'For people.'),
      retryable: flag,
      retryAfterMs: integer('The time until the next try that the handler asks for.', 0).optional(),
    },
    { error: 'an object with code, message and retryable' },
  )
  .meta({ description: 'Why it failed.' });
export const failure = z
  .object(
    { code: text(idRule, 'For programs.'), message: text(textRule(0, maxMessageBytes), 'For people.') },
    { error: 'an object with code and message' },
  )
  .meta({ description: 'Why it failed.' });
