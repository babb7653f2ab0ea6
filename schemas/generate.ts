/**
 * The contract for other languages: JSON Schemas (2020-12) of every message, made from the schemas that the code itself reads with, and
 * golden vectors to test a producer against. Run with `node schemas/generate.ts`; a test fails where a committed file is stale.
 */
import { writeFileSync } from 'node:fs';
import * as z from 'zod';
import { asciiJson } from '../lib/wire/ascii.ts';
import { commandSchemas } from '../lib/wire/command.ts';
import { encodeRequest, fingerprintOf, groupIdOf, maxPayloadBytes, parseRequest, type Request } from '../lib/wire/index.ts';
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

const vectors = {
  description: [
    'groupIds: MessageGroupId of a key.',
    'fingerprints: of a key and a payload; a payload is the bytes of `base64`, repeated `times`.',
    'requests: a request and its body as Holdfast writes it. Any JSON with the same members is as good.',
    'refused: bodies that are refused, and what the refusal says.',
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
};

const internal = { 'x-internal': true };
const contents = {
  'request.json': jsonSchema('request', 'A message in the request queue, as producers send it.', requestSchemas),
  'command.json': jsonSchema('command', 'Internal: a message in the inbox of a worker session.', commandSchemas, internal),
  'report.json': jsonSchema('report', 'Internal: a message in the report queue.', reportSchemas, internal),
  'vectors.json': vectors,
};

/** What each file of this folder should hold. */
export const files: readonly (readonly [name: string, text: string])[] = Object.entries(contents).map(([name, content]) => [
  name,
  `${asciiJson(content, 2)}\n`,
]);

if (import.meta.main) for (const [name, text] of files) writeFileSync(new URL(name, import.meta.url), text);
