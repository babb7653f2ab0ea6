import { randomUUID } from 'node:crypto';
import { afterAll, expect, inject, vi } from 'vitest';
import { type AwsClients, awsClients } from '../../lib/aws/clients.ts';
import { clientPorts, workerPorts } from '../../lib/aws/ports.ts';
import { createPool } from '../../lib/client/pool.ts';
import { defineHandler, type Handler } from '../../lib/worker/handler.ts';
import { createWorker, type Runtime } from '../../lib/worker/runtime.ts';
import { clientConfig } from '../../stack/environment.ts';
import { startLocalStack } from '../../stack/local-stack.ts';

/**
 * A pool of a test file's own, on the endpoint of this run: its functions, state machine and roles as deployed; and who holds which grant. All of
 * it ends after the file's last test.
 */
export async function deployedPool(name: string, context: { readonly leaseSeconds?: string; readonly eventBus?: string }) {
  Object.assign(process.env, inject('stack').environments.root);
  const ending = new AsyncDisposableStack();
  afterAll(() => ending.disposeAsync());
  const stack = ending.use(await startLocalStack({ pool: name, context: { ...context, maxConcurrency: '4', removalPolicy: 'destroy' } }));
  const { poolConfig, environments } = stack;

  function clientsAs(role: keyof typeof environments): AwsClients {
    const clients = awsClients(clientConfig(environments[role]));
    ending.defer(() => clients.destroy());
    return clients;
  }
  const poolOf = (role: 'produce' | 'observe') => ending.use(createPool(clientPorts(poolConfig, clientsAs(role))));
  const operatorPorts = clientPorts(poolConfig, clientsAs('operate'));
  const forWorkers = workerPorts(poolConfig, clientsAs('work'));

  /** Resolves once jobs can be placed there: a pool that was just deployed first sweeps after a minute. */
  async function isSeen(workerId: string): Promise<void> {
    await becomes(true, async () => (await operatorPorts.operate.workers.get(workerId))?.generation !== undefined, 90_000);
  }

  return {
    ...{ ending, poolConfig, environments, operatorPorts, forWorkers, isSeen },
    producer: poolOf('produce'),
    observer: poolOf('observe'),
    operator: ending.use(createPool(operatorPorts)),
    root: clientsAs('root'),

    /** A worker in this process, drained at the end. Default: its jobs run until they are stopped. */
    async aWorker(name: string, handlerOf: (workerId: string) => Handler = () => idle): Promise<Runtime> {
      const workerId = aName(name);
      const worker = createWorker(forWorkers, {
        ...{ handler: handlerOf(workerId), workerId, leaseMs: poolConfig.leaseMs, capacity: 100 },
        ...{ drainDeadlineMs: 25_000, stopDeadlineMs: 20_000, logger: { debug() {}, info() {}, warn() {}, error() {} } },
      });
      await worker.start();
      ending.use(worker);
      await isSeen(workerId);
      return worker;
    },
  };
}

const idle = defineHandler({ start: () => ({ stop() {} }) });

export function aName(of: string): string {
  return `${of}-${randomUUID().slice(0, 8)}`;
}

export async function becomes<T>(expected: T, look: () => unknown, withinMs = 60_000): Promise<void> {
  await vi.waitFor(async () => expect(await look()).toEqual(expected), { timeout: withinMs, interval: 250 });
}
