import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { CloudFormationClient, GetTemplateCommand, UpdateStackCommand, waitUntilStackUpdateComplete } from '@aws-sdk/client-cloudformation';
import { afterAll, expect, inject, test, vi } from 'vitest';
import { awsClients } from '../../lib/aws/clients.ts';
import { variable } from '../../lib/aws/config.ts';
import { clientPorts, workerPorts } from '../../lib/aws/ports.ts';
import { createPool } from '../../lib/client/pool.ts';
import { defineHandler } from '../../lib/worker/handler.ts';
import { createWorker } from '../../lib/worker/runtime.ts';
import { clientConfig } from '../../stack/environment.ts';
import { startLocalStack } from '../../stack/local-stack.ts';

// A pool of its own, whose request function is given a short time and, for a while, no way to the inboxes.

const TIMEOUT_SECONDS = 4;

Object.assign(process.env, inject('stack').environments.root);
const ending = new AsyncDisposableStack();
afterAll(() => ending.disposeAsync());
const {
  poolConfig,
  environments,
  pool: name,
} = ending.use(await startLocalStack({ pool: 'timeouts', context: { maxConcurrency: '2', removalPolicy: 'destroy' } }));
const clients = ending.adopt(awsClients(clientConfig(environments.root)), (all) => all.destroy());
const ports = clientPorts(poolConfig, clients);
const pool = ending.use(createPool(ports));
const cloudFormation = ending.adopt(new CloudFormationClient(clientConfig(environments.root)), (client) => client.destroy());
const StackName = `Holdfast-${name}`;

interface Template {
  readonly Resources: Readonly<Record<string, { readonly Type: string; readonly Properties: Record<string, unknown> }>>;
}

async function deploy(template: Template): Promise<void> {
  await cloudFormation.send(
    new UpdateStackCommand({ StackName, TemplateBody: JSON.stringify(template), Capabilities: ['CAPABILITY_IAM', 'CAPABILITY_NAMED_IAM'] }),
  );
  await waitUntilStackUpdateComplete({ client: cloudFormation, maxWaitTime: 60, minDelay: 1, maxDelay: 1 }, { StackName });
}

/** As it is, but that the function is killed after seconds, its messages soon come again, and it looks for inboxes on that port. */
function hurried(template: Template, port: number): Template {
  const changed = structuredClone(template);
  for (const { Type: type, Properties: properties } of Object.values(changed.Resources)) {
    if (type === 'AWS::Lambda::Function' && properties.Description === 'Holdfast: request') {
      const environment = properties.Environment as { readonly Variables: Record<string, unknown> };
      const requestQueueUrl = `http://127.0.0.1:${port}${new URL(poolConfig.requestQueueUrl).pathname}`;
      environment.Variables[variable.poolConfig] = JSON.stringify({ ...poolConfig, requestQueueUrl });
      properties.Timeout = TIMEOUT_SECONDS;
    }
    if (type === 'AWS::SQS::Queue' && properties.FifoQueue === true && properties.RedrivePolicy !== undefined)
      properties.VisibilityTimeout = TIMEOUT_SECONDS + 1;
  }
  return changed;
}

test('a function whose time is over in the middle of a batch leaves nothing that its redelivery does not finish: each job is up once, under the fence that it was given (G8)', async () => {
  const ups: string[] = [];
  const worker = createWorker(workerPorts(poolConfig, clients), {
    handler: defineHandler({
      start: ({ key }) => {
        ups.push(key);
        return { stop() {} };
      },
    }),
    ...{ workerId: `w-${randomUUID().slice(0, 8)}`, leaseMs: poolConfig.leaseMs, capacity: 100 },
    ...{ drainDeadlineMs: 25_000, stopDeadlineMs: 20_000, logger: { debug() {}, info() {}, warn() {}, error() {} } },
  });
  ending.use(worker);
  await worker.start();
  await vi.waitFor(async () => expect((await ports.operate.workers.get(worker.workerId))?.generation).toBeDefined(), { timeout: 60_000 });

  /** Takes connections and says nothing. How long each was held, ms, by those who let go. */
  const held: number[] = [];
  const silent = createServer((socket) => {
    const since = performance.now();
    socket
      .resume()
      .on('error', () => undefined)
      .on('close', () => held.push(performance.now() - since));
  }).listen(0, '127.0.0.1');
  ending.defer(() => void silent.close());
  await once(silent, 'listening');
  const { TemplateBody: body = '' } = await cloudFormation.send(new GetTemplateCommand({ StackName }));
  const template: Template = JSON.parse(body);
  await deploy(hurried(template, (silent.address() as AddressInfo).port));

  const keys = Array.from({ length: 10 }, () => randomUUID());
  for await (const sent of pool.startMany(keys.map((key) => ({ key, payload: 'p' })))) expect(sent.sent).toBe(true);
  const jobs = async () => (await Promise.all(keys.map((key) => pool.describe(key)))).map((job) => job && [job.status, job.fence]);
  const look = { timeout: 90_000, interval: 250 };
  // Committed; nobody was told, and no client gave up by itself in so short a time.
  await vi.waitFor(async () => expect((await jobs()).map((job) => job?.[0])).toEqual(keys.map(() => 'assigned')), look);
  await vi.waitFor(() => expect(held.some((ms) => ms < TIMEOUT_SECONDS * 1_000)).toBe(true), look);
  const fences = (await jobs()).map((job) => job?.[1]);
  expect(ups).toEqual([]);

  await deploy(template);
  await vi.waitFor(async () => expect(await jobs()).toEqual(fences.map((fence) => ['running', fence])), look);
  expect(ups.sort()).toEqual([...keys].sort());
}, 300_000);
