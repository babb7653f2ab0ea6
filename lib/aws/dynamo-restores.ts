import { type DynamoDBClient, PutItemCommand, QueryCommand, type QueryCommandInput } from '@aws-sdk/client-dynamodb';
import * as z from 'zod';
import type { EpochMs } from '../pool/job.ts';
import type { Clock, Ids } from '../pool/ports.ts';
import type { PoolState, WorkerRow } from '../pool/worker.ts';
import type { Recovered, Restoration } from '../resync/decide-restore.ts';
import type { RestoreStore } from '../resync/ports.ts';
import { type Check, type Put, read, transactIf } from './conditional-write.ts';
import { headKey, maxInlineBytes } from './dispatch-item.ts';
import { changeParams, deletePayload, dynamoDispatches, isOver, payloadParams } from './dynamo-dispatches.ts';
import { type CommitFacts, commitParams, whereAt } from './dynamo-jobs.ts';
import { translated } from './errors.ts';
import { expressed } from './expression.ts';
import { type Attributes, decode, toItem, toSeconds, version } from './item.ts';
import { jobKey } from './job-item.ts';
import { prefixes } from './tables.ts';
import { poolKey, workerKey } from './worker-item.ts';

export interface DynamoRestoresOptions {
  readonly dynamo: DynamoDBClient;
  /** Names of the tables. */
  readonly jobsTable: string;
  readonly workersTable: string;
  /** How long an ended job is remembered, ms. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly ids: Ids;
}

/**
 * Restorations, each one transaction over both tables. A crash leaves all of it or nothing, but for a payload that is an item of its own: that is
 * written before, as in an admission, and means nothing until a head points to it.
 *
 * The dispatch record is written in any case, so the `rev` that stands there afterwards tells whether it was this transaction that did. Two at
 * a time that touch the same item cancel each other, and the pool's record is touched by all: that is an outage like any other, and the report comes again.
 */
export function dynamoRestores({ dynamo, jobsTable, workersTable, retentionMs, clock, ids }: DynamoRestoresOptions): RestoreStore {
  const dispatches = dynamoDispatches({ dynamo, table: jobsTable, clock, ids });
  return {
    async restore(restoration, expected) {
      const { key, job, dispatch, displaced, by, recovered } = restoration;
      const { next, payload } = dispatch;
      const what = `job "${key}"`;
      const [rev, now] = [ids.next(), clock.now()];
      const apart = payload !== undefined && payload.byteLength > maxInlineBytes;
      if (apart) await translated(what, () => dynamo.send(new PutItemCommand(payloadParams(jobsTable, next, payload))));
      const missing = apart ? { payloadApart: true } : payload && { payload };

      const failed = await transactIf(dynamo, what, [
        job ? commitParams(jobsTable, job, { expected, rev, now, retentionMs }) : asReadParams(jobsTable, key, { expected, now }),
        changeParams(jobsTable, next, { expected: dispatch.expected, rev, now, missing }),
        ...(displaced ? [changeParams(jobsTable, displaced.next, { expected: displaced.expected, rev, now })] : []),
        registeredParams(workersTable, by),
        poolParams(jobsTable, by.generation),
        ...(recovered ? [recoveredParams(jobsTable, by.generation, recovered, { rev, expiresAt: now + retentionMs })] : []),
      ]);
      const head = failed && (await read(dynamo, what, jobsTable, toItem(headKey(next.dispatchId))));
      if (!failed || head?.rev?.S === rev) {
        // A transaction does not tell whether the other dispatch had a payload apart; to meet its record is to delete it.
        if (displaced) await dispatches.get(displaced.next.dispatchId);
        return { outcome: 'won' };
      }
      const winner = apart ? await dispatches.get(next.dispatchId) : undefined;
      // Somebody else who restores it may be about to point to the same payload; once it is over, nobody is.
      if (winner && isOver(winner)) await deletePayload(dynamo, jobsTable, next);
      return { outcome: 'lost' };
    },
    async recovered(generation, cursor) {
      const what = `recovery of generation ${generation}`;
      const params = recoveredInParams(jobsTable, generation, cursor);
      const { Items: items = [], LastEvaluatedKey: last } = await translated(what, () => dynamo.send(new QueryCommand(params)));
      return { items: items.map((item) => decode(what, recoveredSchema, item)), ...(last?.sk?.S !== undefined && { cursor: last.sk.S }) };
    },
  };
}

/** One item for each restoration, in the order of their `rev`s. */
function recoveredKey(generation: number): { readonly pk: string } {
  return { pk: prefixes.recovery + generation };
}

function recoveredParams(
  table: string,
  generation: number,
  recovered: Recovered,
  { rev, expiresAt }: { readonly rev: string; readonly expiresAt: EpochMs },
): Put {
  const item: Attributes = { ...recoveredKey(generation), sk: rev, v: version, rev, ...recovered, ttl: toSeconds(expiresAt) };
  return { TableName: table, Item: toItem(item), ConditionExpression: 'attribute_not_exists(pk)' };
}

/** The cursor is the revision that the page before ended with. */
function recoveredInParams(table: string, generation: number, cursor: string | undefined): QueryCommandInput {
  const { pk } = recoveredKey(generation);
  return {
    TableName: table,
    ConsistentRead: true,
    ...expressed({ KeyConditionExpression: '#pk = :pk' }, { pk }),
    ...(cursor === undefined ? {} : { ExclusiveStartKey: toItem({ pk, sk: cursor }) }),
  };
}

const recoveredSchema: z.ZodType<Recovered> = z.object({
  key: z.string(),
  dispatchId: z.string(),
  worker: z.string(),
  fence: z.int(),
  how: z.enum(['restored', 'raised', 'replaced']),
  lost: z.string().optional(),
});

/** Holds while the job record is the one that was read. */
function asReadParams(table: string, key: string, { expected, now }: Pick<CommitFacts, 'expected' | 'now'>): Check {
  return { TableName: table, Key: toItem(jobKey(key)), ...whereAt(expected, now) };
}

const registered: readonly WorkerRow['state'][] = ['active', 'draining', 'revoked'];

/** Holds while that session may still have handlers, and was seen in that generation. */
function registeredParams(table: string, { worker, session, generation }: Restoration['by']): Check {
  const states = Object.fromEntries(registered.map((state) => [state, state]));
  const isThere = `#session = :session AND #state IN (${registered.map((state) => `:${state}`)})`;
  const condition = { ConditionExpression: `${isThere} AND #generation = :generation` };
  return { TableName: table, Key: toItem(workerKey(worker)), ...expressed(condition, { session, generation, ...states }) };
}

/** Holds while the pool is of that generation, and not closed; without a record it is the first one, and open. */
function poolParams(table: string, generation: number): Check {
  const isOpen = '#state <> :closed AND #generation = :generation';
  const condition = { ConditionExpression: generation === first ? `attribute_not_exists(#pk) OR (${isOpen})` : isOpen };
  const closed: PoolState['state'] = 'closed';
  return { TableName: table, Key: toItem(poolKey), ...expressed(condition, { closed, generation }) };
}

const first = 1;
