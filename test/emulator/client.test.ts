import { randomUUID } from 'node:crypto';
import { afterAll, expect, inject, it } from 'vitest';
import { awsClients } from '../../lib/aws/clients.ts';
import { clientPorts, workerPorts } from '../../lib/aws/ports.ts';
import { connect, type Dispatch } from '../../lib/client/index.ts';
import { createPool } from '../../lib/client/pool.ts';
import { defineHandler } from '../../lib/worker/handler.ts';
import { createWorker } from '../../lib/worker/runtime.ts';
import { clientConfig } from '../../stack/environment.ts';

// Under the deployed roles, against the deployed functions, with one worker that all of these tests share.

const { endpoint, pool: poolName, poolConfig, environments } = inject('stack');
process.env.AWS_ENDPOINT_URL = endpoint;
const ending = new AsyncDisposableStack();
afterAll(() => ending.disposeAsync());

function clientsAs(role: keyof typeof environments) {
  const clients = awsClients(clientConfig(environments[role]));
  ending.defer(() => clients.destroy());
  return clients;
}
const as = (role: keyof typeof environments) => ending.use(createPool(clientPorts(poolConfig, clientsAs(role))));
const producer = as('produce');
const observer = as('observe');

const notified: string[] = [];
const worker = createWorker(workerPorts(poolConfig, clientsAs('work')), {
  handler: defineHandler({
    start: () => ({
      stop() {},
      notify(payload, id) {
        notified.push(`${id} ${payload.text()}`);
      },
    }),
  }),
  ...{ workerId: `client-tests-${randomUUID()}`, leaseMs: poolConfig.leaseMs, capacity: 1_000 },
  ...{ drainDeadlineMs: 25_000, stopDeadlineMs: 20_000, logger: { debug() {}, info() {}, warn() {}, error() {} } },
});
await worker.start();
ending.use(worker);

const WAIT = { timeoutMs: 50_000 };
const aKey = () => `client/${randomUUID()}/é`;
/** The observer's handle of what the producer sent. */
const seen = ({ dispatchId }: Dispatch) => observer.dispatch(dispatchId);

it('follows a job from its start to its end', async () => {
  const key = aKey();
  const dispatch = seen(await producer.start(key, 'p'));
  expect(await dispatch.outcome(WAIT)).toEqual({ outcome: 'started', at: expect.any(Number) });
  expect(await observer.describe(key)).toMatchObject({
    key,
    dispatchId: dispatch.dispatchId,
    status: expect.stringMatching(/running|assigned/),
  });
  await producer.stop(key, { dispatchId: dispatch.dispatchId });
  expect(await dispatch.ended(WAIT)).toMatchObject({ status: 'stopped', reason: 'stop-requested' });
  expect(await dispatch.peek()).toMatchObject({ outcome: { outcome: 'started' }, end: { status: 'stopped' } });
});

it('never says that it does not know what it has just seen (F26)', async () => {
  const key = aKey();
  await seen(await producer.start(key, 'p')).outcome(WAIT);
  for (let i = 0; i < 200; i++) expect(await observer.describe(key)).toBeDefined();
  await producer.stop(key);
});

it('tells whoever sent another payload under the same id, and leaves the first one running (P3, P4)', async () => {
  const key = aKey();
  const both = as('operate');
  const first = await both.start(key, 'p', { dispatchId: key });
  expect(await first.outcome(WAIT)).toMatchObject({ outcome: 'started' });
  const conflict = await both.start(key, 'another', { dispatchId: key });
  expect(await conflict.outcome(WAIT)).toEqual({ outcome: 'refused', reason: 'fingerprint-mismatch' });
  expect(await observer.describe(key)).toMatchObject({ dispatchId: key, status: 'running' });
  await both.stop(key);
});

it('sees that a job runs: starts it, joins it, and says who holds the key otherwise', async () => {
  const key = aKey();
  const both = as('operate');
  const first = await both.ensure(key, 'p', WAIT);
  expect(first).toEqual({ outcome: 'running', dispatchId: expect.any(String), existing: false });
  const dispatchId = first.outcome === 'running' ? first.dispatchId : '';
  expect(await both.ensure(key, 'p', WAIT)).toEqual({ outcome: 'running', dispatchId, existing: true });
  const holder = { dispatchId, sameRequest: false };
  expect(await both.ensure(key, 'another', WAIT)).toEqual({ outcome: 'refused', reason: 'key-busy', holder });
  await both.stop(key);
});

it('starts many and lists them by their worker', async () => {
  const keys = Array.from({ length: 25 }, aKey);
  const dispatches: Dispatch[] = [];
  for await (const sent of producer.startMany(keys.map((key) => ({ key, payload: 'p' })))) {
    if (!sent.sent) throw sent.error;
    dispatches.push(seen(sent.dispatch));
  }
  const outcomes = await Promise.all(dispatches.map((dispatch) => dispatch.outcome(WAIT)));
  expect(outcomes.every(({ outcome }) => outcome === 'started')).toBe(true);
  const listed = new Set<string>();
  for await (const { key } of observer.list({ worker: worker.workerId })) listed.add(key);
  expect(keys.filter((key) => !listed.has(key))).toEqual([]);
  for await (const { workerId, state } of observer.workers()) if (workerId === worker.workerId) expect(state).toBe('active');
  await Promise.all(keys.map((key) => producer.stop(key)));
  const ends = await Promise.all(dispatches.map((dispatch) => dispatch.ended(WAIT)));
  expect(ends.every(({ status }) => status === 'stopped')).toBe(true);
});

it('hands a notification to the job that is up', async () => {
  const key = aKey();
  const dispatch = seen(await producer.start(key, 'p'));
  await dispatch.outcome(WAIT);
  const { id } = await producer.notify(key, '{"rate":5}');
  // Behind it in the order of the key.
  await producer.stop(key);
  await dispatch.ended(WAIT);
  expect(notified).toContain(`${id} {"rate":5}`);
});

it('names the grant that a role lacks', async () => {
  const dispatch = await producer.start(aKey(), 'p');
  await expect(dispatch.outcome(WAIT)).rejects.toMatchObject({
    code: 'not-permitted',
    message: expect.stringMatching(/^outcome\(\) needs grantObserve; /),
    cause: { code: 'not-permitted' },
  });
  await expect(observer.start(aKey(), 'p')).rejects.toThrow(/^start\(\) needs grantProduce; /);
  await producer.stop(aKey());
});

it('connects by the name of the pool alone', async () => {
  Object.assign(process.env, environments.observe);
  using pool = await connect(poolName);
  expect(await pool.describe(aKey())).toBeUndefined();
  await expect(connect('no-such-pool')).rejects.toMatchObject({ code: expect.stringMatching(/no-such-pool|not-permitted/) });
});
