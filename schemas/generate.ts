/**
 * The contract for other languages: JSON Schemas (2020-12) of every message and event, made from the schemas that the code itself reads
 * with, golden vectors to test a producer or a reader of events against, and an AsyncAPI document that says where each goes and only refers
 * to the schemas. Run with `node schemas/generate.ts`; a test fails where a committed file is stale.
 */
import { writeFileSync } from 'node:fs';
import { stringify } from 'yaml';
import * as z from 'zod';
import { LAST_RECEIVE } from '../lib/pool/batch.ts';
import { asciiJson } from '../lib/wire/ascii.ts';
import { commandSchemas } from '../lib/wire/command.ts';
import { eventSchemas } from '../lib/wire/event.ts';
import { encodeRequest, fingerprintOf, groupIdOf, maxPayloadBytes, type PoolEvent, parseRequest, type Request } from '../lib/wire/index.ts';
import { reportSchemas } from '../lib/wire/report.ts';
import { requestSchemas } from '../lib/wire/request.ts';

function jsonSchema(name: string, description: string, schemas: Readonly<Record<string, z.ZodType>>, annotations = {}) {
  const oneOf = Object.entries(schemas).map(([title, schema]) => {
    const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' });
    return { title, ...rest };
  });
  const $schema = 'https://json-schema.org/draft/2020-12/schema';
  return { $schema, $id: `urn:holdfast:${name}:1`, title: `Holdfast ${name}, version 1`, description, ...annotations, oneOf };
}

/** Each either works as a key and stays distinct from all others, or is among the refused. */
const keys = [
  ...[
    'a',
    'A',
    ' a',
    'a ',
    'a#b',
    '#b',
    'a:b',
    'a/b',
    'job#a',
    'x/y',
    '.',
    '..',
    '=',
    ':',
    ',',
    '"',
    '\\',
    '\\u00e9',
    "'",
    '{}',
    '%61',
    '+',
    '-',
    ' ',
  ],
  ...[
    '0',
    '00',
    '123',
    '1e3',
    'null',
    'true',
    '__proto__',
    'constructor',
    '\0',
    '\n',
    '\r\n',
    '\t',
    '\x7f',
    '\x80',
    '\xa0',
    '\u2028',
    '\ufeff',
  ],
  ...['\u00e9', 'e\u0301', '\u00df', 'ss', '\u05e9\u05dc\u05d5\u05dd', '\u202ea', '\ufffd', '\ufffe', '\uffff', '\u{1f600}', '\u{10ffff}'],
  ...['k'.repeat(1024), '\u00e9'.repeat(512), '\u{1f600}'.repeat(256)],
];

/** A payload is `base64` repeated `times`. */
interface Payload {
  readonly base64: string;
  readonly times: number;
}
function repeated(payload: string | readonly number[], times = 1): Payload {
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : Buffer.from(payload);
  return { base64: bytes.toString('base64'), times };
}
const bytesOf = ({ base64, times }: Payload) => new Uint8Array(Buffer.concat(Array(times).fill(Buffer.from(base64, 'base64'))));

const payloads: readonly Payload[] = [
  repeated(''),
  repeated('{"url":"https://feeds.example/17"}'),
  repeated('{"id":12345678901234567890}'),
  repeated('\ufeff{"after":"a byte order mark"}'),
  repeated('"\\\u0000\u001f\u007f\u00e9\u2028\ufffd\uffff\u{1f600}'),
  repeated([0]),
  repeated([0x00, 0x01, 0xff]),
  repeated([0xc0, 0x80]),
  repeated([0xed, 0xa0, 0x80]),
  repeated('\u00e9'.repeat(40)),
  repeated('x', maxPayloadBytes),
  repeated([0], maxPayloadBytes),
  repeated([0xff], maxPayloadBytes),
];
const small = payloads.filter(({ times }) => times === 1);

type Spec = Request extends infer R ? (R extends { payload: Uint8Array } ? Omit<R, 'payload'> & { payload: Payload } : R) : never;
const requestOf = (spec: Spec) => ('payload' in spec ? { ...spec, payload: bytesOf(spec.payload) } : spec) as Request;

const requests: readonly Spec[] = [
  ...small.map((payload, n): Spec => ({ op: 'start', key: 'tenant:17', payload, dispatchId: `order-${n}`, ifBusy: 'reject' })),
  { op: 'start', key: 'cam/\u00e9', payload: repeated('p'), dispatchId: '\u{1f600}', ifBusy: 'next', expiresAt: 1_893_456_000_000 },
  { op: 'start', key: 'k', payload: repeated('p'), dispatchId: 'd'.repeat(128), ifBusy: 'replace' },
  { op: 'stop', key: 'tenant:17', dispatchId: 'order-8812' },
  { op: 'stop', key: '\n' },
  { op: 'notify', key: 'tenant:17', payload: repeated('{"rate":5}'), id: 'n-1' },
];

