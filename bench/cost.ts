import { DeleteMessageBatchCommand, GetQueueAttributesCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import type { AwsClients } from '../lib/aws/clients.ts';
import { clientPorts, poolPorts, workerPorts } from '../lib/aws/ports.ts';
import { sqsBatch } from '../lib/aws/sqs-source.ts';
import { systemIds as ids } from '../lib/aws/system.ts';
import { jobsTable } from '../lib/aws/tables.ts';
import { createPool, type Pool } from '../lib/client/pool.ts';
import { type Delivery, processBatch } from '../lib/pool/batch.ts';
import { consumeRequest } from '../lib/pool/consume-request.ts';
import type { Telemetry } from '../lib/pool/ports.ts';
import { DEFAULT_SETTINGS } from '../lib/pool/settings.ts';
import { consumeReport } from '../lib/resync/consume-report.ts';
import { defineHandler } from '../lib/worker/handler.ts';
import { createWorker } from '../lib/worker/runtime.ts';
import { type BarePool, makeBarePool } from '../stack/bare-pool.ts';
import { openEndpoint } from './endpoint.ts';
import { type Charge, Meter } from './meter.ts';
import { assumptions, prices } from './prices.ts';

/**
 * What it costs to start a job and to stop it, settled whole: client, functions and worker as they are, on tables and queues of an
 * endpoint, with every call of an SDK client counted. This process takes Lambda's part, its calls of SQS included.
 *
 * Not in it is what is paid without any job as well (heartbeats, idle polls, the sweep, looks at rows that are cached), storage, and
 * what observers read.
 */
export interface CostCase {
  readonly payloadBytes: number;
  /** How many start, and later stop, at once. */
  readonly batch: number;
  // Per start and stop of one job:
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly queueRequests: number;
  readonly invocations: number;
  readonly dollarsPerMillion: number;
  /** What that is made of. */
  readonly dollars: { readonly queues: number; readonly tables: number; readonly functions: number; readonly logs: number };
  readonly calls: readonly CallCount[];
}

/** Per start and stop of one job. */
export interface CallCount {
  readonly call: string;
  readonly times: number;
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly queueRequests: number;
}

export interface CostResult {
  readonly bench: 'cost';
  readonly prices: typeof prices;
  readonly assumptions: typeof assumptions;
  readonly cases: readonly CostCase[];
  /** Which number is beyond its budget. */
  readonly breaches: readonly string[];
}

const PAYLOADS = [256, 1_024, 262_144];
const BATCHES = [1, 10];
/** Jobs per case: enough to see that they all cost the same. */
const JOBS = 10;
const PATIENCE_MS = 30_000;

interface Budget extends Partial<Record<'writeUnits' | 'readUnits' | 'queueRequests' | 'dollarsPerMillion', number>> {
  readonly payloadBytes: number;
  readonly batch: number;
}

const BUDGETS: readonly Budget[] = [
  { payloadBytes: 256, batch: 1, writeUnits: 9, readUnits: 8, queueRequests: 18, dollarsPerMillion: 19 },
  { payloadBytes: 256, batch: 10, writeUnits: 9, readUnits: 8, queueRequests: 18, dollarsPerMillion: 11 },
  { payloadBytes: 1_024, batch: 1, writeUnits: 12, readUnits: 8, queueRequests: 18 },
  { payloadBytes: 1_024, batch: 10, writeUnits: 12, readUnits: 8, queueRequests: 18 },
];

export async function cost(log: (line: string) => void, payloads = PAYLOADS): Promise<CostResult> {
  await using access = await openEndpoint(log);
  const onlooker = access.clients();
  await using pool = await makeBarePool(onlooker, access.region);
  const { requestQueueUrl, reportQueueUrl, workersTable } = pool.config;
  const queues = { [requestQueueUrl]: 'request', [reportQueueUrl]: 'report' };
  const meter = new Meter({ onlooker: onlooker.dynamo, workersTable, indexes: jobsTable.indexes, queues });
  await using stage = await Stage.set(pool, meter.watch(access.clients()), onlooker, meter);

  const cases: CostCase[] = [];
  for (const payloadBytes of payloads) {
    for (const batch of BATCHES) {
      log(`${payloadBytes} bytes, ${batch === 1 ? 'one by one' : `${batch} at once`}`);
      cases.push(await stage.measure(payloadBytes, batch));
    }
  }
  return { bench: 'cost', prices, assumptions, cases, breaches: breachesIn(cases) };
}

function breachesIn(cases: readonly CostCase[]): readonly string[] {
  return BUDGETS.flatMap(({ payloadBytes, batch, ...limits }) => {
    const measured = cases.find((each) => each.payloadBytes === payloadBytes && each.batch === batch);
    return Object.entries(limits).flatMap(([name, limit]) => {
      const value = measured?.[name as keyof typeof limits] ?? 0;
      return value <= limit ? [] : [`${name} at ${payloadBytes} bytes, batch ${batch}: ${value}, budget ${limit}`];
    });
  });
}

class Stage implements AsyncDisposable {
  readonly #pool: BarePool;
  readonly #clients: AwsClients;
  readonly #onlooker: AwsClients;
  readonly #meter: Meter;
  readonly #client: Pool;
  readonly #functions;
  readonly #worker;
  #jobs = 0;
  #log = { lines: 0, bytes: 0 };
  #invocations: number[] = [];

  static async set(pool: BarePool, clients: AwsClients, onlooker: AwsClients, meter: Meter): Promise<Stage> {
    const stage = new Stage(pool, clients, onlooker, meter);
    await stage.#worker.start();
    // Once its registration is seen, jobs go to it.
    await stage.#invoke('report', 1);
    return stage;
  }

  private constructor(pool: BarePool, clients: AwsClients, onlooker: AwsClients, meter: Meter) {
    this.#pool = pool;
    this.#clients = clients;
    this.#onlooker = onlooker;
    this.#meter = meter;
    const { config } = pool;
    this.#client = createPool(clientPorts(config, clients));
    const telemetry: Telemetry = {
      decided: (line) => {
        this.#log.lines += 1;
        this.#log.bytes += JSON.stringify(line).length;
      },
      count() {},
      gauge() {},
      failed: ({ reason }) => {
        throw new Error(`a message was not handled: ${reason}`);
      },
    };
    const ports = poolPorts(config, telemetry, clients);
    this.#functions = {
      telemetry,
      request: { queueUrl: config.requestQueueUrl, consume: (each: Delivery) => consumeRequest(ports, DEFAULT_SETTINGS, each) },
      report: { queueUrl: config.reportQueueUrl, consume: (each: Delivery) => consumeReport(ports, DEFAULT_SETTINGS, each) },
    };
    this.#worker = createWorker(workerPorts(config, clients), {
      handler: defineHandler({ start: () => ({ stop() {} }) }),
      ...{ workerId: 'bench', leaseMs: config.leaseMs, capacity: 1_000, drainDeadlineMs: 25_000, stopDeadlineMs: 20_000 },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
  }

  async measure(payloadBytes: number, batch: number): Promise<CostCase> {
    const payload = payloadOf(payloadBytes);
    // The first one fills what is cached.
    await this.#startAndStop(payload, 1);
    this.#meter.take();
    this.#log = { lines: 0, bytes: 0 };
    this.#invocations = [];
    for (let jobs = 0; jobs < JOBS; jobs += batch) await this.#startAndStop(payload, batch);
    const charges = this.#meter.take().filter(({ isUpkeep }) => !isUpkeep);
    return caseOf(payloadBytes, batch, charges, this.#invocations, this.#log);
  }

  async #startAndStop(payload: string, count: number): Promise<void> {
    const entries = Array.from({ length: count }, () => {
      const name = String(++this.#jobs).padStart(7, '0');
      return { key: `tenant:${name}`, payload, dispatchId: `order-${name}` };
    });
    const [first] = entries as [(typeof entries)[0]];
    if (count === 1) await this.#client.start(first.key, payload, first);
    else for await (const sent of this.#client.startMany(entries)) if (!sent.sent) throw sent.error;
    await this.#pass(count);
    const stops = entries.map(({ key, dispatchId }) => ({ op: 'stop', key, dispatchId }) as const);
    const failed = (await clientPorts(this.#pool.config, this.#clients).requests.send(stops)).find((error) => error);
    if (failed) throw failed;
    await this.#pass(count);
    const observer = createPool(clientPorts(this.#pool.config, this.#onlooker));
    for (const { dispatchId } of entries) {
      const { end } = await observer.dispatch(dispatchId).peek();
      if (end?.status !== 'stopped') throw new Error(`dispatch "${dispatchId}" did not end stopped: ${JSON.stringify(end)}`);
    }
  }

  /** What was sent becomes commands, the worker does them, and its reports are settled. */
  async #pass(count: number): Promise<void> {
    await this.#invoke('request', count);
    await this.#until('the worker has reported', async () => (await this.#waiting(this.#functions.report.queueUrl)) >= count);
    await this.#invoke('report', count);
  }

  /** As Lambda does: takes batches off the queue and deletes what was handled. */
  async #invoke(name: 'request' | 'report', messages: number): Promise<void> {
    const { queueUrl: QueueUrl, consume } = this.#functions[name];
    const { sqs } = this.#clients;
    let left = messages;
    await this.#until(`${messages} of queue "${name}" are handled`, async () => {
      const { Messages: received = [] } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageSystemAttributeNames: ['All'] }),
      );
      if (received.length === 0) return false;
      const records = received.map(({ MessageId = '', ReceiptHandle = '', Body = '', Attributes: attributes = {} }) => {
        const { ApproximateReceiveCount = '1', MessageGroupId } = attributes;
        return { messageId: MessageId, receiptHandle: ReceiptHandle, body: Body, attributes: { ApproximateReceiveCount, MessageGroupId } };
      });
      const { deliveries, source } = sqsBatch(records, {
        sqs,
        queueUrl: QueueUrl,
        deadLetterQueueUrl: this.#pool.requestDeadLetterQueueUrl,
        ids,
      });
      const failed = await processBatch(deliveries, consume, source, this.#functions.telemetry);
      if (failed.length > 0) throw new Error(`queue "${name}": ${failed.length} messages were not handled`);
      const Entries = received.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
      this.#invocations.push(received.length);
      left -= received.length;
      return left <= 0;
    });
  }

  async #waiting(QueueUrl: string): Promise<number> {
    const wanted = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] });
    const { Attributes: attributes } = await this.#onlooker.sqs.send(wanted);
    return Number(attributes?.ApproximateNumberOfMessages);
  }

  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!(await isSo())) if (performance.now() > deadline) throw new Error(`not so after ${PATIENCE_MS} ms: ${what}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
    this.#client[Symbol.dispose]();
  }
}

/** JSON text, as payloads mostly are. */
function payloadOf(bytes: number): string {
  const around = JSON.stringify({ text: '' }).length;
  return JSON.stringify({ text: 'x'.repeat(bytes - around) });
}

function caseOf(
  payloadBytes: number,
  batch: number,
  charges: readonly Charge[],
  invocations: readonly number[],
  log: { readonly lines: number; readonly bytes: number },
): CostCase {
  const each = (total: number) => total / JOBS;
  const sum = (of: (charge: Charge) => number, among = charges) => each(among.reduce((total, charge) => total + of(charge), 0));
  const rounded = (value: number) => Number(value.toFixed(3));
  const million = (dollars: number) => Number((dollars * 1e6).toFixed(2));

  const { functionMemoryMb, invocationMs, furtherMessageMs, bytesAroundLine, bytesAroundInvocation } = assumptions;
  const seconds = invocations.reduce((total, messages) => total + invocationMs + furtherMessageMs * (messages - 1), 0) / 1_000;
  const logged = log.bytes + log.lines * bytesAroundLine + invocations.length * bytesAroundInvocation;
  const dollars = {
    queues: sum(({ fifoRequests, standardRequests }) => fifoRequests * prices.fifoRequest + standardRequests * prices.standardRequest),
    tables: sum(({ writeUnits, readUnits }) => writeUnits * prices.writeUnit + readUnits * prices.readUnit),
    functions: each(invocations.length * prices.invocation + seconds * (functionMemoryMb / 1_024) * prices.gigabyteSecond),
    logs: each(logged * prices.loggedByte),
  };
  const requests = ({ fifoRequests, standardRequests }: Charge) => fifoRequests + standardRequests;
  return {
    payloadBytes,
    batch,
    writeUnits: rounded(sum(({ writeUnits }) => writeUnits)),
    readUnits: rounded(sum(({ readUnits }) => readUnits)),
    queueRequests: rounded(sum(requests)),
    invocations: each(invocations.length),
    dollarsPerMillion: million(Object.values(dollars).reduce((total, part) => total + part, 0)),
    dollars: {
      queues: million(dollars.queues),
      tables: million(dollars.tables),
      functions: million(dollars.functions),
      logs: million(dollars.logs),
    },
    calls: [...new Set(charges.map(({ call }) => call))].sort().map((call) => {
      const among = charges.filter((charge) => charge.call === call);
      return {
        call,
        times: rounded(each(among.length)),
        writeUnits: rounded(sum(({ writeUnits }) => writeUnits, among)),
        readUnits: rounded(sum(({ readUnits }) => readUnits, among)),
        queueRequests: rounded(sum(requests, among)),
      };
    }),
  };
}
