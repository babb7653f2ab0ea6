import { randomUUID } from 'node:crypto';
import { afterAll, expect, inject, type TestContext, test } from 'vitest';
import { awsClients } from '../../lib/aws/clients.ts';
import { clientPorts } from '../../lib/aws/ports.ts';
import { createPool } from '../../lib/client/pool.ts';
import { childEnvironment, clientConfig } from '../../stack/environment.ts';
import { WorkerProcess } from '../support/worker-process.ts';

// Real worker processes under the deployed role; jobs come from a producer, and where they are is asked of an observer.

const main = new URL('../support/worker-main.ts', import.meta.url);
const { endpoint, poolConfig, environments } = inject('stack');
process.env.AWS_ENDPOINT_URL = endpoint;
const ending = new AsyncDisposableStack();
afterAll(() => ending.disposeAsync());

function as(role: 'produce' | 'observe') {
  const clients = awsClients(clientConfig(environments[role]));
  ending.defer(() => clients.destroy());
  return ending.use(createPool(clientPorts(poolConfig, clients)));
}
const producer = as('produce');
const observer = as('observe');

/** A worker process that jobs can be placed on. */
async function aWorker(context: TestContext, ...faults: string[]): Promise<WorkerProcess> {
  const worker = new WorkerProcess(context, main, faults, childEnvironment(environments.work));
  await worker.hears('registered');
  await expect.poll(() => isSeen(idOf(worker)), { timeout: 20_000, interval: 200 }).toBe(true);
  return worker;
}

function idOf(worker: WorkerProcess): string {
  return String(worker.told[0]?.workerId);
}

async function isSeen(workerId: string): Promise<boolean> {
  for await (const row of observer.workers()) if (row.workerId === workerId) return row.generation !== undefined;
  return false;
}

/** Keys that this worker has; the pool has other workers, so some of what is started goes elsewhere. */
async function jobsOn(worker: WorkerProcess, count: number): Promise<readonly string[]> {
  const mine = () => worker.told.filter(({ type }) => type === 'job-started').map(({ key }) => String(key));
  await expect
    .poll(
      async () => {
        const key = `process/${randomUUID()}`;
        ending.defer(() => producer.stop(key));
        await producer.start(key, 'p');
        return mine().length;
      },
      { timeout: 40_000, interval: 500 },
    )
    .toBeGreaterThanOrEqual(count);
  return mine();
}

test('SIGTERM: a worker process hands its jobs back, and ends with 0; they run elsewhere under higher fences', async (context) => {
  const first = await aWorker(context);
  const keys = await jobsOn(first, 3);
  const second = await aWorker(context);
  await jobsOn(second, 1);
  const before = await Promise.all(keys.map((key) => observer.describe(key)));
  first.process.kill('SIGTERM');
  expect(await first.exits(), first.errors).toBe(0);
  expect(first.types).toEqual(expect.arrayContaining(['draining', 'job-released', 'left']));
  expect(first.told.filter(({ type }) => type === 'job-released').map(({ key }) => key)).toEqual(expect.arrayContaining([...keys]));
  for (const [n, key] of keys.entries()) {
    await expect
      .poll(async () => await observer.describe(key), { timeout: 90_000, interval: 200 })
      .toMatchObject({ status: 'running', owner: { worker: expect.not.stringMatching(idOf(first)) } });
    const after = await observer.describe(key);
    expect(after?.fence).toBeGreaterThan(before[n]?.fence ?? Number.POSITIVE_INFINITY);
  }
  // In good order, so that it does not keep jobs of others until its lease is over.
  second.process.kill('SIGTERM');
  expect(await second.exits(), second.errors).toBe(0);
  // What the draining worker refuses waits for the sweep, which the schedule starts a minute after the deployment.
}, 150_000);

test('a second signal ends a worker process at once, with 130', async (context) => {
  const worker = await aWorker(context, 'stop hangs');
  await jobsOn(worker, 1);
  worker.process.kill('SIGTERM');
  await worker.hears('draining');
  worker.process.kill('SIGTERM');
  expect(await worker.exits(), worker.errors).toBe(130);
  expect(worker.types).not.toContain('left');
});