const start = { v: 1, op: 'start', key: 'k', payload: 'p', dispatchId: 'd' };
const refused = [
  'not json',
  '{}',
  '[]',
  'null',
  '{"v":99}',
  '{"v":1,"op":"cancel","key":"k"}',
  '{"v":1,"op":"start","key":"k","payload":"p","dispatchID":"d"}',
  '{"v":1,"op":"start","key":"k","payload":"p"}',
  '{"v":1,"op":"start","key":"\\ud800","payload":"p","dispatchId":"d"}',
  ...[
    { key: '' },
    { key: 'k'.repeat(1025) },
    { key: `${'\u00e9'.repeat(512)}k` },
    { key: 17 },
    { dispatchId: '' },
    { dispatchId: 'd'.repeat(129) },
    { payload: { url: 'https://feeds.example/17' } },
    { payload: 'AAA', encoding: 'base64' },
    { payload: 'AA-_', encoding: 'base64' },
    { encoding: 'gzip' },
    { ifBusy: 'wait' },
    { expiresAt: 1_893_456_000.5 },
    { expiresAt: '2030-01-01T00:00:00Z' },
  ].map((broken) => asciiJson({ ...start, ...broken })),
];

function refusalOf(body: string) {
  const parsed = parseRequest(body);
  if (parsed.ok) throw new Error(`not refused: ${body}`);
  const { field, fact, limit } = parsed.refusal;
  return { field, fact, limit };
}

const told = { v: 1, pool: 'feeds', generation: 1, key: 'tenant:17', dispatchId: 'order-8812', recordedAt: 1_893_456_030_210 } as const;
const [rev, at] = ['01KQW2Z3GN6M9V4T8R0Y5XB7CD', 1_893_456_030_000];
const holder = { dispatchId: 'order-8811', sameRequest: false };
const outcomes = [
  { outcome: 'started', at },
  { outcome: 'refused', reason: 'key-busy', holder },
  { outcome: 'refused', reason: 'pool-closed' },
  { outcome: 'start-failed', error: { code: 'no-camera', message: 'no answer from \u00e9' }, attempts: 5 },
  { outcome: 'cancelled', by: 'superseded' },
] as const;
const ends = [
  { status: 'succeeded', finishedAt: at, result: { fetched: 12 } },
  { status: 'failed', finishedAt: at, error: { code: 'error', message: 'it broke' } },
  { status: 'stopped', finishedAt: at, reason: 'stop-requested' },
  { status: 'never-started', outcome: { outcome: 'cancelled', by: 'stop' } },
] as const;
const source = 'holdfast';
const events: readonly PoolEvent[] = [
  ...[
    { to: 'pending', why: 'admitted', fence: 0 } as const,
    { from: 'pending', to: 'assigned', worker: 'w-7f3', fence: 1_893_456_000_001 } as const,
    { from: 'running', to: 'pending', why: 'owner-lost', worker: 'w-7f3', fence: 1_893_456_000_001 } as const,
  ].map((change) => ({ source, 'detail-type': 'Holdfast Job Change', detail: { ...told, id: rev, ...change, at } }) as const),
  ...outcomes.map((outcome) => {
    const detail = { ...told, id: `${rev}.outcome`, ...outcome };
    return { source, 'detail-type': 'Holdfast Dispatch Outcome', detail } as const;
  }),
  ...ends.map((end) => ({ source, 'detail-type': 'Holdfast Dispatch End', detail: { ...told, id: `${rev}.end`, ...end } }) as const),
  {
    source,
    'detail-type': 'Holdfast Worker Change',
    detail: {
      ...{ v: 1, pool: 'feeds', generation: 1, id: rev, worker: 'w-7f3', session: '01KQW2Y8', from: 'active', to: 'lost' },
      recordedAt: 1_893_456_030_210,
    },
  },
];

