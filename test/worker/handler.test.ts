import * as v from 'valibot';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { defineHandler, type Handler, type Job, type Raw, RetryableError, StoppingError } from '../../lib/worker/handler.ts';
import { type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

function start(payload: Uint8Array, fence = 5): SentCommand {
  return { op: 'start', key: 'k', dispatchId: 'd1', fingerprint: fingerprintOf('k', payload), payload, fence, attempt: 2 };
}

function stop(fence = 5): SentCommand {
  return { op: 'stop', key: 'k', dispatchId: 'd1', fingerprint: fingerprintOf('k', bytes('{}')), fence, reason: 'stop-requested' };
}

async function running(handler: Handler, payload: Uint8Array = bytes('{}')): Promise<WorkerStage> {
  const stage = await WorkerStage.registered({ handler });
  await stage.send(start(payload));
  return stage;
}

const schemas = {
  zod: { payload: z.object({ url: z.url(), every: z.coerce.date() }), notification: z.object({ rate: z.number() }) },
  valibot: {
    payload: v.object({
      url: v.pipe(v.string(), v.url()),
      every: v.pipe(
        v.string(),
        v.transform((text) => new Date(text)),
      ),
    }),
    notification: v.object({ rate: v.number() }),
  },
};

for (const [library, { payload, notification }] of Object.entries(schemas)) {
  test(`a payload reaches the handler as the schema of ${library} gives it, transformed`, async () => {
    const jobs: { readonly url: string; readonly every: Date }[] = [];
    const handler = defineHandler({
      payload: payload as typeof schemas.zod.payload,
      start(job) {
        jobs.push(job.payload);
        return { stop() {} };
      },
    });
    const stage = await running(handler, bytes('{"url":"https://feeds.example/17","every":"2030-01-01T00:00:00.000Z","more":1}'));
    expect(stage.of('started')).toHaveLength(1);
    expect(jobs).toEqual([{ url: 'https://feeds.example/17', every: new Date('2030-01-01T00:00:00.000Z') }]);
  });

  test(`a payload that the schema of ${library} refuses never reaches the handler, and ends the start for good, with the issues`, async () => {
    let calls = 0;
    const handler = defineHandler({
      payload: payload as typeof schemas.zod.payload,
      start() {
        calls += 1;
        return { stop() {} };
      },
    });
    for (const bad of ['{"url":"no url","every":"2030-01-01"}', '{}', 'null', '[]', 'not json', '']) {
      const stage = await running(handler, bytes(bad));
      expect(stage.of('start-failed'), bad).toMatchObject([{ error: { code: 'invalid-payload', retryable: false } }]);
    }
    const stage = await running(handler, new Uint8Array([0xff, 0xfe]));
    expect(stage.of('start-failed')).toMatchObject([{ error: { code: 'invalid-payload', message: 'is not JSON' } }]);
    expect(calls).toBe(0);
  });

  test(`notifications reach it as the schema of ${library} gives them; one that it refuses is told and counted, and the job goes on`, async () => {
    const rates: [number, string][] = [];
    const handler = defineHandler({
      notification: notification as typeof schemas.zod.notification,
      start: () => ({ stop() {}, notify: ({ rate }, id) => void rates.push([rate, id]) }),
    });
    const stage = await running(handler);
    const notify = (id: string, text: string): SentCommand => ({ op: 'notify', key: 'k', fence: 5, id, payload: bytes(text) });
    await stage.send(notify('n1', '{"rate":5}'), notify('n2', '{"rate":"fast"}'), notify('n3', '{"rate":6}'));
    expect(rates).toEqual([
      [5, 'n1'],
      [6, 'n3'],
    ]);
    expect(stage.eventsOf('notify-failed')).toMatchObject([{ id: 'n2', key: 'k', error: { code: 'invalid-notification' } }]);
    expect(stage.worker.health.jobs).toBe(1);
  });
}

test('without a schema the bytes are there as they were sent', async () => {
  const seen: Raw[] = [];
  const handler = defineHandler({
    start: ({ payload }) => {
      seen.push(payload);
      return { stop() {} };
    },
  });
  await running(handler, new Uint8Array([0, 255, 10]));
  await running(handler, bytes('\uFEFF{"n":12345678901234567890}'));
  expect(seen[0]?.bytes).toEqual(new Uint8Array([0, 255, 10]));
  expect(() => seen[0]?.text()).toThrow();
  expect(seen[1]?.text()).toBe('\uFEFF{"n":12345678901234567890}');
});

test('types: the payload is what the schema puts out; both of start and run, or neither, does not compile', () => {
  defineHandler({
    payload: schemas.zod.payload,
    run: async (job) => {
      expectTypeOf(job.payload).toEqualTypeOf<{ url: string; every: Date }>();
      expectTypeOf(job.signal).toEqualTypeOf<AbortSignal>();
    },
  });
  defineHandler({ run: async (job) => expectTypeOf(job.payload).toEqualTypeOf<Raw>() });
  // @ts-expect-error: neither
  expect(() => defineHandler({})).toThrow();
  // @ts-expect-error: both
  defineHandler({ start: () => ({ stop() {} }), run: async () => {} });
});

test('a job knows key, dispatch, attempt and its fence as it rises; its log lines carry them', async () => {
  let job: Job<Raw> | undefined;
  const handler = defineHandler({
    start(given) {
      job = given;
      return { stop() {} };
    },
  });
  const stage = await running(handler);
  expect(job).toMatchObject({ key: 'k', dispatchId: 'd1', attempt: 2, fence: 5 });
  await stage.send(start(bytes('{}'), 8));
  expect(job?.fence).toBe(8);
  job?.log.info('moved on', { line: 3 });
  expect(stage.log).toContainEqual({ level: 'info', message: 'moved on', fields: { key: 'k', dispatchId: 'd1', fence: 8, line: 3 } });
});

test('a run is up once it was called, and stops when its signal says so, however it settles then', async () => {
  for (const settle of ['returns', 'throws the reason', 'throws something else'] as const) {
    const reasons: unknown[] = [];
    const handler = defineHandler({
      run: (job) =>
        new Promise((resolve, reject) => {
          job.signal.addEventListener('abort', () => {
            reasons.push(job.signal.reason);
            if (settle === 'returns') resolve('late result');
            else reject(settle === 'throws the reason' ? job.signal.reason : new Error('half a line'));
          });
        }),
    });
    const stage = await running(handler);
    expect(stage.of('started')).toHaveLength(1);
    await stage.send(stop());
    expect(stage.of('stopped'), settle).toMatchObject([{ reason: 'stop-requested', startedAt: expect.any(Number) }]);
    expect(stage.of('finished')).toEqual([]);
    expect(reasons).toEqual([expect.any(StoppingError)]);
    expect(reasons).toMatchObject([{ reason: 'stop-requested', mayWrite: true }]);
  }
});

test('the signal of a run fires when the job is lost, and what it does then is not its own end', async () => {
  let lost: AbortSignal | undefined;
  const handler = defineHandler({
    run: (job) =>
      new Promise<void>((resolve) => {
        lost = job.lost;
        job.signal.addEventListener('abort', () => resolve());
      }),
  });
  const stage = await running(handler);
  stage.end('revoked');
  await stage.advance(10_000);
  expect(lost?.aborted).toBe(true);
  expect(stage.of('finished')).toEqual([]);
  expect(stage.of('released')).toMatchObject([{ fence: 5 }]);
});

test('lost does not fire for an ordinary stop', async () => {
  let lost: AbortSignal | undefined;
  const handler = defineHandler({
    start(job) {
      lost = job.lost;
      return { stop() {} };
    },
  });
  const stage = await running(handler);
  await stage.send(stop());
  expect(stage.of('stopped')).toHaveLength(1);
  expect(lost?.aborted).toBe(false);
});

test('a run that throws before its first await has started and failed', async () => {
  const handler = defineHandler({
    run() {
      throw new Error('at once');
    },
  });
  const stage = await running(handler);
  expect(stage.reports.map(({ type }) => type).toSorted()).toEqual(['finished', 'registered', 'started']);
  expect(stage.of('finished')).toMatchObject([{ error: { message: 'at once', retryable: false } }]);
});

test('a RetryableError from start, from done and from run asks for another try, with its wish for the time until then', async () => {
  const offline = () => new RetryableError('device offline', { cause: new Error('ECONNREFUSED'), retryAfterMs: 5_000.4 });
  const error = { code: 'RetryableError', message: 'device offline', retryable: true, retryAfterMs: 5_000 };
  const start = await running(defineHandler({ start: () => Promise.reject(offline()) }));
  expect(start.of('start-failed')).toMatchObject([{ error }]);
  const done = await running(defineHandler({ start: () => ({ done: Promise.reject(offline()), stop() {} }) }));
  expect(done.of('finished')).toMatchObject([{ error }]);
  const run = await running(defineHandler({ run: () => Promise.reject(offline()) }));
  expect(run.of('finished')).toMatchObject([{ error }]);
});

test('a wish that is no time counts as none (F37)', () => {
  for (const retryAfterMs of [-1, Number.NaN, undefined, null, '', '5', {}]) {
    expect(new RetryableError('x', { retryAfterMs: retryAfterMs as number }).retryAfterMs).toBeUndefined();
  }
  expect(new RetryableError('x', { retryAfterMs: 0 }).retryAfterMs).toBe(0);
  expect(new RetryableError('x', { retryAfterMs: 1e12 }).retryAfterMs).toBe(1e12);
  expect(new RetryableError('x', { retryAfterMs: Number.POSITIVE_INFINITY }).retryAfterMs).toBe(Number.MAX_SAFE_INTEGER);
});

test('whatever is thrown can be reported', async () => {
  const thrown: [unknown, object][] = [
    ['text', { code: 'Error', message: 'text' }],
    [undefined, { code: 'Error', message: 'undefined' }],
    [Object.create(null), { code: 'Error', message: 'a object without text was thrown' }],
    [Object.assign(new Error('no such file'), { code: 'ENOENT' }), { code: 'ENOENT', message: 'no such file' }],
    [Object.assign(new Error('odd'), { code: 7, name: 'white space' }), { code: 'Error', message: 'odd' }],
    [Object.assign(new Error(''), { message: { not: 'text' } }), { code: 'Error' }],
    [new Error('\ud800 lone'), { message: '\ufffd lone' }],
    [new Error('é'.repeat(200)), { message: `${'é'.repeat(126)}…` }],
  ];
  for (const [error, expected] of thrown) {
    const stage = await running(defineHandler({ start: () => Promise.reject(error) }));
    expect(stage.of('start-failed')[0]?.error).toMatchObject({ retryable: false, ...expected });
  }
});

test('what done resolves to is kept as result where it is JSON of at most 1 KiB; a larger one is left out and said so', async () => {
  const results: [unknown, object][] = [
    [{ lines: 3 }, { result: { lines: 3 } }],
    [null, { result: null }],
    [undefined, {}],
    ['x'.repeat(1_022), { result: 'x'.repeat(1_022) }],
    ['x'.repeat(1_023), { resultOmitted: true }],
    [12n, { resultOmitted: true }],
    [new Date(0), { result: '1970-01-01T00:00:00.000Z' }],
  ];
  for (const [value, expected] of results) {
    const stage = await running(defineHandler({ run: async () => value }));
    const [finished] = stage.of('finished');
    const { result, resultOmitted } = finished ?? {};
    expect({ ...(result !== undefined && { result }), ...(resultOmitted && { resultOmitted }) }).toEqual(expected);
  }
});

test('a result is what it was when the job ended, also where the report is sent later', async () => {
  const result = { lines: ['a'] };
  const end = Promise.withResolvers<unknown>();
  const stage = await running(defineHandler({ start: () => ({ done: end.promise, stop() {} }) }));
  stage.cutOff = new Set(['reports']);
  end.resolve(result);
  await stage.advance(1_000);
  result.lines.push('x'.repeat(2_000));
  stage.cutOff = new Set();
  await stage.advance(60_000);
  expect(stage.of('finished')).toMatchObject([{ result: { lines: ['a'] } }]);
});

test('a start that returns no stop is told what is missing', async () => {
  const stage = await running(defineHandler({ start: (() => undefined) as never }));
  expect(stage.of('start-failed')).toMatchObject([
    { error: { code: 'TypeError', message: 'start must return an object with a function stop' } },
  ]);
});

test('methods of a handler and of what it returns keep their this', async () => {
  class Device {
    stopped = 0;
    heard: string[] = [];
    stop() {
      this.stopped += 1;
    }
    notify(payload: Raw) {
      this.heard.push(payload.text());
    }
  }
  const device = new Device();
  const options = { device, start: () => device };
  const stage = await running(defineHandler(options));
  await stage.send({ op: 'notify', key: 'k', fence: 5, id: 'n', payload: bytes('hello') }, stop());
  expect(device).toMatchObject({ stopped: 1, heard: ['hello'] });
});
