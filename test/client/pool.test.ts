import * as v from 'valibot';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { PoolError } from '../../lib/pool/errors.ts';
import { fingerprintOf, maxPayloadBytes, type StartRequest } from '../../lib/wire/index.ts';
import {
  anAdmittedDispatch,
  anAssignedJob,
  anEndedJob,
  aPendingJob,
  aRunningJob,
  aStoppingJob,
  NOW,
  type Setup,
  setup,
} from '../support/client.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const payloadsOf = ({ sent }: Setup) => sent().map((request) => (request as StartRequest).payload);
const denied = new PoolError('not-permitted', 'AccessDeniedException', { retryable: false });

test('a start names its dispatch before anything is sent, and asks to be refused at a busy key', async () => {
  const { pool, sent } = setup();
  const dispatch = await pool.start('k', 'p');
  expect(dispatch.dispatchId).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
  expect(sent()).toEqual([{ op: 'start', key: 'k', payload: bytes('p'), dispatchId: dispatch.dispatchId, ifBusy: 'reject' }]);
});

test('start, stop and start again of the same payload are two dispatches, and all three reach the queue (F6)', async () => {
  const { pool, sent } = setup();
  const first = await pool.start('k', 'p');
  await pool.stop('k');
  const second = await pool.start('k', 'p');
  expect(sent().map(({ op }) => op)).toEqual(['start', 'stop', 'start']);
  expect(second.dispatchId).not.toBe(first.dispatchId);
});

test('the same start sent twice reaches the queue twice: only the pool may tell repeats from conflicts (F6)', async () => {
  const { pool, sent } = setup();
  await pool.start('k', 'p', { dispatchId: 'd1' });
  await pool.start('k', 'p', { dispatchId: 'd1' });
  expect(sent()).toHaveLength(2);
});

test('all terms of a start are sent', async () => {
  const { pool, sent } = setup();
  await pool.start('k', 'p', { dispatchId: 'd1', ifBusy: 'replace', expiresAt: new Date(NOW + 5) });
  await pool.start('k', 'p', { dispatchId: 'd2', ifBusy: 'next', expiresAt: NOW + 6 });
  expect(sent()).toMatchObject([
    { dispatchId: 'd1', ifBusy: 'replace', expiresAt: NOW + 5 },
    { dispatchId: 'd2', ifBusy: 'next', expiresAt: NOW + 6 },
  ]);
});

test('without a schema bytes go as they are, a string as UTF-8, other values as JSON with sorted keys', async () => {
  const world = setup();
  const raw = Uint8Array.of(0, 255, 10);
  for (const payload of [raw, '', 'é', { b: 1, a: [true, null] }, 17, null]) await world.pool.start('k', payload);
  expect(payloadsOf(world)).toEqual([raw, bytes(''), bytes('é'), bytes('{"a":[true,null],"b":1}'), bytes('17'), bytes('null')]);
});

test('with a schema the input is checked and sent as JSON, so that transforms run once, at the worker', async () => {
  const payload = z.object({ url: z.url(), at: z.string().transform((text) => new Date(text)), retries: z.number().default(3) });
  const world = setup({ payload });
  await world.pool.start('k', { url: 'https://feeds.example/17', at: '2030-01-01' });
  expect(payloadsOf(world)).toEqual([bytes('{"at":"2030-01-01","url":"https://feeds.example/17"}')]);
});

test('the same value is the same request, in whatever order its keys were written', async () => {
  const world = setup({ payload: v.object({ a: v.number(), b: v.number() }) });
  await world.pool.start('k', { a: 1, b: 2 });
  await world.pool.start('k', { b: 2, a: 1 });
  const [one, other] = payloadsOf(world) as [Uint8Array, Uint8Array];
  expect(fingerprintOf('k', one)).toBe(fingerprintOf('k', other));
});

test('a payload that its schema refuses is not sent, and the error says where it is wrong', async () => {
  const { pool, sent } = setup({ payload: z.object({ feeds: z.array(z.object({ url: z.url() })) }) });
  const start = pool.start('k', { feeds: [{ url: 'https://feeds.example' }, { url: 'nowhere' }] });
  await expect(start).rejects.toMatchObject({ code: 'invalid-request', retryable: false });
  await expect(start).rejects.toThrow('the payload does not fit its schema: feeds.1.url: Invalid URL');
  expect(sent()).toEqual([]);
});