const vectors = {
  description: [
    'groupIds: MessageGroupId of a key.',
    'fingerprints: of a key and a payload; a payload is the bytes of `base64`, repeated `times`.',
    'requests: a request and its body as Holdfast writes it. Any JSON with the same members is as good.',
    'refused: bodies that are refused, and what the refusal says.',
    'events: one of each kind, as EventBridge delivers them, less the fields that it adds itself.',
  ],
  groupIds: keys.map((key) => ({ key, groupId: groupIdOf(key) })),
  fingerprints: [
    ...payloads.map((payload) => ({ key: 'tenant:17', payload })),
    ...keys.map((key) => ({ key, payload: repeated('p') })),
    { key: 'a', payload: repeated('bc') },
    { key: 'ab', payload: repeated('c') },
  ].map(({ key, payload }) => ({ key, payload, fingerprint: fingerprintOf(key, bytesOf(payload)) })),
  requests: requests.map((spec) => ({ request: spec, body: encodeRequest(requestOf(spec)) })),
  refused: refused.map((body) => ({ body, ...refusalOf(body) })),
  events,
};

const internal = { 'x-internal': true };
const jsonFiles = {
  'request.json': jsonSchema('request', 'A message in the request queue, as producers send it.', requestSchemas),
  'event.json': jsonSchema('event', 'What a pool tells on an EventBridge bus. Ignore fields and kinds that are not here.', eventSchemas),
  'command.json': jsonSchema('command', 'Internal: a message in the inbox of a worker session.', commandSchemas, internal),
  'report.json': jsonSchema('report', 'Internal: a message in the report queue.', reportSchemas, internal),
  'vectors.json': vectors,
};

/** One message of a channel, by the place of its schema in the file. */
function message(file: 'request.json' | 'event.json', name: string) {
  const schema = { $ref: `./${file}#/oneOf/${jsonFiles[file].oneOf.findIndex(({ title }) => title === name)}` };
  return { name, contentType: 'application/json', payload: { schemaFormat: 'application/schema+json;version=draft-2020-12', schema } };
}

const requestMessages = ['start', 'stop', 'notify'] as const satisfies readonly (keyof typeof requestSchemas)[];
const eventMessages = {
  jobChange: 'Holdfast Job Change',
  dispatchOutcome: 'Holdfast Dispatch Outcome',
  dispatchEnd: 'Holdfast Dispatch End',
  workerChange: 'Holdfast Worker Change',
} as const satisfies Readonly<Record<string, keyof typeof eventSchemas>>;
const days = 86_400;

const asyncapi = {
  asyncapi: '3.0.0',
  info: {
    title: 'Holdfast pool',
    version: '1',
    description:
      'Keyed, long-running jobs, each owned by exactly one worker. Requests come in through an SQS queue; where the pool was given an EventBridge bus, events go out on it.',
    license: { name: 'MIT' },
  },
  defaultContentType: 'application/json',
  channels: {
    requests: {
      address: null,
      description:
        'The request queue. Its URL is the output RequestQueueUrl of the stack, and requestQueueUrl in the SSM parameter /holdfast/<pool>/config. MessageGroupId is the SHA-256 of the key in hex; MessageDeduplicationId is anything unique to this send.',
      messages: Object.fromEntries(requestMessages.map((name) => [name, message('request.json', name)])),
      bindings: {
        sqs: {
          queue: {
            name: 'requests',
            fifoQueue: true,
            deduplicationScope: 'messageGroup',
            fifoThroughputLimit: 'perMessageGroupId',
            messageRetentionPeriod: 4 * days,
            redrivePolicy: { deadLetterQueue: { name: 'requestDeadLetters' }, maxReceiveCount: LAST_RECEIVE },
          },
          deadLetterQueue: { name: 'requestDeadLetters', fifoQueue: true, messageRetentionPeriod: 14 * days },
          bindingVersion: '0.3.0',
        },
      },
    },
    events: {
      address: null,
      description:
        'The EventBridge bus that the pool was given. Published once the change is durable, at least once, in order per key: drop repeats by detail.id.',
      messages: Object.fromEntries(Object.entries(eventMessages).map(([id, name]) => [id, message('event.json', name)])),
    },
  },
  operations: {
    takeRequest: { action: 'receive', channel: { $ref: '#/channels/requests' }, summary: 'Starts and stops jobs and notifies them.' },
    tellEvent: { action: 'send', channel: { $ref: '#/channels/events' }, summary: 'Tells each applied change.' },
  },
};

/** What each file of this folder should hold. */
export const files: readonly (readonly [name: string, text: string])[] = [
  ...Object.entries(jsonFiles).map(([name, content]) => [name, `${asciiJson(content, 2)}\n`] as const),
  ['asyncapi.yaml', `# Made by schemas/generate.ts.\n${stringify(asyncapi, { lineWidth: 0 })}`],
];

if (import.meta.main) for (const [name, text] of files) writeFileSync(new URL(name, import.meta.url), text);
