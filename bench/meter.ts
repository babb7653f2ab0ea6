import { type AttributeValue, type DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import type { AwsClients } from '../lib/aws/clients.ts';
import type { IndexLayout } from '../lib/aws/tables.ts';
import { indexUnits, queryUnits, queueRequests, readUnits, type StoredItem, writeUnits } from './billing.ts';

/** One call of a service and what it is billed for. */
export interface Charge {
  /** Such as `PutItem dispatch` or `SendMessage request`. */
  readonly call: string;
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly fifoRequests: number;
  readonly standardRequests: number;
  /** It is made without any job as well: heartbeats, looks at cached rows, polls that find nothing. */
  readonly isUpkeep: boolean;
}

export interface MeterOptions {
  /** Looks at items before and after each write; its own calls are not counted. */
  readonly onlooker: DynamoDBClient;
  readonly workersTable: string;
  readonly indexes: readonly IndexLayout[];
  /** What a queue is called, by its URL; every other one is an inbox. */
  readonly queues: Readonly<Record<string, string>>;
}

/**
 * Counts what goes through SDK clients, by wrapping each of their calls. Units come from the requests and from the items that these
 * met and left, never from what an endpoint says that it consumed. A call that it cannot count is an error.
 */
export class Meter {
  readonly #options: MeterOptions;
  #charges: Charge[] = [];

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  watch(clients: AwsClients): AwsClients {
    const place = { step: 'initialize', name: 'meter' } as const;
    clients.dynamo.middlewareStack.add(
      (next, { commandName = '' }) =>
        (args) =>
          this.#tableCall(commandName, args.input as TableInput, () => next(args) as Promise<{ readonly output: TableOutput }>) as never,
      place,
    );
    clients.sqs.middlewareStack.add(
      (next, { commandName = '' }) =>
        (args) =>
          this.#queueCall(commandName, args.input as QueueInput, () => next(args) as Promise<{ readonly output: QueueOutput }>) as never,
      place,
    );
    return clients;
  }

  /** What was counted since it was last taken. */
  take(): readonly Charge[] {
    const taken = this.#charges;
    this.#charges = [];
    return taken;
  }

  async #tableCall<T extends { readonly output: TableOutput }>(command: string, input: TableInput, call: () => Promise<T>): Promise<T> {
    const writes = writesOf(command, input);
    const before = await Promise.all(writes.map((write) => this.#look(write)));
    try {
      const result = await call();
      if (writes.length === 0) this.#read(command, input, result.output);
      return result;
    } finally {
      const after = await Promise.all(writes.map((write) => this.#look(write)));
      for (const [index, { table, key, factor }] of writes.entries()) {
        const change = [before[index], after[index]] as const;
        const indexed = this.#options.indexes.reduce((sum, each) => sum + indexUnits(each, ...change), 0);
        const isUpkeep = table === this.#options.workersTable;
        this.#charge(`${command} ${recordOf(key)}`, { writeUnits: factor * writeUnits(...change) + indexed, isUpkeep });
      }
    }
  }

  #read(command: string, { TableName, Key, ConsistentRead, RequestItems }: TableInput, output: TableOutput): void {
    if (command === 'GetItemCommand' && Key && ConsistentRead) {
      this.#charge(`${command} ${recordOf(Key)}`, { readUnits: readUnits(output.Item), isUpkeep: recordOf(Key) === 'pool' });
    } else if (command === 'BatchGetItemCommand') {
      const asked = Object.values(RequestItems ?? {}).reduce((sum, { Keys }) => sum + Keys.length, 0);
      const found = Object.values(output.Responses ?? {}).flat();
      this.#charge(command, { readUnits: found.reduce((sum, item) => sum + readUnits(item), asked - found.length) });
    } else if (command === 'QueryCommand' || command === 'ScanCommand') {
      this.#charge(command, { readUnits: queryUnits(output.Items ?? []), isUpkeep: TableName === this.#options.workersTable });
    } else throw new Error(`no rule says what ${command} is billed for`);
  }

  async #look({ table, key }: Write): Promise<StoredItem | undefined> {
    const { Item: item } = await this.#options.onlooker.send(
      new GetItemCommand({ TableName: table, Key: { ...key }, ConsistentRead: true }),
    );
    return item;
  }

  async #queueCall<T extends { readonly output: QueueOutput }>(command: string, input: QueueInput, call: () => Promise<T>): Promise<T> {
    let received: readonly Message[] | undefined;
    try {
      const result = await call();
      received = result.output.Messages ?? [];
      return result;
    } finally {
      const { QueueUrl: url = '', MessageBody, Entries = [] } = input;
      const sent = [MessageBody, ...Entries.map((entry) => entry.MessageBody)];
      const bodies = command === 'ReceiveMessageCommand' ? received?.map(({ Body }) => Body) : sent;
      const bytes = (bodies ?? []).reduce((sum, body) => sum + Buffer.byteLength(body ?? ''), 0);
      const isUpkeep = command === 'CreateQueueCommand' || (command === 'ReceiveMessageCommand' && !received?.length);
      const kind = url.endsWith('.fifo') ? 'fifoRequests' : 'standardRequests';
      this.#charge(`${command} ${this.#options.queues[url] ?? 'inbox'}`, { [kind]: queueRequests(bytes), isUpkeep });
    }
  }

  #charge(command: string, charge: Partial<Charge>): void {
    const none = { writeUnits: 0, readUnits: 0, fifoRequests: 0, standardRequests: 0, isUpkeep: false };
    this.#charges.push({ ...none, ...charge, call: command.replace('Command', '') });
  }
}

type Key = Readonly<Record<string, AttributeValue>>;

/** The members of all inputs that matter here. */
interface TableInput {
  readonly TableName?: string;
  readonly Key?: Key;
  readonly Item?: Key;
  readonly ConsistentRead?: boolean;
  readonly RequestItems?: Readonly<Record<string, { readonly Keys: readonly Key[] }>>;
  readonly TransactItems?: readonly Readonly<Record<string, TableInput>>[];
}

interface TableOutput {
  readonly Item?: StoredItem;
  readonly Items?: readonly StoredItem[];
  readonly Responses?: Readonly<Record<string, readonly StoredItem[]>>;
}

interface Message {
  readonly Body?: string;
}

interface QueueInput {
  readonly QueueUrl?: string;
  readonly MessageBody?: string;
  readonly Entries?: readonly { readonly MessageBody?: string }[];
}

interface QueueOutput {
  readonly Messages?: readonly Message[];
}

interface Write {
  readonly table: string;
  readonly key: Key;
  /** What is in a transaction is billed twice. */
  readonly factor: 1 | 2;
}

function writesOf(command: string, input: TableInput): readonly Write[] {
  switch (command) {
    case 'PutItemCommand':
    case 'UpdateItemCommand':
    case 'DeleteItemCommand':
      return [writeOf(input, 1)];
    case 'TransactWriteItemsCommand':
      return (input.TransactItems ?? []).flatMap((action) => Object.values(action).map((each) => writeOf(each, 2)));
    default:
      return [];
  }
}

function writeOf({ TableName: table = '', Key, Item = {} }: TableInput, factor: 1 | 2): Write {
  const { pk, sk } = Key ?? Item;
  return { table, key: { ...(pk && { pk }), ...(sk && { sk }) }, factor };
}

/** `job`, `dispatch`, `payload`, `worker`, `pool`. */
function recordOf({ pk, sk }: Key): string {
  return [sk?.S?.startsWith('payload') ? sk.S : pk?.S].join().split('#')[0] ?? '';
}