test('a payload that would not be the same at the worker is refused here, not there', async () => {
  const { pool } = setup({ payload: z.object({ at: z.date() }) });
  await expect(pool.start('k', { at: new Date(NOW) })).rejects.toThrow('at: Invalid input: expected date');
});

test('a schema may take its time', async () => {
  const world = setup({ payload: z.string().refine(async (text) => text !== 'no') });
  await world.pool.start('k', 'yes');
  await expect(world.pool.start('k', 'no')).rejects.toMatchObject({ code: 'invalid-request' });
  expect(payloadsOf(world)).toEqual([bytes('"yes"')]);
});

test.each([
  ['an empty key', { key: '' }, 'start(): field "key" is empty'],
  ['a key too long', { key: 'é'.repeat(513) }, 'start(): field "key" is 1026 bytes of UTF-8'],
  ['half a character in the key', { key: '\ud800' }, 'start(): field "key" holds a lone surrogate'],
  ['no key', { key: undefined as unknown as string }, 'start(): field "key" is missing'],
  ['an empty dispatch id', { dispatchId: '' }, 'start(): field "dispatchId" is empty'],
  ['a dispatch id too long', { dispatchId: 'd'.repeat(129) }, 'start(): field "dispatchId" is 129 bytes'],
  ['an unknown ifBusy', { ifBusy: 'wait' as 'next' }, 'start(): field "ifBusy" is "wait"; allowed: one of reject, next, replace'],
  ['no date', { expiresAt: new Date('soon') }, 'start(): field "expiresAt" is NaN'],
  ['a date as text', { expiresAt: '2030-01-01' as unknown as Date }, 'start(): field "expiresAt" is "2030-01-01"'],
  ['a negative time', { expiresAt: -1 }, 'start(): field "expiresAt" is -1'],
  ['half a character in the payload', { payload: '\ud800' }, 'the payload holds a lone surrogate'],
  ['a payload too large', { payload: new Uint8Array(maxPayloadBytes + 1) }, 'start(): field "payload" is 262145 bytes'],
  ['a payload that is no JSON', { payload: { id: 1n } }, 'start(): field "payload.id" is a bigint'],
  ['no payload', { payload: undefined as unknown as string }, 'start(): field "payload" is undefined'],
])('%s is refused before anything is sent, and the error names the field and the fact', async (_, wrong, message) => {
  const { pool, calls } = setup();
  const { key, payload, ...terms } = { key: 'k', payload: 'p' as string | object, ...wrong };
  const start = pool.start(key, payload, terms);
  await expect(start).rejects.toBeInstanceOf(PoolError);
  await expect(start).rejects.toMatchObject({ code: 'invalid-request', message: expect.stringContaining(message) });
  expect(calls).toEqual([]);
});

test('each method names the grant that is missing, and keeps what the service said', async () => {
  const { pool, intercepts, reached } = setup();
  const refuse = () => Promise.reject(denied);
  for (const method of ['send', 'jobs', 'workers', 'pendingKeys', 'dispatches']) intercepts[method] = refuse;
  const first = (items: AsyncIterable<unknown>) => items[Symbol.asyncIterator]().next();
  const failing: readonly (readonly [() => Promise<unknown>, string])[] = [
    [() => pool.start('k', 'p'), 'start() needs grantProduce'],
    [() => pool.stop('k'), 'stop() needs grantProduce'],
    [() => pool.notify('k', 'n'), 'notify() needs grantProduce'],
    [() => pool.describe('k'), 'describe() needs grantObserve'],
    [() => first(pool.list()), 'list() needs grantObserve'],
    [() => first(pool.workers()), 'workers() needs grantObserve'],
    [() => pool.ensure('k', 'p', { timeoutMs: 1_000 }), 'ensure() needs grantObserve'],
  ];
  for (const [call, message] of failing)
    await expect(reached(call())).rejects.toMatchObject({ message: `${message}; AccessDeniedException`, cause: denied });
  intercepts.jobs = undefined;
  await expect(reached(pool.ensure('k', 'p', { timeoutMs: 1_000 }))).rejects.toThrow('ensure() needs grantProduce');
});

test('credentials that have expired are not taken for a missing grant', async () => {
  const { pool, intercepts } = setup();
  const expired = new PoolError('not-permitted', 'ExpiredToken', { retryable: true });
  intercepts.send = () => Promise.reject(expired);
  await expect(pool.start('k', 'p')).rejects.toBe(expired);
});

