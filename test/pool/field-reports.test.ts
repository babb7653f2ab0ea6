import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPool } from '../../lib/client/pool.ts';
import { LAST_RECEIVE } from '../../lib/pool/batch.ts';
import { handleRequest } from '../../lib/pool/handle-request.ts';
import { isOwned, type Job } from '../../lib/pool/job.ts';
import type { Call, Network } from '../../lib/testing/calls.ts';
import {
  encodeRequest,
  type FactReport,
  fingerprintOf,
  parseCommand,
  type Request,
  type StartRequest,
  type StopRequest,
  WireError,
} from '../../lib/wire/index.ts';
import { ControlPlane, type ControlPlaneOptions } from '../support/control-plane.ts';

/**
 * Faults that people met in systems of this kind, on the real functions over queues and tables in memory. F and a number name the
 * field report, P and a number the requirement. The test plays the worker: it reads what was sent to inboxes and reports.
 */
async function setup(options: ControlPlaneOptions & { readonly capacity?: number } = {}) {
  const plane = new ControlPlane(options);
  const { services } = plane;
  await plane.addWorker('w1', 's1', { capacity: options.capacity ?? 1_000 });
  await plane.addWorker('w2', 's2', { capacity: options.capacity ?? 1_000 });
  const { jobs, dispatches } = services;

  /** The worker says something about the last command for a dispatch. */
  async function says(type: FactReport['type'], dispatchId: string, more: object = {}): Promise<void> {
    const command = plane.sent.filter((sent) => 'dispatchId' in sent && sent.dispatchId === dispatchId).at(-1);
    if (!command || !('dispatchId' in command)) throw new Error(`no worker was sent anything about ${dispatchId}`);
    const { key, fingerprint, fence, session } = command;
    const fact = { type, key, dispatchId, fingerprint, fence, worker: `w${session.slice(1)}`, session, at: plane.now(), ...more };
    plane.report(fact as FactReport);
    await plane.rest();
  }

  return {
    plane,
    services,
    client: createPool(services.clientPorts()),
    says,
    /** Puts requests on the queue and waits until every message is consumed. */
    async request(...requests: readonly Request[]): Promise<void> {
      plane.request(...requests);
      await plane.rest();
    },
    /** A job that is up, for `d1` at `k` unless said otherwise. */
    async running(dispatchId = 'd1', more: Partial<StartRequest> = {}): Promise<void> {
      plane.request(start(dispatchId, more));
      await plane.rest();
      await says('started', dispatchId, { startedAt: plane.now() });
    },
    job: (key = 'k') => jobs.peek(key),
    outcome: (dispatchId: string) => {
      const record = dispatches.peek(dispatchId);
      return record && 'outcome' in record ? record.outcome : undefined;
    },
    end: (dispatchId: string) => {
      const record = dispatches.peek(dispatchId);
      return record?.status === 'ended' ? record.end : undefined;
    },
    starts: () => plane.sent.filter((command) => command.op === 'start'),
    /** Every byte that is stored of a key and its dispatches; `rev` changes with each write, whatever it writes. */
    async stored(key: string, ...dispatchIds: readonly string[]): Promise<string> {
      const payloads = await Promise.all(dispatchIds.map(async (id) => Buffer.from((await dispatches.payload(id)) ?? []).toString('hex')));
      return JSON.stringify([jobs.versioned(key), dispatchIds.map((id) => dispatches.peek(id)), payloads]);
    },
    deadLetters: () => services.deadRequests.messages(),
  };
}

const bytes = (text: string) => new TextEncoder().encode(text);
const start = (dispatchId: string, more: Partial<StartRequest> = {}): StartRequest => ({
  ...{ op: 'start', key: 'k', payload: bytes('p'), dispatchId, ifBusy: 'reject' },
  ...more,
});
const stop = (dispatchId?: string, key = 'k'): StopRequest => ({ op: 'stop', key, ...(dispatchId === undefined ? {} : { dispatchId }) });
const MINUTE_MS = 60_000;

