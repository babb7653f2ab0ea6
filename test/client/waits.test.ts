import { expect, test } from 'vitest';
import { PoolError } from '../../lib/pool/errors.ts';
import { anAdmittedDispatch, anAssignedJob, anEndedJob, aPendingJob, aRunningJob, NOW, setup } from '../support/client.ts';

const WAIT = { timeoutMs: 10_000 };
const started = { outcome: 'started', at: NOW } as const;
const succeeded = { status: 'succeeded', finishedAt: NOW + 5 } as const;
const unavailable = () => Promise.reject(new PoolError('unavailable', 'the table does not answer', { retryable: true }));

test('an id that was admitted with another payload is refused, and nothing is recorded of it (P3)', async () => {
  const { pool, reached, recordDispatch, services } = setup();
  const original = anAdmittedDispatch();
  await recordDispatch(original);

  const dispatch = await pool.start('k', 'another payload', { dispatchId: 'd1' });

  expect(await reached(dispatch.outcome())).toEqual({ outcome: 'refused', reason: 'fingerprint-mismatch' });
  const neverStarted = { status: 'never-started', outcome: { outcome: 'refused', reason: 'fingerprint-mismatch' } };
  expect(await reached(dispatch.ended(WAIT))).toEqual(neverStarted);
  expect(await dispatch.peek()).toEqual({ outcome: neverStarted.outcome, end: neverStarted });
  expect(services.dispatches.peek('d1')).toEqual(original);
});

test('an id that was admitted with another key is refused (P3)', async () => {
  const { pool, reached, recordDispatch } = setup();
  await recordDispatch(anAdmittedDispatch());
  const dispatch = await pool.start('another key', 'p', { dispatchId: 'd1' });
  expect(await reached(dispatch.outcome())).toEqual({ outcome: 'refused', reason: 'fingerprint-mismatch' });
});

test('an id whose dispatch record is gone is compared with the job that has it (P3)', async () => {
  const { pool, reached, recordJob } = setup();
  await recordJob(aRunningJob());
  const dispatch = await pool.start('k', 'another payload', { dispatchId: 'd1' });
  expect(await reached(dispatch.outcome())).toEqual({ outcome: 'refused', reason: 'fingerprint-mismatch' });
});

test('a replayed start is told the outcome that was recorded, whatever runs at the key now (P5)', async () => {
  const { pool, reached, recordDispatch, recordJob } = setup();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'ended', outcome: started, end: succeeded, expiresAt: NOW + 1e9 });
  await recordJob(aRunningJob({ dispatchId: 'd2', startedAt: NOW + 99 }));
  const dispatch = await pool.start('k', 'p', { dispatchId: 'd1' });
  expect(await reached(dispatch.outcome())).toEqual(started);
  expect(await reached(dispatch.ended(WAIT))).toEqual(succeeded);
});

test('a record without a fingerprint, as a stop leaves it, is of any request with its key', async () => {
  const { pool, reached, recordDispatch } = setup();
  const cancelled = { outcome: 'cancelled', by: 'stop' } as const;
  const { fingerprint: _, ...head } = anAdmittedDispatch();
  await recordDispatch({ ...head, status: 'never-started', outcome: cancelled, expiresAt: NOW + 1e9 });
  const dispatch = await pool.start('k', 'p', { dispatchId: 'd1' });
  expect(await reached(dispatch.outcome())).toEqual(cancelled);
});

test.each([
  ['admitted', anAdmittedDispatch()],
  ['missing', undefined],
])(
  'an end is known from the job record where the dispatch record is %s: its settlement may have died with a function',
  async (_, dispatch) => {
    const { pool, reached, recordDispatch, recordJob } = setup();
    if (dispatch) await recordDispatch(dispatch);
    await recordJob(anEndedJob());
    const handle = await pool.start('k', 'p', { dispatchId: 'd1' });
    expect(await reached(handle.outcome())).toEqual(started);
    expect(await reached(handle.ended(WAIT))).toEqual(succeeded);
    expect(await handle.peek()).toEqual({ outcome: started, end: succeeded });
  },
);

test('that a job started is known from the job record where the dispatch record does not know it yet', async () => {
  const { pool, reached, recordDispatch, recordJob } = setup();
  await recordDispatch(anAdmittedDispatch());
  await recordJob(aPendingJob({ because: 'owner-lost', startedAt: NOW + 3 }));
  expect(await reached(pool.dispatch('d1').outcome())).toEqual({ outcome: 'started', at: NOW + 3 });
  expect(await pool.dispatch('d1').peek()).toEqual({ outcome: { outcome: 'started', at: NOW + 3 } });
});

