import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { decideEvents, type RecordChange } from '../../lib/pool/decide-events.ts';
import { eventSchemas } from '../../lib/wire/event.ts';
import { encodeCommand, encodeReport, encodeRequest, parseRequest } from '../../lib/wire/index.ts';
import { files } from '../../schemas/generate.ts';
import { anAdmitted, aRegistration, at, cancelled, ended, everyJob, started } from '../conformance/samples.ts';
import * as any from './arbitraries.ts';

const folder = new URL('../../schemas/', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8');
const vectors = JSON.parse(read('vectors.json'));

test.each(files)('%s is what `node schemas/generate.ts` writes today', (name, text) => {
  expect(read(name)).toBe(text);
});

test('every published file is generated, and in ASCII', () => {
  const names = readdirSync(folder).filter((name) => !name.endsWith('.ts'));
  expect(names.sort()).toEqual(files.map(([name]) => name).sort());
  for (const name of names) expect(read(name)).toMatch(/^[ -~\n]+$/);
});

/** Every one before every other, as changes of one record. */
function pairs<T extends object>(records: readonly (T | undefined)[]): readonly { readonly before?: T | undefined; readonly after: T }[] {
  const present = records.filter((record) => record !== undefined);
  return records.flatMap((before) => present.map((after) => ({ before, after })));
}
const rev = '01KQW2Z3GN6M9V4T8R0Y5XB7CD';

describe('the published schemas, judged by another validator', () => {
  const ajv = new Ajv2020({ keywords: ['x-internal'], discriminator: false });
  const validators = {
    request: ajv.compile(JSON.parse(read('request.json'))),
    command: ajv.compile(JSON.parse(read('command.json'))),
    report: ajv.compile(JSON.parse(read('report.json'))),
    event: ajv.compile(JSON.parse(read('event.json'))),
  };

  test('allow every message that we write', () => {
    const allowed = <T>(messages: fc.Arbitrary<T>, encode: (message: T) => string, validate: (wire: unknown) => boolean) =>
      fc.assert(fc.property(messages, (message) => validate(JSON.parse(encode(message)))));
    allowed(any.request, encodeRequest, validators.request);
    allowed(any.command, encodeCommand, validators.command);
    allowed(any.report, encodeReport, validators.report);
  });

  test('allow every request that the reader takes, whatever is done to one of its fields', () => {
    fc.assert(
      fc.property(any.request, fc.nat(), fc.jsonValue(), (message, n, value) => {
        const wire = JSON.parse(encodeRequest(message));
        wire[[...Object.keys(wire), 'ifBusy', 'encoding', 'extra'][n % (Object.keys(wire).length + 3)] as string] = value;
        if (parseRequest(JSON.stringify(wire)).ok) expect(validators.request(wire)).toBe(true);
      }),
    );
  });

  test('refuse whatever the reader refuses, but for what only bytes can show', () => {
    const bytesAlone = /bytes of UTF-8$|lone surrogate$|^is not base64$|^is not JSON$/;
    const refused = vectors.refused.filter(({ fact }: { fact: string }) => !bytesAlone.test(fact));
    expect(refused.length).toBeGreaterThan(12);
    for (const { body } of refused) expect(validators.request(JSON.parse(body)), body).toBe(false);
  });

  test('allow every event that a change of any record gives', () => {
    const jobs = [undefined, ...everyJob(at)];
    const admitted = anAdmitted();
    const up = started(admitted);
    const dispatches = [undefined, admitted, up, ended(up, at), cancelled(admitted, at)];
    const rows = (['active', 'draining', 'revoked', 'lost', 'left'] as const).map((state) => ({
      ...aRegistration(),
      state,
      beat: 0,
      running: 0,
    }));
    const changes: readonly RecordChange[] = [
      ...pairs(jobs).map((pair) => ({ type: 'job', rev, recordedAt: at, ...pair }) as const),
      ...pairs(dispatches).map((pair) => ({ type: 'dispatch', rev, recordedAt: at, ...pair }) as const),
      ...pairs([undefined, ...rows]).map((pair) => ({ type: 'worker', rev, recordedAt: at, ...pair }) as const),
    ];
    const events = changes.flatMap((change) => decideEvents(change, { pool: 'feeds', generation: 1 }));
    expect(new Set(events.map((event) => event['detail-type']))).toEqual(new Set(Object.keys(eventSchemas)));
    for (const event of events) expect(validators.event(JSON.parse(JSON.stringify(event))), JSON.stringify(event)).toBe(true);
  });

  test('allow the golden events, with whatever EventBridge or a later version adds to them', () => {
    expect(vectors.events.length).toBeGreaterThan(8);
    for (const event of vectors.events) {
      expect(validators.event(event), JSON.stringify(event)).toBe(true);
      expect(eventSchemas[event['detail-type'] as keyof typeof eventSchemas].parse(event)).toEqual(event);
      const more = { ...event, account: '123456789012', detail: { ...event.detail, later: 1 } };
      expect(validators.event(more)).toBe(true);
      expect(validators.event({ ...event, detail: { ...event.detail, id: undefined } })).toBe(false);
    }
  });

  test('leave commands and reports open to new fields, as the reader does, and requests closed', () => {
    const left = { v: 1, type: 'left', worker: 'w', session: 's', at: 1 };
    expect(validators.report({ ...left, hint: 1 })).toBe(true);
    expect(validators.request({ v: 1, op: 'assign', key: 'k', hint: 1 })).toBe(false);
  });
});

describe('the AsyncAPI document', () => {
  const document = parse(read('asyncapi.yaml'));
  const specs = (path: string) => JSON.parse(readFileSync(createRequire(import.meta.url).resolve(`@asyncapi/specs/${path}`), 'utf8'));

  test('is one of version 3.0.0, by the official schema', () => {
    const options = { strict: false, validateFormats: false, allErrors: true };
    // The official schema of a whole document knows the bindings of SQS up to 0.2.0; those of 0.3.0 have a schema of their own.
    const { bindings, ...requests } = document.channels.requests;
    const whole = new Ajv(options).compile(specs('schemas/3.0.0-without-$id.json'));
    expect(whole({ ...document, channels: { ...document.channels, requests } }), JSON.stringify(whole.errors)).toBe(true);
    const extension = specs('definitions/3.0.0/specificationExtension.json');
    const sqs = new Ajv({ ...options, schemas: [extension] }).compile(specs('bindings/sqs/0.3.0/channel.json'));
    expect(sqs(bindings.sqs), JSON.stringify(sqs.errors)).toBe(true);
  });

  test('only refers to the schemas: to every request of producers and every event, each by its name', () => {
    const messages: { name: string; payload: { schema: { $ref: string } } }[] = ['requests', 'events'].flatMap((channel) =>
      Object.values(document.channels[channel].messages),
    );
    for (const { name, payload } of messages) {
      const [file = '', path = ''] = payload.schema.$ref.split('#/oneOf/');
      expect(JSON.parse(read(file.slice(2))).oneOf[path].title).toBe(name);
    }
    expect(messages.map(({ name }) => name)).toEqual(['start', 'stop', 'notify', ...Object.keys(eventSchemas)]);
  });
});

describe('golden vectors, computed anew without our code', () => {
  const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest('hex');
  const bytesOf = ({ base64, times }: { base64: string; times: number }) => Buffer.concat(Array(times).fill(Buffer.from(base64, 'base64')));
  const prefixed = (part: Buffer) => [Buffer.from(part.length.toString(16).padStart(8, '0'), 'hex'), part];

  test('a group id is the SHA-256 of the bytes of the key, and no two keys share one (F22)', () => {
    const { groupIds } = vectors;
    for (const { key, groupId } of groupIds) expect(groupId).toBe(sha256(Buffer.from(key)));
    expect(new Set(groupIds.map(({ groupId }: { groupId: string }) => groupId)).size).toBe(groupIds.length);
  });

  test('a fingerprint is the SHA-256 over length-prefixed key and payload, and no two requests share one', () => {
    const { fingerprints } = vectors;
    for (const { key, payload, fingerprint } of fingerprints) {
      expect(fingerprint).toBe(sha256(...prefixed(Buffer.from(key)), ...prefixed(bytesOf(payload))));
    }
    expect(new Set(fingerprints.map((entry: { fingerprint: string }) => entry.fingerprint)).size).toBe(fingerprints.length);
  });

  test('a body is ASCII JSON that says what the request says, and is read as that', () => {
    for (const { request, body } of vectors.requests) {
      expect(body).toMatch(/^[ -~]+$/);
      const { v, payload, encoding, ...rest } = JSON.parse(body);
      expect({ v, ...rest }).toEqual({ v: 1, ...request, payload: undefined });
      const bytes = payload === undefined ? undefined : Buffer.from(payload, encoding ?? 'utf8');
      if (bytes) expect(bytes.equals(bytesOf(request.payload))).toBe(true);
      const parsed = parseRequest(body);
      expect(parsed).toMatchObject({ ok: true, value: rest });
      if (parsed.ok && 'payload' in parsed.value) expect(Buffer.from(parsed.value.payload).equals(bytes as Buffer)).toBe(true);
    }
  });

  test('what is refused is refused with that field, fact and limit', () => {
    for (const { body, ...refusal } of vectors.refused) expect(parseRequest(body)).toMatchObject({ ok: false, refusal });
  });
});