describe('a start that comes again', () => {
  test('has one owner and one fence, and once it is up nothing is written and nothing sent (F1, P1)', async () => {
    const { plane, request, says, starts, stored } = await setup();
    await request(start('d1'), start('d1'));
    expect(new Set(starts().map(({ session, fence }) => `${session} ${fence}`)).size).toBe(1);
    await says('started', 'd1', { startedAt: plane.now() });

    const [before, sent] = [await stored('k', 'd1'), plane.sent.length];
    await plane.scheduler.advance(10 * MINUTE_MS);
    await request(start('d1'), start('d1'));
    expect(await stored('k', 'd1')).toBe(before);
    expect(plane.sent.length).toBe(sent);
  });

  test('after its job ended returns the retained outcome, and does not touch what runs there now (F7, P5)', async () => {
    const { plane, request, running, says, outcome, end, stored } = await setup();
    await running('d1');
    await says('finished', 'd1', { startedAt: plane.now() });
    await running('d2');
    const [before, sent] = [await stored('k', 'd1', 'd2'), plane.sent.length];
    await request(start('d1'), start('d1', { ifBusy: 'replace' }), start('d1', { ifBusy: 'next' }));
    expect(await stored('k', 'd1', 'd2')).toBe(before);
    expect(plane.sent.length).toBe(sent);
    expect([outcome('d1')?.outcome, end('d1')?.status]).toEqual(['started', 'succeeded']);
  });

  test.for(['pending', 'assigned', 'running', 'ended'] as const)(
    'with another key or payload is refused and changes nothing, its job being %s (P3, P4)',
    async (status) => {
      const { plane, request, says, job, stored } = await setup(status === 'pending' ? { capacity: 0 } : {});
      await request(start('d1'));
      if (status === 'running' || status === 'ended') await says('started', 'd1', { startedAt: plane.now() });
      if (status === 'ended') await says('finished', 'd1', { startedAt: plane.now() });
      expect(job()?.status).toBe(status);

      const [before, sent] = [await stored('k', 'd1'), plane.sent.length];
      for (const ifBusy of ['reject', 'next', 'replace'] as const) {
        await request(start('d1', { payload: bytes('other'), ifBusy }), start('d1', { key: 'another key', ifBusy }));
      }
      await request(stop('d1', 'another key'));
      expect(await stored('k', 'd1')).toBe(before);
      expect(job('another key')).toBeUndefined();
      expect(plane.sent.length).toBe(sent);
      expect(plane.counts.get('request-refused')).toBe(7);
    },
  );

  test('in a redrive while another runs there is refused once, and the other is not disturbed (F7)', async () => {
    const { plane, services, request, running, outcome, stored } = await setup();
    services.deadRequests.send({ body: encodeRequest(start('d1')), group: 'k' });
    await request(stop());
    await running('d2');
    const [before, sent] = [await stored('k', 'd2'), plane.sent.length];

    plane.redrive();
    await plane.rest();
    const refused = outcome('d1');
    expect(refused).toEqual({ outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd2', sameRequest: true } });
    const settled = await stored('k', 'd1');
    await request(start('d1'));
    expect(await stored('k', 'd1')).toBe(settled);
    expect([await stored('k', 'd2'), plane.sent.length]).toEqual([before, sent]);
  });

  test('in a redrive after it was stopped stays cancelled, and a stop for it leaves its successor alone (F7)', async () => {
    const { plane, services, request, says, running, outcome, stored } = await setup();
    await request(start('d1'), stop('d1'));
    await says('stopped', 'd1');
    await running('d2');
    const [before, sent] = [await stored('k', 'd1', 'd2'), plane.sent.length];
    for (const message of [start('d1'), stop('d1')]) services.deadRequests.send({ body: encodeRequest(message), group: 'k' });
    plane.redrive();
    await plane.rest();
    expect([await stored('k', 'd1', 'd2'), plane.sent.length]).toEqual([before, sent]);
    expect(outcome('d1')).toEqual({ outcome: 'cancelled', by: 'stop' });
  });

  test('of the same payload after a stop, all within the deduplication window of the queue, runs (F6)', async () => {
    const { plane, client, says, job, outcome } = await setup();
    await client.start('k', 'p', { dispatchId: 'd1' });
    await plane.rest();
    await says('started', 'd1', { startedAt: plane.now() });
    await client.stop('k');
    await plane.rest();
    await says('stopped', 'd1', { startedAt: plane.now() });
    await client.start('k', 'p', { dispatchId: 'd2' });
    await plane.rest();
    await says('started', 'd2', { startedAt: plane.now() });
    expect(plane.now()).toBeLessThan(1_900_000_000_000 + 5 * MINUTE_MS);
    expect(job()).toMatchObject({ status: 'running', dispatchId: 'd2' });
    expect([outcome('d1')?.outcome, outcome('d2')?.outcome]).toEqual(['started', 'started']);
  });

  test('by the thousand while the functions were away leaves one job per key and nothing to do (F49)', async () => {
    const { plane, services, starts } = await setup();
    const keys = Array.from({ length: 50 }, (_, index) => `plan/${index}`);
    for (let copy = 0; copy <= 20; copy++) for (const key of keys) plane.request(start(`of ${key}`, { key }));
    plane.scheduler.skipTo(plane.now() + 10 * MINUTE_MS);
    await plane.rest();
    expect(services.jobs.all().map(({ status }) => status)).toEqual(keys.map(() => 'assigned'));
    expect(new Set(starts().map(({ key, fence }) => `${key} ${fence}`)).size).toBe(keys.length);
    expect(services.requests.size).toBe(0);
  });
});

describe('a key that is busy', () => {
  test('refuses another start with the name of who holds it, and whether it asked for the same (F5)', async () => {
    const { request, running, outcome } = await setup();
    await running('d1');
    await request(start('d2'), start('d3', { payload: bytes('other') }));
    expect(outcome('d2')).toEqual({ outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd1', sameRequest: true } });
    expect(outcome('d3')).toEqual({ outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd1', sameRequest: false } });
  });

  test('keeps every byte of who holds it, however often others are refused there (F2, F10, P2)', async () => {
    const { plane, request, running, says, end, stored, job } = await setup();
    await running('d1');
    const before = await stored('k', 'd1');
    for (let other = 1; other <= 50; other++) await request(start(`other ${other}`));
    expect(await stored('k', 'd1')).toBe(before);
    await says('finished', 'd1', { startedAt: plane.now() });
    expect([job()?.status, end('d1')?.status]).toEqual(['ended', 'succeeded']);
  });

  test('also keeps who holds it while it is only assigned (F2, P2)', async () => {
    const { request, stored, outcome } = await setup();
    await request(start('d1'));
    const before = await stored('k', 'd1');
    await request(start('d2'), start('d3'));
    expect(await stored('k', 'd1')).toBe(before);
    expect([outcome('d2')?.outcome, outcome('d3')?.outcome]).toEqual(['refused', 'refused']);
  });

  test('has one owner whoever starts at once, also where no queue puts them in order (P14)', async () => {
    const { plane, services, starts, outcome, job } = await setup();
    const ids = Array.from({ length: 20 }, (_, index) => `d${index}`);
    const ports = services.poolPorts();
    await Promise.all(ids.map((id) => handleRequest(ports, plane.settings, start(id))));
    const holder = job()?.dispatchId as string;
    expect(ids.filter((id) => outcome(id) === undefined)).toEqual([holder]);
    for (const id of ids.filter((each) => each !== holder))
      expect(outcome(id)).toMatchObject({ reason: 'key-busy', holder: { dispatchId: holder } });

    plane.request(...ids.map((id) => start(id, { key: 'by queue', dispatchId: `${id} by queue` })));
    await plane.rest();
    expect(new Set(starts().map(({ key, dispatchId, fence }) => `${key} ${dispatchId} ${fence}`)).size).toBe(1);
  });
});

describe('a stop that races its start', () => {
  test.for(['one after the other', 'in one batch'] as const)(
    'and comes first: nothing starts, and it is cancelled (F8), %s',
    async (how) => {
      const { plane, starts, outcome, job } = await setup();
      plane.request(stop('d1'));
      if (how === 'one after the other') await plane.rest();
      plane.request(start('d1'));
      await plane.rest();
      expect(starts()).toEqual([]);
      expect(job()).toBeUndefined();
      expect(outcome('d1')).toEqual({ outcome: 'cancelled', by: 'stop' });
    },
  );

  test('and comes second, in one batch: the worker is told to, and its slot is free at once (F8)', async () => {
    const { plane, services, says, outcome, job } = await setup();
    plane.request(start('d1'), stop('d1'));
    await plane.rest();
    expect(plane.sent.map(({ op }) => op)).toEqual(['start', 'stop']);
    await says('stopped', 'd1');
    expect(job()?.status).toBe('ended');
    expect(outcome('d1')).toEqual({ outcome: 'cancelled', by: 'stop' });
    for (const worker of ['w1', 'w2']) expect((await services.jobs.ownedBy(worker)).items).toEqual([]);
  });

  test('and finds it waiting for a worker: cancelled at once, and no worker that comes later starts it (F8)', async () => {
    const { plane, starts, outcome } = await setup({ capacity: 0 });
    plane.request(start('d1'), stop('d1'));
    await plane.rest();
    expect(outcome('d1')).toEqual({ outcome: 'cancelled', by: 'stop' });
    await plane.addWorker('w3', 's3');
    await plane.scheduler.advance(MINUTE_MS);
    await plane.sweep();
    expect(starts()).toEqual([]);
  });
});

test('a stop that nobody answers is kept and repeated at every contact, until the worker says that it stopped (F41)', async () => {
  const { plane, request, running, says, job, end } = await setup();
  await running('d1');
  await request(stop('d1'));
  const stops = () => plane.sent.filter(({ op }) => op === 'stop').length;
  for (const contact of [
    () => request(stop('d1')),
    () => request(stop()),
    () => says('started', 'd1', { startedAt: plane.now() }),
    () => request(start('d2', { ifBusy: 'replace' })),
  ]) {
    const before = stops();
    await plane.scheduler.advance(60 * MINUTE_MS);
    await contact();
    expect(stops()).toBeGreaterThan(before);
    expect(job()).toMatchObject({ status: 'stopping', dispatchId: 'd1' });
  }
  await says('stop-failed', 'd1', { error: { code: 'hangs', message: 'no answer', retryable: true } });
  expect(job()?.status).toBe('stopping');
  await says('stopped', 'd1', { startedAt: 7, at: 8 });
  expect(end('d1')).toEqual({ status: 'stopped', finishedAt: 8, reason: 'stop-requested' });
});

describe('an end', () => {
  test('that is reported twice and otherwise is the first one, and is written once (F11)', async () => {
    const { running, says, end, stored } = await setup();
    await running('d1');
    await says('finished', 'd1', { startedAt: 7, at: 8, result: 'first' });
    const before = await stored('k', 'd1');
    await says('finished', 'd1', { startedAt: 7, at: 9, error: { code: 'boom', message: 'second', retryable: false } });
    await says('stopped', 'd1', { startedAt: 7, at: 9 });
    expect(await stored('k', 'd1')).toBe(before);
    expect(end('d1')).toEqual({ status: 'succeeded', finishedAt: 8, result: 'first' });
  });

  test('is not undone by a handler that comes back under a fence that was passed: it is told to stop (F27, F36)', async () => {
    const { plane, services, request, running, says, job, stored } = await setup();
    await running('d1');
    const [first] = plane.sent;
    const old = services.workers.all().find(({ session }) => session === first?.session);
    if (!first || !old) throw new Error('nothing was sent');
    // Its row is gone with its lease, and the job moves on.
    services.workers.delete(old.workerId);
    await request({ op: 'assign', key: 'k' });
    await says('started', 'd1', { startedAt: plane.now() });
    const owner = job();
    expect(owner).toMatchObject({ status: 'running' });
    expect(owner && isOwned(owner) ? owner.owner.session : undefined).not.toBe(first.session);

    const before = await stored('k', 'd1');
    const { key, fingerprint, fence, session } = first as Extract<typeof first, { op: 'start' }>;
    const late = { key, dispatchId: 'd1', fingerprint, fence, worker: old.workerId, session, at: plane.now(), startedAt: 7 };
    plane.report({ type: 'started', ...late }, { type: 'finished', ...late });
    await plane.rest();
    expect(await stored('k', 'd1')).toBe(before);
    expect(plane.sent.at(-1)).toMatchObject({ op: 'stop', session, fence });
  });
});

test('thirty starts at once for the same workers all start, though every first write meets a conflict (F13)', async () => {
  const met = new Set<string>();
  const conflicts: Network = {
    fate: ({ service, method, args }: Call) => {
      const { key, dispatchId } = (args[0] ?? {}) as { readonly key?: string; readonly dispatchId?: string };
      const write = `${service}.${method} ${key} ${dispatchId}`;
      const isFirst = ['jobs.commit', 'dispatches.admit', 'dispatches.change'].includes(`${service}.${method}`) && !met.has(write);
      if (isFirst) met.add(write);
      return { delayMs: 0, fault: isFirst ? 'conflict' : undefined };
    },
  };
  const { plane, says, outcome, deadLetters } = await setup({ network: conflicts });
  const ids = Array.from({ length: 30 }, (_, index) => `d${index}`);
  plane.request(...ids.map((id) => start(id, { key: `key of ${id}` })));
  await plane.rest();
  for (const id of ids) await says('started', id, { startedAt: 7 });
  expect(ids.map(outcome)).toEqual(ids.map(() => ({ outcome: 'started', at: 7 })));
  expect(deadLetters()).toEqual([]);
  expect(met.size).toBe(3 * ids.length);
});

test('a message that fails for now holds up its own key and no other, and its key stays in order (F15)', async () => {
  let isOut = true;
  const network: Network = {
    fate: ({ method, args }: Call) => ({ delayMs: 0, fault: isOut && method === 'get' && args[0] === 'k' ? 'throttled' : undefined }),
  };
  const { plane, job, outcome } = await setup({ network });
  plane.request(start('d1'), stop('d1'), start('d2', { key: 'm' }));
  while (job('m') === undefined && (await plane.scheduler.step()));
  await plane.scheduler.settle();
  expect([job('m')?.status, job('k'), outcome('d1')]).toEqual(['assigned', undefined, undefined]);
  isOut = false;
  await plane.rest();
  expect(plane.sent.filter((command) => 'key' in command && command.key === 'k').map(({ op }) => op)).toEqual(['start', 'stop']);
});

describe('a body that cannot be read', () => {
  const poison: readonly (readonly [string, string])[] = [
    ['not json', 'not json'],
    ['an empty object', '{}'],
    ['a list', '[]'],
    ['null', 'null'],
    ['a version to come', '{"v":99}'],
    ['an unknown operation', '{"v":1,"op":"explode","key":"k"}'],
    ['a byte more than a message may have', JSON.stringify({ v: 1, op: 'stop', key: 'k', more: '' }).padEnd(1_048_577)],
  ];

  test('is refused once with a reason and kept, and its neighbours of the same key and of others are handled (F20)', async () => {
    const { plane, job, deadLetters } = await setup();
    plane.request(start('d1'), start('d2', { key: 'm' }));
    for (const [, body] of poison) plane.deliver(body, 'k');
    plane.request(stop('d1'), stop('d2', 'm'));
    await plane.rest();
    expect(deadLetters().map(({ body }) => body)).toEqual(poison.map(([, body]) => body));
    for (const { attributes } of deadLetters()) expect(attributes?.reason).toMatch(/^[a-z]+ .+/);
    expect([job('k')?.status, job('m')?.status]).toEqual(['stopping', 'stopping']);
    expect(plane.counts.get('dead-lettered')).toBe(poison.length);
  });

  test.for(poison)('among reports is refused once and kept: %s (F20)', async ([, body]) => {
    const { plane, services, request, job } = await setup();
    await request(start('d1'));
    const { session, fence, fingerprint } = plane.sent[0] as Extract<(typeof plane.sent)[number], { op: 'start' }>;
    services.reports.send({ body });
    const fact = { key: 'k', dispatchId: 'd1', fingerprint, fence, worker: `w${session.slice(1)}`, session, at: 7 };
    plane.report({ type: 'started', ...fact, startedAt: 7 });
    await plane.rest();
    expect(services.deadReports.messages().map((message) => message.body)).toEqual([body]);
    expect(job()?.status).toBe('running');
  });

  test('tells whoever waits for the dispatch that it names', async () => {
    const { plane, outcome } = await setup();
    plane.deliver('{"v":1,"op":"start","key":"k","payload":"p","dispatchId":"d1","ifbusy":"next"}', 'k');
    await plane.rest();
    expect(outcome('d1')).toEqual({ outcome: 'refused', reason: 'invalid' });
  });

  test('does not settle a dispatch that is there already', async () => {
    const { plane, request, running, stored } = await setup();
    await running('d1');
    await request(start('d2', { ifBusy: 'next' }));
    const before = await stored('k', 'd1', 'd2');
    for (const id of ['d1', 'd2']) plane.deliver(`{"v":1,"op":"start","key":"k","dispatchId":"${id}"}`, 'k');
    await plane.rest();
    expect(await stored('k', 'd1', 'd2')).toBe(before);
  });

  test('of a version to come is kept whole for who can read it, and not recorded as refused (P17)', async () => {
    const { plane, outcome, deadLetters } = await setup();
    const body = '{"v":2,"op":"start","key":"k","payload":"p","dispatchId":"d1"}';
    plane.deliver(body, 'k');
    await plane.rest();
    expect(deadLetters()).toMatchObject([{ body, attributes: { reason: expect.stringContaining('"v" is 2') } }]);
    expect(outcome('d1')).toBeUndefined();
  });
});

test('a message that cannot be handled yet is given up only after its last receive, and then lets its key go on (F19)', async () => {
  const { plane, services, deadLetters } = await setup();
  await plane.putDispatch(
    { status: 'started', dispatchId: 'd1', key: 'k', fingerprint: 'f', fence: 1, requestedAt: 1, outcome: { outcome: 'started', at: 1 } },
    bytes('p'),
  );
  plane.request(stop('d1'), start('d2'));
  await plane.rest();
  expect(plane.rules.filter((rule) => rule === 'stop of a missing record')).toHaveLength(LAST_RECEIVE);
  expect(deadLetters()).toMatchObject([{ attributes: { reason: expect.stringContaining('"d1"') } }]);
  expect(services.jobs.peek('k')).toMatchObject({ dispatchId: 'd2' });
});

describe('keys', () => {
  const awkward = [
    ...[
      'a#b',
      'a',
      '#b',
      'b',
      'a/b',
      'x/y',
      '..',
      '.',
      '=',
      ':',
      ',',
      '"',
      '\\',
      '\n',
      '\r\n',
      '\0',
      '\t',
      ' ',
      '  ',
      '-',
      '0',
      '00',
      '123',
    ],
    ...[
      'null',
      '__proto__',
      'constructor',
      '{}',
      '[]',
      '\u00e9',
      'e\u0301',
      '\u0634\u0645\u0633',
      '\u{1f600}',
      '\u{1f468}\u200d\u{1f469}',
      '\ufeff',
    ],
    ...['\u2028', 'job#k', 'message 1', 'k'.repeat(1_024), `${'k'.repeat(1_022)}\u00e9`, '\u{1f600}'.repeat(256)],
  ];

  /** Start, command, report, stop, report: what the worker reads is parsed from its inbox. */
  async function live(keys: readonly string[]) {
    const { plane, services } = await setup();
    const idOf = (key: string) => `dispatch ${keys.indexOf(key)}`;
    plane.request(...keys.map((key) => start(idOf(key), { key, payload: bytes(key) })));
    await plane.rest();
    const inboxes = ['s1', 's2'].flatMap((session) => services.inboxes.queue(session)?.messages() ?? []);
    const commands = inboxes.flatMap(({ body }) => {
      const parsed = parseCommand(body);
      return parsed.ok && parsed.value.op === 'start' ? [parsed.value] : [];
    });
    for (const { key, dispatchId, fingerprint, fence, session } of commands) {
      const fact = { key, dispatchId, fingerprint, fence, worker: `w${session.slice(1)}`, session };
      plane.report({ type: 'started', ...fact, startedAt: 7, at: 7 });
      await plane.rest();
      plane.report({ type: 'finished', ...fact, startedAt: 7, at: 8 });
    }
    await plane.rest();
    return { services, commands, idOf };
  }

  async function expectDistinct(keys: readonly string[]): Promise<void> {
    const { services, commands, idOf } = await live(keys);
    expect(commands.map(({ key }) => key).sort()).toEqual([...keys].sort());
    for (const command of commands) {
      expect(command.dispatchId).toBe(idOf(command.key));
      expect(Buffer.from(command.payload).toString()).toBe(command.key);
    }
    for (const key of keys) {
      expect(services.jobs.peek(key)).toMatchObject({ key, dispatchId: idOf(key), status: 'ended' });
      expect(services.dispatches.peek(idOf(key))).toMatchObject({ key, end: { status: 'succeeded', finishedAt: 8 } });
    }
    expect(services.jobs.all()).toHaveLength(keys.length);
  }

  test('of every awkward kind work end to end and stay apart (F22)', async () => {
    await expectDistinct(awkward);
  });

  test('whatever they are, work end to end and stay apart (F22)', async () => {
    const key = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 });
    await fc.assert(fc.asyncProperty(fc.uniqueArray(key, { minLength: 2, maxLength: 12 }), expectDistinct), { numRuns: 25 });
  });

  test.for([
    ['empty', ''],
    ['a byte too long', 'k'.repeat(1_025)],
    ['twice as long', 'k'.repeat(2_048)],
    ['a byte too long in UTF-8', '\u00e9'.repeat(513)],
    ['a lone surrogate', '\ud800'],
  ] as const)('are refused before they are sent, and by their reader, with one clear error: %s (F18, F22)', async ([, key]) => {
    const { plane, client, services, deadLetters } = await setup();
    await expect(client.start(key, 'p')).rejects.toMatchObject({ code: 'invalid-request' });
    expect(() => encodeRequest(start('d1', { key }))).toThrow(WireError);
    expect(services.requests.size).toBe(0);

    plane.deliver(JSON.stringify({ v: 1, op: 'start', key, payload: 'p', dispatchId: 'd1' }), 'k');
    await plane.rest();
    expect(deadLetters()).toMatchObject([{ attributes: { reason: expect.stringMatching(/^field "key" .* 1 to 1024 bytes/) } }]);
    expect(services.jobs.all()).toEqual([]);
  });
});

describe('payloads and numbers', () => {
  test.for([
    ['an integer that no double holds', bytes('{"id":12345678901234567890}')],
    ['nothing', bytes('')],
    ['NUL', new Uint8Array(2_049)],
    ['no UTF-8', Uint8Array.of(0xff, 0xfe, 0x80)],
    ['a byte order mark', Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)],
    ['the largest', new Uint8Array(262_144).fill(0xfb)],
  ] as const)('reach the worker byte for byte: %s (F24)', async ([, payload]) => {
    const { services, request, starts } = await setup();
    await request(start('d1', { payload }));
    const body = services.inboxes.queue(starts()[0]?.session ?? '')?.messages()[0]?.body ?? '';
    expect(body).toMatch(/^[\x20-\x7e]*$/);
    const parsed = parseCommand(body);
    expect(parsed.ok && parsed.value.op === 'start' && Buffer.compare(parsed.value.payload, payload)).toBe(0);
  });

  test('that are too large are refused before they are sent, and by their reader (F18)', async () => {
    const { plane, client, services, outcome, deadLetters } = await setup();
    await expect(client.start('k', new Uint8Array(262_145))).rejects.toMatchObject({ code: 'invalid-request' });
    expect(services.requests.size).toBe(0);
    plane.deliver(JSON.stringify({ v: 1, op: 'start', key: 'k', payload: 'p'.repeat(262_145), dispatchId: 'd1' }), 'k');
    await plane.rest();
    expect(outcome('d1')).toEqual({ outcome: 'refused', reason: 'invalid' });
    expect(deadLetters()).toHaveLength(1);
  });

  test('fences are exact integers to the end of time, and rise when the clock goes back (F24)', async () => {
    const { plane, request, starts, services } = await setup({ startsAt: 8_639_999_999_000_000 });
    await request(start('d1'));
    const [first] = starts();
    expect(Number.isSafeInteger(first?.fence)).toBe(true);
    // A record whose fence is ahead of this function's clock.
    const job = services.jobs.peek('k') as Job;
    const ahead = plane.now() + 10 * MINUTE_MS;
    await plane.putJob({ ...job, fence: ahead });
    await request({ op: 'move', key: 'k', fence: ahead });
    const { dispatchId, fingerprint, key } = job;
    const session = first?.session ?? '';
    plane.report({ type: 'released', key, dispatchId, fingerprint, fence: ahead, worker: `w${session.slice(1)}`, session, at: 7 });
    await plane.rest();
    expect(starts().at(-1)?.fence).toBe(ahead + 1);
    // And a dispatch that a delivery put under such a fence, and died.
    const admitted = { key: 'm', dispatchId: 'd2', fingerprint: fingerprintOf('m', bytes('p')), fence: ahead, requestedAt: 1 };
    await plane.putDispatch({ status: 'admitted', ...admitted }, bytes('p'));
    await request(start('d2', { key: 'm' }));
    expect(starts().at(-1)).toMatchObject({ dispatchId: 'd2', fence: ahead + 1 });
  });
});

test('who asks right after a start is told who owns it, five hundred times, with every index and list far behind (F26)', async () => {
  const { plane, client, request } = await setup();
  await plane.unlisted(async () => {
    for (let i = 0; i < 500; i++) {
      await request(start(`d${i}`, { key: `k${i}` }));
      expect(await client.describe(`k${i}`)).toMatchObject({ status: 'assigned', dispatchId: `d${i}` });
    }
  });
});

test('while no worker has room the sweep enqueues nothing, and each job gets its turn once when one comes (F49)', async () => {
  const { plane, services, request, starts } = await setup({ capacity: 0 });
  const keys = Array.from({ length: 50 }, (_, index) => `k${index}`);
  await request(...keys.map((key) => start(`of ${key}`, { key })));
  const decided = plane.rules.length;
  for (let minute = 0; minute < 10; minute++) {
    await plane.scheduler.advance(MINUTE_MS);
    await plane.sweep();
  }
  expect(plane.rules.length).toBe(decided);
  await plane.addWorker('w3', 's3', { capacity: 30 });
  await plane.sweep();
  expect(starts().map(({ key }) => key)).toEqual(keys.slice(0, 30));
  expect(services.jobs.all().filter(({ status }) => status === 'pending')).toHaveLength(20);
});