test('a request that its queue did not take throws why', async () => {
  const { pool, intercepts } = setup();
  const throttled = new PoolError('throttled', 'slow down', { retryable: true });
  intercepts.send = () => Promise.resolve([throttled]);
  await expect(pool.start('k', 'p')).rejects.toBe(throttled);
  await expect(pool.stop('k')).rejects.toBe(throttled);
});

test('an abort ends the waiting for the queue with its own reason', async () => {
  const { pool, intercepts } = setup();
  intercepts.send = () => new Promise(() => {});
  const abort = new AbortController();
  const start = pool.start('k', 'p', { signal: abort.signal });
  abort.abort(new Error('never mind'));
  await expect(start).rejects.toThrow('never mind');
});

test('nothing is sent under a signal that has fired', async () => {
  const { pool, calls } = setup();
  const signal = AbortSignal.abort(new Error('never mind'));
  await expect(pool.start('k', 'p', { signal })).rejects.toThrow('never mind');
  await expect(pool.stop('k', { signal })).rejects.toThrow('never mind');
  await expect(pool.notify('k', 'p', { signal })).rejects.toThrow('never mind');
  await expect(pool.ensure('k', 'p', { timeoutMs: 1_000, signal })).rejects.toThrow('never mind');
  expect(calls).toEqual([]);
});

test('a stop names a dispatch, or the key alone', async () => {
  const { pool, sent } = setup();
  await pool.stop('k', { dispatchId: 'd1' });
  await pool.stop('k');
  expect(sent()).toEqual([
    { op: 'stop', key: 'k', dispatchId: 'd1' },
    { op: 'stop', key: 'k' },
  ]);
});

test.each([null, ''])('a stop that names no dispatch by mistake (%j) does not stop whatever is there', async (dispatchId) => {
  const { pool, sent } = setup();
  await expect(pool.stop('k', { dispatchId: dispatchId as string })).rejects.toMatchObject({ code: 'invalid-request' });
  expect(sent()).toEqual([]);
});

test('a notification is checked by its own schema and has an id', async () => {
  const { pool, sent } = setup({ payload: z.object({ url: z.url() }), notification: v.object({ rate: v.number() }) });
  const { id } = await pool.notify('k', { rate: 5 });
  await pool.notify('k', { rate: 6 }, { id: 'n-1' });
  expect(sent()).toEqual([
    { op: 'notify', key: 'k', payload: bytes('{"rate":5}'), id },
    { op: 'notify', key: 'k', payload: bytes('{"rate":6}'), id: 'n-1' },
  ]);
  await expect(pool.notify('k', { rate: 'fast' as unknown as number })).rejects.toThrow('the notification does not fit its schema: rate:');
});

test('a dispatch handle by name asks nothing, and refuses what is no id', () => {
  const { pool, calls } = setup();
  expect(pool.dispatch('d1').dispatchId).toBe('d1');
  expect(() => pool.dispatch('')).toThrow('dispatch(): field "dispatchId" is empty');
  expect(calls).toEqual([]);
});

test('peek() says what is known now, without waiting', async () => {
  const { pool, recordDispatch } = setup();
  expect(await pool.dispatch('d1').peek()).toEqual({});
  await recordDispatch(anAdmittedDispatch());
  expect(await pool.dispatch('d1').peek()).toEqual({});
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: { outcome: 'started', at: NOW } });
  expect(await pool.dispatch('d1').peek()).toEqual({ outcome: { outcome: 'started', at: NOW } });
});

test('describe() shows the record as it is, read consistently (F26)', async () => {
  const { pool, recordJob, callsOf } = setup();
  expect(await pool.describe('k')).toBeUndefined();
  for (const [job, shown] of [
    [
      aPendingJob({ only: { worker: 'w', session: 's' } }),
      { status: 'pending', because: 'admitted', dueAt: NOW, only: { worker: 'w', session: 's' } },
    ],
    [anAssignedJob(), { status: 'assigned', owner: { worker: 'w1', session: 's1' }, assignedAt: NOW }],
    [aRunningJob({ next: 'd2' }), { status: 'running', startedAt: NOW, next: 'd2', fence: 7, attempt: 1 }],
    [aStoppingJob(), { status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: NOW }],
    [anEndedJob(), { status: 'ended', outcome: { outcome: 'started', at: NOW }, end: { status: 'succeeded', finishedAt: NOW + 5 } }],
    [
      anEndedJob({ settled: { outcome: { outcome: 'cancelled', by: 'stop' } } }),
      { end: { status: 'never-started', outcome: { outcome: 'cancelled', by: 'stop' } } },
    ],
  ] as const) {
    await recordJob(job);
    expect(await pool.describe('k')).toMatchObject(shown);
  }
  expect(callsOf('jobs').every(({ names }) => names.length === 1)).toBe(true);
  await expect(pool.describe('')).rejects.toThrow('describe(): field "key" is empty');
});

