import {
  type AttributeValue,
  type DynamoDBClient,
  PutItemCommand,
  type PutItemCommandInput,
  ScanCommand,
  type ScanCommandInput,
} from '@aws-sdk/client-dynamodb';
import { PoolError } from '../pool/errors.ts';
import type { Clock, Ids, WorkerStore } from '../pool/ports.ts';
import type { WorkerRow } from '../pool/worker.ts';
import type { Registry } from '../worker/ports.ts';
import { cached } from './cached.ts';
import { read, type Update, updateIf } from './conditional-write.ts';
import { translated } from './errors.ts';
import { expressed, setting } from './expression.ts';
import { type Item, toItem } from './item.ts';
import { decodePool, decodeWorker, encodeWorker, poolKey, workerKey } from './worker-item.ts';

/** How old what the control plane places by may be; a row is read again, consistently, before anything is sent to its worker. */
const maxAgeMs = 5_000;

export interface DynamoWorkersOptions {
  readonly dynamo: DynamoDBClient;
  /** Names of the tables. */
  readonly workersTable: string;
  readonly jobsTable: string;
  readonly clock: Clock;
}

/** Worker rows as the control plane sees them. */
export function dynamoWorkers({ dynamo, workersTable: table, jobsTable, clock }: DynamoWorkersOptions): WorkerStore {
  return {
    async get(workerId) {
      const item = await read(dynamo, nameOf(workerId), table, toItem(workerKey(workerId)));
      return item && decodeWorker(item);
    },
    list: cached(clock, maxAgeMs, () => workerRows(dynamo, table)),
    async stamp(workerId, session, generation) {
      return (await updateIf(dynamo, nameOf(workerId), rowParams(table, workerId, { session, set: { generation } }))).won;
    },
    poolState: cached(clock, maxAgeMs, async () => {
      const item = await read(dynamo, 'record "pool"', jobsTable, toItem(poolKey));
      return item ? decodePool(item) : { state: 'open', generation: 1 };
    }),
  };
}

export interface DynamoRegistryOptions {
  readonly dynamo: DynamoDBClient;
  /** Name of the Workers table. */
  readonly table: string;
  readonly ids: Ids;
}

/**
 * The worker's own row. Every update holds only for the session that makes it, so a process that was taken for dead and comes
 * back writes nothing.
 *
 * A heartbeat whose response was lost raises `beat` once more when it is tried again: that it changed is all that anybody looks at.
 */
export function dynamoRegistry({ dynamo, table, ids }: DynamoRegistryOptions): Registry {
  const update = (workerId: string, facts: RowFacts) => updateIf(dynamo, nameOf(workerId), rowParams(table, workerId, facts));
  return {
    async register(row) {
      await translated(nameOf(row.workerId), () => dynamo.send(new PutItemCommand(registerParams(table, row, ids.next()))));
    },
    async heartbeat({ workerId, session, running, answered }) {
      const set = { running, answered };
      const { won, item } = await update(workerId, { session, states: ['active', 'draining'], set, raiseBeat: true });
      const row = item && decodeWorker(item);
      if (won && row) return { outcome: 'renewed', row };
      return row ? { outcome: 'refused', row } : { outcome: 'refused' };
    },
    async drain(workerId, session) {
      return (await update(workerId, { session, states: ['active'], set: { state: 'draining', rev: ids.next() } })).won;
    },
    async leave(workerId, session) {
      return (await update(workerId, { session, states: ['draining', 'left'], set: { state: 'left' } })).won;
    },
  };
}

/** Every row. One that cannot be read is left out: nothing is placed there, and whoever needs that very row is told. */
export async function workerRows(dynamo: DynamoDBClient, table: string): Promise<readonly WorkerRow[]> {
  const rows: WorkerRow[] = [];
  let after: Record<string, AttributeValue> | undefined;
  do {
    const params: ScanCommandInput = { TableName: table, ExclusiveStartKey: after };
    const page = await translated(`table "${table}"`, () => dynamo.send(new ScanCommand(params)));
    for (const item of page.Items ?? []) rows.push(...readable(item));
    after = page.LastEvaluatedKey;
  } while (after);
  return rows;
}

function readable(item: Item): readonly WorkerRow[] {
  try {
    return [decodeWorker(item)];
  } catch (error) {
    if (error instanceof PoolError) return [];
    throw error;
  }
}

export function registerParams(table: string, row: Parameters<Registry['register']>[0], rev: string): PutItemCommandInput {
  return { TableName: table, Item: toItem(encodeWorker({ ...row, state: 'active', beat: 0, running: 0 }, rev)) };
}

export interface RowFacts {
  /** The session that the row must be of, and the states that it may be in; absent: any. */
  readonly session: string;
  readonly states?: readonly WorkerRow['state'][];
  /** What is undefined stays. */
  readonly set: Partial<Pick<WorkerRow, 'state' | 'generation' | 'running' | 'answered'>> & { readonly rev?: string };
  readonly raiseBeat?: boolean;
}

export function rowParams(table: string, workerId: string, { session, states, set, raiseBeat = false }: RowFacts): Update {
  const allowed = Object.fromEntries((states ?? []).map((state, index) => [`state${index}`, state]));
  const UpdateExpression = setting(set) + (raiseBeat ? ' ADD #beat :one' : '');
  const inState = states ? ` AND #state IN (${Object.keys(allowed).map((name) => `:${name}`)})` : '';
  return {
    TableName: table,
    Key: toItem(workerKey(workerId)),
    ...expressed(
      { UpdateExpression, ConditionExpression: `#session = :session${inState}` },
      { ...set, ...allowed, session, one: raiseBeat ? 1 : undefined },
    ),
  };
}

function nameOf(workerId: string): string {
  return `worker "${workerId}"`;
}
