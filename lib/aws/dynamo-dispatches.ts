import {
  DeleteItemCommand,
  type DynamoDBClient,
  PutItemCommand,
  type PutItemCommandInput,
  UpdateItemCommand,
  type UpdateItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import type { Dispatch } from '../pool/dispatch.ts';
import type { EpochMs, Fence } from '../pool/job.ts';
import type { Clock, DispatchStore, Ids } from '../pool/ports.ts';
import { commitOf, type Put, putIf, read, type Update, updateIf, whereAbsent } from './conditional-write.ts';
import { decodeDispatch, encodeDispatch, headKey, maxInlineBytes, payloadKey } from './dispatch-item.ts';
import { conditionFailure, translate, translated } from './errors.ts';
import { expressed, setting } from './expression.ts';
import { type Item, isExpired, toItem, version } from './item.ts';

export interface DynamoDispatchesOptions {
  readonly dynamo: DynamoDBClient;
  /** Name of the Jobs table. */
  readonly table: string;
  readonly clock: Clock;
  readonly ids: Ids;
}

/**
 * Dispatch records and their payloads.
 *
 * The head alone is authoritative: a dispatch is admitted when its head is there, and over when its head says so. A payload of up to
 * 2 KiB stands in the head; a larger one is an item of its own, which the head points to by a flag, because every update is billed
 * for the whole item that it touches. That item is named by its content (the fingerprint), so two starts that fight over one
 * dispatch id never stand in each other's place, whichever of them wins.
 *
 *     admission   payload, then head      a crash in between leaves a payload that no head points to: nobody takes it for
 *                                         admitted, and the start, coming again, writes it once more
 *     lost        the head of another     its writer deletes its own payload, unless the head that won points to it
 *     over        head, then payload      a crash in between leaves a head that is over and still points: whoever meets it
 *                                         next (the message comes again, or the dispatch is replayed) deletes the payload
 *
 * What no redelivery heals (a start that died in between and is dead-lettered) is storage and nothing else.
 */
export function dynamoDispatches({ dynamo, table, clock, ids }: DynamoDispatchesOptions): DispatchStore {
  const readHead = (dispatchId: string) => read(dynamo, nameOf(dispatchId), table, toItem(headKey(dispatchId)));

  /** The record that a head holds; a payload that it has no more use for is gone then. */
  async function settled(head: Item | undefined): Promise<Dispatch | undefined> {
    if (!head || isExpired(head, clock.now())) return undefined;
    const dispatch = decodeDispatch(head);
    if (isOver(dispatch) && isApart(head)) await deletePayload(dynamo, table, dispatch);
    return dispatch;
  }

  const store: DispatchStore = {
    async get(dispatchId) {
      return settled(await readHead(dispatchId));
    },

    async payload(dispatchId) {
      const head = await readHead(dispatchId);
      const dispatch = await settled(head);
      if (!head || !dispatch || isOver(dispatch)) return undefined;
      return bytesOf(isApart(head) ? await read(dynamo, nameOf(dispatchId), table, toItem(payloadKey(dispatch))) : head);
    },

    async admit(dispatch, payload) {
      const what = nameOf(dispatch.dispatchId);
      const apart = payload.byteLength > maxInlineBytes;
      if (apart) await translated(what, () => dynamo.send(new PutItemCommand(payloadParams(table, dispatch, payload))));
      const held = apart ? { payloadApart: true } : { payload };
      const { won, item } = await putIf(dynamo, what, headParams(table, dispatch, { rev: ids.next(), now: clock.now() }, held));
      if (won) return { outcome: 'won' };
      const winner = await settled(item);
      if (apart && winner && (isOver(winner) || winner.fingerprint !== dispatch.fingerprint)) await deletePayload(dynamo, table, dispatch);
      return commitOf(false, winner);
    },

    async change(next, expected, maxFence) {
      const what = nameOf(next.dispatchId);
      const write = changeParams(table, next, { expected, maxFence, rev: ids.next(), now: clock.now() });
      const { won, item } = 'Item' in write ? await putIf(dynamo, what, write) : await updateIf(dynamo, what, write);
      const current = await settled(item);
      const higher = won ? undefined : withFenceOf(current, next, { expected, maxFence });
      return higher ? store.change(higher, expected, maxFence) : commitOf(won, current);
    },

    async raiseFence(dispatchId, fence) {
      try {
        await dynamo.send(new UpdateItemCommand(raiseFenceParams(table, dispatchId, fence)));
      } catch (error) {
        if (!conditionFailure(error)) throw translate(nameOf(dispatchId), error);
      }
    },
  };
  return store;
}

function nameOf(dispatchId: string): string {
  return `dispatch "${dispatchId}"`;
}

export async function deletePayload(dynamo: DynamoDBClient, table: string, dispatch: Dispatch): Promise<void> {
  const command = new DeleteItemCommand({ TableName: table, Key: toItem(payloadKey(dispatch)) });
  await translated(nameOf(dispatch.dispatchId), () => dynamo.send(command));
}

export function isOver({ status }: Dispatch): boolean {
  return status === 'ended' || status === 'never-started';
}

function isApart(head: Item): boolean {
  return head.payloadApart?.BOOL === true;
}

function bytesOf(item: Item | undefined): Uint8Array | undefined {
  return item?.payload?.B && new Uint8Array(item.payload.B);
}

export function payloadParams(table: string, dispatch: Dispatch, payload: Uint8Array): PutItemCommandInput {
  return { TableName: table, Item: toItem({ ...payloadKey(dispatch), v: version, payload }) };
}

/** A whole head, where there is none. */
function headParams(
  table: string,
  dispatch: Dispatch,
  { rev, now }: { readonly rev: string; readonly now: EpochMs },
  held?: HeldPayload,
): Put {
  return { TableName: table, Item: toItem({ ...encodeDispatch(dispatch, rev), ...held }), ...whereAbsent(now) };
}

/** What a head has of the payload: itself, or that it is an item of its own. */
export type HeldPayload = { readonly payload: Uint8Array } | { readonly payloadApart: boolean };

export interface ChangeCondition {
  readonly expected: Dispatch['status'] | 'absent';
  /** Default: any. */
  readonly maxFence?: Fence | undefined;
}

export interface ChangeFacts extends ChangeCondition {
  readonly rev: string;
  readonly now: EpochMs;
  /** For a head that has none. */
  readonly missing?: HeldPayload | undefined;
}

/** A whole head where none is expected, else what `next` knows more than the record; the payload goes only when the dispatch is over. */
export function changeParams(
  table: string,
  next: Dispatch,
  { expected, maxFence = next.fence, rev, now, missing }: ChangeFacts,
): Put | Update {
  if (expected === 'absent') return headParams(table, next, { rev, now }, missing);
  const { pk, sk, key, requestedAt, outcome, fingerprint, ...changed } = encodeDispatch(next, rev);
  const known = Object.entries({ outcome, fingerprint, ...missing }).filter(([, value]) => value !== undefined);
  const sets = [setting(changed), ...known.map(([name]) => `#${name} = if_not_exists(#${name}, :${name})`)];
  const conditions = ['#status = :expected', '#key = :key', '#fence <= :atMost'];
  if (fingerprint !== undefined) conditions.push('(attribute_not_exists(#fingerprint) OR #fingerprint = :fingerprint)');
  return {
    TableName: table,
    Key: toItem(headKey(next.dispatchId)),
    ...expressed(
      { UpdateExpression: sets.join(', ') + (isOver(next) ? ' REMOVE #payload' : ''), ConditionExpression: conditions.join(' AND ') },
      { ...changed, outcome, fingerprint, ...missing, key, expected, atMost: Math.min(next.fence, maxFence) },
    ),
  };
}

/** The change to try instead where it was lost to nothing but the record's higher fence, which stays. */
export function withFenceOf(
  current: Dispatch | undefined,
  next: Dispatch,
  { expected, maxFence = Number.POSITIVE_INFINITY }: ChangeCondition,
): Dispatch | undefined {
  const higher = current?.status === expected && current.fence > next.fence && current.fence <= maxFence;
  return higher ? { ...next, fence: current.fence } : undefined;
}

/** Holds only where the record is there and its fence is lower. */
function raiseFenceParams(table: string, dispatchId: string, fence: Fence): UpdateItemCommandInput {
  return {
    TableName: table,
    Key: toItem(headKey(dispatchId)),
    ...expressed({ UpdateExpression: setting({ fence }), ConditionExpression: '#fence < :fence' }, { fence }),
  };
}