async function registered({ services }: Setup, workerId: string): Promise<void> {
  await services.workers.register({ workerId, session: `${workerId}-1`, leaseMs: 30_000, capacity: 10, registeredAt: NOW });
}

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function populated(): Promise<Setup> {
  const world = setup();
  for (const worker of ['w1', 'w2']) await registered(world, worker);
  for (let i = 0; i < 150; i++) await world.recordJob(aRunningJob({ key: `r${i}`, owner: { worker: i % 3 ? 'w1' : 'w2', session: 's' } }));
  await world.recordJob(aStoppingJob({ key: 's0' }));
  await world.recordJob(aPendingJob({ key: 'p0' }));
  await world.recordJob(anEndedJob({ key: 'e0' }));
  await world.recordJob(anEndedJob({ key: 'e1', next: 'd2' }));
  return world;
}

test('list() gives every live job once, owned and pending, whatever the number of pages', async () => {
  const { pool } = await populated();
  const keys = (await collected(pool.list())).map(({ key }) => key);
  expect(keys).toHaveLength(152);
  expect(new Set(keys).size).toBe(152);
  expect(keys).not.toContain('e1');
});

test('list() filters by status and by worker, and reads no more indexes than it needs', async () => {
  const { pool, callsOf } = await populated();
  expect((await collected(pool.list({ status: 'pending' }))).map(({ key }) => key)).toEqual(['p0']);
  expect(callsOf('keysOwnedBy')).toEqual([]);
  expect(await collected(pool.list({ worker: 'w2' }))).toHaveLength(50);
  expect((await collected(pool.list({ worker: 'w1', status: 'stopping' }))).map(({ key }) => key)).toEqual(['s0']);
  expect(await collected(pool.list({ worker: 'w1', status: 'pending' }))).toEqual([]);
  expect(callsOf('pendingKeys')).toHaveLength(1);
});

test('list() believes the record and not the index', async () => {
  const world = await populated();
  world.intercepts.keysOwnedBy = () => Promise.resolve({ items: ['r1', 'e0', 'gone'] });
  expect((await collected(world.pool.list({ worker: 'w1' }))).map(({ key }) => key)).toEqual(['r1']);
  expect(await collected(world.pool.list({ worker: 'w2' }))).toEqual([]);
});

test('a corrupt record does not hide the other jobs, and is not hidden itself', async () => {
  const world = await populated();
  const corrupt = new PoolError('corrupt-record', 'job "r7": no status', { retryable: false });
  world.intercepts.jobs = (keys: readonly string[]) => (keys.includes('r7') ? Promise.reject(corrupt) : undefined);
  const seen: string[] = [];
  const listing = (async () => {
    for await (const { key } of world.pool.list()) seen.push(key);
  })();
  await expect(listing).rejects.toBe(corrupt);
  expect(seen).toHaveLength(151);
});

test('list() refuses a status that no live job has', async () => {
  const { pool } = setup();
  const listing = collected(pool.list({ status: 'ended' as 'running' }));
  await expect(listing).rejects.toThrow('list(): status is "ended"; allowed: pending, assigned, running, stopping, releasing');
});

test('workers() shows each row', async () => {
  const world = setup();
  await registered(world, 'w1');
  await world.services.workers.change('w1', { session: 'w1-1', states: ['active', 'draining'] }, { generation: 3 });
  expect(await collected(world.pool.workers())).toEqual([
    {
      ...{ workerId: 'w1', session: 'w1-1', state: 'active', running: 0, capacity: 10, leaseMs: 30_000 },
      ...{ beat: 0, registeredAt: NOW, generation: 3 },
    },
  ]);
});

// ensure

const LONG = { timeoutMs: 30_000 };
const busy = (dispatchId: string, sameRequest: boolean) =>
  ({ outcome: 'refused', reason: 'key-busy', holder: { dispatchId, sameRequest } }) as const;

/** Lets the pool answer the next start as soon as it is sent. */
function answering({ intercepts }: Setup, answer: (start: StartRequest) => Promise<void>): void {
  const answered = async (start: StartRequest) => {
    await answer(start);
    return [undefined];
  };
  intercepts.send = ([start]: readonly StartRequest[]) => answered(start as StartRequest);
}

