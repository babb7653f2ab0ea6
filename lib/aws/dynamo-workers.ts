import {
  type AttributeValue,
  DeleteItemCommand,
  type DynamoDBClient,
  PutItemCommand,
  type PutItemCommandInput,
  ScanCommand,
  type ScanCommandInput,
} from '@aws-sdk/client-dynamodb';
import { PoolError } from '../pool/errors.ts';
import type { Clock, Ids, RowChange, RowCondition, WorkerStore } from '../pool/ports.ts';
import { PRESENT, type WorkerRow } from '../pool/worker.ts';
import { heartbeatOf } from '../worker/lease.ts';
import type { Registry } from '../worker/ports.ts';
import { cached } from './cached.ts';
import { read, type Update, updateIf } from './conditional-write.ts';
import { conditionFailure, translate, translated } from './errors.ts';
import { expressed, setting } from './expression.ts';
import { type Attributes, type Item, toItem } from './item.ts';
import { decodePool, decodeWorker, encodeWorker, NO_RECORD, poolKey, workerKey } from './worker-item.ts';

export interface DynamoWorkersOptions {
  readonly dynamo: DynamoDBClient;
  /** Names of the tables. */
  readonly workersTable: string;
  readonly jobsTable: string;
  readonly clock: Clock;
  readonly ids: Ids;
  /** How old what it lists may be, ms. Default 5 000: a row is read again, consistently, before anything is sent to its worker. */
  readonly maxAgeMs?: number;
}

/** Worker rows as the control plane sees them. */
export function dynamoWorkers({ dynamo, workersTable: table, jobsTable, clock, ids, maxAgeMs = 5_000 }: DynamoWorkersOptions): WorkerStore {
  return {
    async get(workerId) {
      const item = await read(dynamo, nameOf(workerId), table, toItem(workerKey(workerId)));
      return item && decodeWorker(item);
    },
    list: cached(clock, maxAgeMs, () => workerRows(dynamo, table)),
    async change(workerId, where, change) {
      const params = rowParams(table, workerId, { ...where, set: { ...change, rev: ids.next() } });
      const { won, item } = await updateIf(dynamo, nameOf(workerId), params);
      return won ? item && decodeWorker(item) : undefined;
    },
    async remove(workerId, where) {
      const params = { TableName: table, Key: toItem(workerKey(workerId)), ...rowCondition(where, {}, {}) };
      try {
        await dynamo.send(new DeleteItemCommand(params));
      } catch (error) {
        if (!conditionFailure(error)) throw translate(nameOf(workerId), error);
      }
    },
    poolState: cached(clock, maxAgeMs, async () => {
      const item = await read(dynamo, 'record "pool"', jobsTable, toItem(poolKey));
      return item ? decodePool(item) : NO_RECORD;
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
 */
export function dynamoRegistry({ dynamo, table, ids }: DynamoRegistryOptions): Registry {
  const update = (workerId: string, facts: RowFacts) => updateIf(dynamo, nameOf(workerId), rowParams(table, workerId, facts));
  return {
    async register(row) {
      await translated(nameOf(row.workerId), () => dynamo.send(new PutItemCommand(registerParams(table, row, ids.next()))));
    },
    async heartbeat({ workerId, session, ...set }) {
      const { item } = await update(workerId, { session, states: PRESENT, set });
      return heartbeatOf({ workerId, session, ...set }, item && decodeWorker(item));
    },
    async drain(workerId, session) {
      return (await update(workerId, { session, states: ['active'], set: { state: 'draining', rev: ids.next() } })).won;
    },
    async leave(workerId, session) {
      return (await update(workerId, { session, states: ['draining', 'left'], set: { state: 'left', rev: ids.next() } })).won;
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

function registerParams(table: string, row: Parameters<Registry['register']>[0], rev: string): PutItemCommandInput {
  return { TableName: table, Item: toItem(encodeWorker({ ...row, state: 'active', beat: 0, running: 0 }, rev)) };
}

export interface RowFacts extends RowCondition {
  /** What is undefined stays. */
  readonly set: RowChange & Partial<Pick<WorkerRow, 'beat' | 'running' | 'answered'>> & { readonly rev?: string };
}

function rowParams(table: string, workerId: string, { set, ...where }: RowFacts): Update {
  return { TableName: table, Key: toItem(workerKey(workerId)), ...rowCondition(where, { UpdateExpression: setting(set) }, { ...set }) };
}

/** Holds while the row is of that session, in one of those states and, where one is named, at that beat; where one is set, below it. */
function rowCondition<E extends object>({ session, states, beat }: RowCondition, expressions: E, values: Attributes) {
  const allowed = Object.fromEntries(states.map((state, index) => [`state${index}`, state]));
  const isOf = `#session = :session AND #state IN (${Object.keys(allowed).map((name) => `:${name}`)})`;
  const isSeen = beat === undefined ? '' : ' AND #beat = :seen';
  const isRaised = values.beat === undefined ? '' : ' AND #beat < :beat';
  return expressed({ ...expressions, ConditionExpression: isOf + isSeen + isRaised }, { ...values, ...allowed, session, seen: beat });
}

function nameOf(workerId: string): string {
  return `worker "${workerId}"`;
}