test("the end of another dispatch's job at the key is nobody else's", async () => {
  const { pool, reached, recordDispatch, recordJob } = setup();
  await recordDispatch(anAdmittedDispatch());
  await recordJob(anEndedJob({ dispatchId: 'd0', next: 'd1' }));
  expect(await pool.dispatch('d1').peek()).toEqual({});
  await expect(reached(pool.dispatch('d1').ended(WAIT))).rejects.toMatchObject({ code: 'deadline-exceeded' });
});

test('a wait for the end of a dispatch that never starts ends with that', async () => {
  const { pool, reached, recordDispatch } = setup();
  const busy = { outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd0', sameRequest: false } } as const;
  await recordDispatch({ ...anAdmittedDispatch(), status: 'never-started', outcome: busy, expiresAt: NOW + 1e9 });
  expect(await reached(pool.dispatch('d1').ended(WAIT))).toEqual({ status: 'never-started', outcome: busy });
  expect(await reached(pool.dispatch('d1').outcome())).toEqual(busy);
});

test('a wait begins before there is any record, and is answered within 2 s of the fact', async () => {
  const { pool, reached, recordDispatch, scheduler } = setup();
  const outcome = pool.dispatch('d1').outcome({ timeoutMs: 60_000 });
  let answeredAt = 0;
  void outcome.then(() => {
    answeredAt = scheduler.now();
  });
  await scheduler.advance(30_050);
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  await reached(outcome);
  expect(answeredAt).toBeLessThanOrEqual(NOW + 32_050);
});

test('a wait looks at once, then after 100 ms, rising to 2 s, and once more just before its deadline', async () => {
  const { pool, reached, callsOf } = setup();
  await reached(
    pool
      .dispatch('d1')
      .outcome({ timeoutMs: 11_000 })
      .catch(() => {}),
  );
  const looks = callsOf('dispatches').map(({ at }) => at);
  expect(looks).toEqual([0, 100, 250, 500, 1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 10_900]);
});

test('all waits share one read of dispatch records and one of job records per look', async () => {
  const { pool, reached, recordDispatch, recordJob, calls } = setup();
  const ids = Array.from({ length: 200 }, (_, index) => `d${index}`);
  for (const id of ids) await recordDispatch(anAdmittedDispatch({ dispatchId: id, key: `key of ${id}` }));
  for (const id of ids) await recordJob(aRunningJob({ dispatchId: id, key: `key of ${id}` }));
  calls.length = 0;
  await reached(Promise.all(ids.map((id) => pool.dispatch(id).outcome())));
  expect(calls.map(({ method, names }) => [method, names.length])).toEqual([
    ['dispatches', 200],
    ['jobs', 200],
  ]);
});

test('waits that began at different times come to share their looks', async () => {
  const { pool, scheduler, calls } = setup();
  const waits = [];
  for (const delay of [0, 37, 410, 3]) {
    await scheduler.advance(delay);
    waits.push(pool.dispatch(`d${delay}`).ended({ timeoutMs: 100_000 }));
  }
  await scheduler.advance(20_000);
  calls.length = 0;
  await scheduler.advance(60_000);
  expect(calls.map(({ names }) => names.length)).toEqual(Array(30).fill(4));
  pool[Symbol.dispose]();
  await Promise.allSettled(waits);
});

test('the same dispatch is read once however many wait for it', async () => {
  const { pool, reached, recordDispatch, callsOf } = setup();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  await reached(Promise.all([pool.dispatch('d1').outcome(), pool.dispatch('d1').outcome()]));
  expect(callsOf('dispatches').map(({ names }) => names)).toEqual([['d1']]);
});

test.each([
  ['nothing', [], [], 'there is no record of it'],
  ['an admitted dispatch', [anAdmittedDispatch()], [], 'it is admitted at key "k", and no job there is its own'],
  [
    'a pending job',
    [anAdmittedDispatch()],
    [aPendingJob({ because: 'refused', attempt: 3 })],
    'its job "k" is pending (refused, attempt 3)',
  ],
  ['an assigned job', [anAdmittedDispatch()], [anAssignedJob()], 'its job "k" is assigned at worker "w1" (fence 7)'],
  [
    'a place behind another',
    [anAdmittedDispatch()],
    [aRunningJob({ dispatchId: 'd0', next: 'd1' })],
    'it waits for dispatch "d0" at key "k" to end',
  ],
] as const)('a missed deadline says what is known: %s', async (_, dispatches, jobs, known) => {
  const { pool, reached, recordDispatch, recordJob, scheduler } = setup();
  for (const dispatch of dispatches) await recordDispatch(dispatch);
  for (const job of jobs) await recordJob(job);
  const error: unknown = await reached(pool.dispatch('d1').outcome({ timeoutMs: 5_000 })).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(PoolError);
  expect(error).toMatchObject({ code: 'deadline-exceeded', retryable: true });
  expect((error as PoolError).message).toContain('outcome() of dispatch "d1" is not known after 5000 ms');
  expect((error as PoolError).message).toContain(known);
  expect(scheduler.now()).toBe(NOW + 5_000);
});

test('outcome() waits for 60 s unless told otherwise', async () => {
  const { pool, reached, scheduler } = setup();
  await expect(reached(pool.dispatch('d1').outcome())).rejects.toMatchObject({ code: 'deadline-exceeded' });
  expect(scheduler.now()).toBe(NOW + 60_000);
});

test.each([0, -1, Number.NaN, 1e12, Number.POSITIVE_INFINITY, null, '', '1000', undefined])(
  'ended() refuses a deadline of %s ms instead of waiting for ever or not at all (F37)',
  async (timeoutMs) => {
    const { pool, calls } = setup();
    await expect(pool.dispatch('d1').ended({ timeoutMs: timeoutMs as number })).rejects.toMatchObject({
      code: 'invalid-request',
      message: `ended(): timeoutMs is ${timeoutMs}; allowed: milliseconds from 1 to 2147483647`,
    });
    expect(calls).toEqual([]);
  },
);

test('an aborted wait throws the own reason of its signal, and leaves nothing behind', async () => {
  const { pool, scheduler } = setup();
  const abort = new AbortController();
  const wait = pool.dispatch('d1').ended({ timeoutMs: 60_000, signal: abort.signal });
  await scheduler.advance(1_000);
  const reason = new Error('the user went away');
  abort.abort(reason);
  await expect(wait).rejects.toBe(reason);
  expect(scheduler.nextAt).toBeUndefined();
});

test('a wait under a signal that has fired asks nothing', async () => {
  const { pool, calls, scheduler } = setup();
  const reason = new Error('before');
  await expect(pool.dispatch('d1').outcome({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  await scheduler.advance(60_000);
  expect(calls).toEqual([]);
});

test('one wait that ends does not end the others', async () => {
  const { pool, reached, scheduler, recordDispatch } = setup();
  const abort = new AbortController();
  const gone = pool.dispatch('d1').outcome({ signal: abort.signal });
  const stays = pool.dispatch('d1').outcome();
  await scheduler.advance(500);
  abort.abort();
  await expect(gone).rejects.toMatchObject({ name: 'AbortError' });
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  expect(await reached(stays)).toEqual(started);
});

test('a look that fails in a way that may pass does not end the wait', async () => {
  const { pool, reached, intercepts, scheduler, recordDispatch } = setup();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  intercepts.dispatches = unavailable;
  const outcome = pool.dispatch('d1').outcome();
  await scheduler.advance(3_000);
  intercepts.dispatches = undefined;
  expect(await reached(outcome)).toEqual(started);
});

test('a deadline missed because no look succeeded says so', async () => {
  const { pool, reached, intercepts } = setup();
  intercepts.dispatches = unavailable;
  const outcome = reached(pool.dispatch('d1').outcome());
  await expect(outcome).rejects.toMatchObject({ code: 'deadline-exceeded', cause: { code: 'unavailable' } });
  await expect(outcome).rejects.toThrow('the last look failed: the table does not answer');
});

test('a missing permission ends the wait at once and names the grant', async () => {
  const { pool, reached, intercepts, scheduler } = setup();
  const denied = new PoolError('not-permitted', 'AccessDeniedException', { retryable: false });
  intercepts.dispatches = () => Promise.reject(denied);
  await expect(reached(pool.dispatch('d1').outcome())).rejects.toMatchObject({ code: 'not-permitted', cause: denied });
  await expect(reached(pool.dispatch('d1').outcome())).rejects.toThrow(/^outcome\(\) needs grantObserve; AccessDenied/);
  await expect(reached(pool.dispatch('d1').ended(WAIT))).rejects.toThrow(/^ended\(\) needs grantObserve; AccessDenied/);
  await expect(reached(pool.dispatch('d1').peek())).rejects.toThrow(/^peek\(\) needs grantObserve; AccessDenied/);
  expect(scheduler.nextAt).toBeUndefined();
});

test('a corrupt record fails who asked for it and nobody else', async () => {
  const { pool, reached, intercepts, recordDispatch, recordJob } = setup();
  const corrupt = new PoolError('corrupt-record', 'dispatch "d2": no status', { retryable: false });
  for (const dispatchId of ['d0', 'd1', 'd2', 'd3']) {
    await recordDispatch(anAdmittedDispatch({ dispatchId, key: dispatchId }));
    await recordJob(aRunningJob({ dispatchId, key: dispatchId }));
  }
  const isBroken = (names: readonly string[], name: string) => (names.includes(name) ? Promise.reject(corrupt) : undefined);
  intercepts.dispatches = (ids: readonly string[]) => isBroken(ids, 'd2');
  intercepts.jobs = (keys: readonly string[]) => isBroken(keys, 'd3');
  const ended = await reached(Promise.allSettled(['d0', 'd1', 'd2', 'd3'].map((id) => pool.dispatch(id).outcome())));
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
  expect(ended[2]).toMatchObject({ reason: corrupt });
});

test('a record in a format that newer code writes may be readable soon: the wait goes on', async () => {
  const { pool, reached, intercepts, scheduler, recordDispatch } = setup();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  intercepts.dispatches = () => Promise.reject(new PoolError('corrupt-record', 'format version is 2, known is 1', { retryable: true }));
  const outcome = pool.dispatch('d1').outcome();
  await scheduler.advance(3_000);
  intercepts.dispatches = undefined;
  expect(await reached(outcome)).toEqual(started);
});

test('a read that hangs holds up neither its own deadline nor the other waits', async () => {
  const { pool, reached, intercepts, recordDispatch, scheduler } = setup();
  await recordDispatch({ ...anAdmittedDispatch({ dispatchId: 'd2' }), status: 'started', outcome: started });
  intercepts.dispatches = () => new Promise(() => {});
  const stuck = pool.dispatch('d1').outcome({ timeoutMs: 5_000 });
  await scheduler.advance(1_000);
  intercepts.dispatches = undefined;
  expect(await reached(pool.dispatch('d2').outcome())).toEqual(started);
  expect(scheduler.now()).toBeLessThan(NOW + 1_100);
  await expect(reached(stuck)).rejects.toMatchObject({ code: 'deadline-exceeded' });
  expect(scheduler.now()).toBe(NOW + 5_000);
});

test('a wall clock that is set back an hour stops no wait', async () => {
  const { pool, reached, clock, scheduler, recordDispatch } = setup();
  const outcome = pool.dispatch('d1').outcome();
  await scheduler.advance(3_000);
  clock.now = () => scheduler.now() - 3_600_000;
  await scheduler.advance(3_000);
  const at = scheduler.now();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  expect(await reached(outcome)).toEqual(started);
  expect(scheduler.now() - at).toBeLessThanOrEqual(2_100);
});

test('disposal ends every wait and leaves no timer; afterwards the pool takes no call', async () => {
  const { pool, scheduler } = setup();
  const waits = [pool.dispatch('d1').outcome(), pool.dispatch('d2').ended({ timeoutMs: 1_000_000 })];
  await scheduler.advance(500);
  pool[Symbol.dispose]();
  for (const wait of waits) await expect(wait).rejects.toMatchObject({ code: 'unavailable', message: 'the pool was disposed of' });
  expect(scheduler.nextAt).toBeUndefined();
  await expect(pool.start('k', 'p')).rejects.toMatchObject({ code: 'unavailable' });
  await expect(pool.dispatch('d1').outcome()).rejects.toMatchObject({ code: 'unavailable' });
});

test('a pool that nobody waits on has no timer', async () => {
  const { pool, scheduler, reached, recordDispatch } = setup();
  await recordDispatch({ ...anAdmittedDispatch(), status: 'started', outcome: started });
  expect(scheduler.nextAt).toBeUndefined();
  await reached(pool.dispatch('d1').outcome());
  expect(scheduler.nextAt).toBeUndefined();
});