test('ensure() of a job that runs sends nothing', async () => {
  const { pool, reached, recordJob, callsOf } = setup();
  await recordJob(aRunningJob());
  expect(await reached(pool.ensure('k', 'p', LONG))).toEqual({ outcome: 'running', dispatchId: 'd1', existing: true });
  expect(callsOf('send')).toEqual([]);
});

test('ensure() starts what does not run', async () => {
  const world = setup();
  answering(world, ({ dispatchId }) =>
    world.recordDispatch({ ...anAdmittedDispatch({ dispatchId }), status: 'started', outcome: { outcome: 'started', at: NOW } }),
  );
  const ensured = await world.reached(world.pool.ensure('k', 'p', LONG));
  expect(ensured).toEqual({ outcome: 'running', dispatchId: expect.stringMatching(/^[0-9A-Z]{26}$/), existing: false });
});

test('ensure() joins the same request at the key, but only once that one is up', async () => {
  const world = setup();
  await world.recordJob(anAssignedJob());
  answering(world, ({ dispatchId }) =>
    world.recordDispatch({
      ...anAdmittedDispatch({ dispatchId }),
      status: 'never-started',
      outcome: busy('d1', true),
      expiresAt: NOW + 1e9,
    }),
  );
  const ensured = world.pool.ensure('k', 'p', LONG);
  let isAnswered = false;
  void ensured.then(() => {
    isAnswered = true;
  });
  await world.scheduler.advance(10_000);
  expect(isAnswered).toBe(false);
  await world.recordJob(aRunningJob());
  expect(await world.reached(ensured)).toEqual({ outcome: 'running', dispatchId: 'd1', existing: true });
});

test('ensure() starts anew where the job that it met was over before it was seen running', async () => {
  const world = setup();
  let sends = 0;
  answering(world, async ({ dispatchId }) => {
    sends += 1;
    const head = anAdmittedDispatch({ dispatchId });
    if (sends > 1) return world.recordDispatch({ ...head, status: 'started', outcome: { outcome: 'started', at: NOW } });
    await world.recordDispatch({ ...head, status: 'never-started', outcome: busy('d1', true), expiresAt: NOW + 1e9 });
    await world.recordJob(anEndedJob());
  });
  expect(await world.reached(world.pool.ensure('k', 'p', LONG))).toMatchObject({ outcome: 'running', existing: false });
  expect(sends).toBe(2);
});

test.each([
  ['a key that is busy with another payload', busy('d0', false)],
  ['a failed start', { outcome: 'start-failed', error: { code: 'offline', message: 'device offline' }, attempts: 5 }],
  ['a closed pool', { outcome: 'refused', reason: 'pool-closed' }],
] as const)('ensure() answers %s as a value', async (_, outcome) => {
  const world = setup();
  await world.recordJob(aRunningJob({ dispatchId: 'd0', fingerprint: 'another' }));
  answering(world, ({ dispatchId }) =>
    world.recordDispatch({ ...anAdmittedDispatch({ dispatchId }), status: 'never-started', outcome, expiresAt: NOW + 1e9 }),
  );
  expect(await world.reached(world.pool.ensure('k', 'p', LONG))).toEqual(outcome);
});

test('ensure() has one deadline for all that it does', async () => {
  const world = setup();
  await world.recordJob(anAssignedJob());
  answering(world, ({ dispatchId }) =>
    world.recordDispatch({
      ...anAdmittedDispatch({ dispatchId }),
      status: 'never-started',
      outcome: busy('d1', true),
      expiresAt: NOW + 1e9,
    }),
  );
  const ensured = world.reached(world.pool.ensure('k', 'p', LONG));
  await expect(ensured).rejects.toMatchObject({ code: 'deadline-exceeded' });
  await expect(ensured).rejects.toThrow(
    'ensure() does not see "k" running after 30000 ms: it has no dispatch record, but its job "k" is assigned',
  );
  expect(world.scheduler.now()).toBeLessThanOrEqual(NOW + 30_000);
});

test('ensure() refuses to wait for ever (F37)', async () => {
  const { pool } = setup();
  await expect(pool.ensure('k', 'p', { timeoutMs: 0 })).rejects.toThrow('ensure(): timeoutMs is 0');
  await expect(pool.ensure('k', 'p', undefined as unknown as { timeoutMs: number })).rejects.toThrow('ensure(): timeoutMs is undefined');
});
