import { isDeploymentWrong, PoolError, reasonOf } from './errors.ts';
import type { Telemetry } from './ports.ts';

/**
 * One batch of queue messages, for any queue and any function.
 *
 * Authoritative is the queue: what is not reported as failed is deleted by the caller, so a message is reported failed unless
 * it was handled or a copy of it is safe in the dead-letter queue. Groups (one per key) run side by side, each in order; a
 * failure stops the rest of its own group only, since a later message of a key must not overtake an earlier one.
 *
 * A crash at any point returns the whole batch, handled messages included: handling is idempotent by itself, and a copy already
 * dead-lettered is dead-lettered again, never lost.
 */
export interface Delivery {
  readonly id: string;
  readonly body: string;
  /** FIFO message group; absent on a standard queue, where every message stands alone. */
  readonly group?: string;
  /** How often it was received, this time included. */
  readonly receiveCount: number;
}

/** The queue that the batch came from. */
export interface Source {
  /** Makes the message visible again after that time instead of after the queue's whole visibility timeout. */
  retryAfter(delivery: Delivery, delayMs: number): Promise<void>;
  /** Puts a copy, with its reason as an attribute, where operators look for refused messages. */
  deadLetter(delivery: Delivery, reason: string): Promise<void>;
}

/** At this receive the function dead-letters a failing message itself, so that it takes no healthy neighbours along. */
export const LAST_RECEIVE = 20;

/** 1 s × 2^k up to 60 s: a whole visibility timeout would block the key. */
export function retryDelayMs(receiveCount: number): number {
  return Math.min(1_000 * 2 ** (receiveCount - 1), 60_000);
}

/**
 * Handles every delivery with `consume`, which returns once its message is handled and throws where it is not. A `PoolError`
 * that no retry can mend is dead-lettered at once; `not-permitted` and `no-such-pool` end the whole batch, because it is the
 * deployment that is wrong and not the message; anything else is tried again later.
 *
 * Returns the ids of the messages that must stay on the queue, in the batch's order.
 */
export async function processBatch(
  deliveries: readonly Delivery[],
  consume: (delivery: Delivery) => Promise<void>,
  source: Source,
  telemetry: Telemetry,
): Promise<readonly string[]> {
  const failed = new Set<string>();

  async function attempt(delivery: Delivery): Promise<boolean> {
    try {
      await consume(delivery);
      return true;
    } catch (error) {
      if (isDeploymentWrong(error)) throw error;
      const reason = reasonOf(error);
      telemetry.failed({ message: delivery.id, receiveCount: delivery.receiveCount, reason, error });
      const hopeless = error instanceof PoolError && !error.retryable;
      return (hopeless || delivery.receiveCount >= LAST_RECEIVE) && (await deadLettered(delivery, reason));
    }
  }

  async function deadLettered(delivery: Delivery, reason: string): Promise<boolean> {
    try {
      await source.deadLetter(delivery, reason);
      telemetry.count('dead-lettered');
      return true;
    } catch (error) {
      telemetry.failed({ message: delivery.id, receiveCount: delivery.receiveCount, reason: 'could not be dead-lettered', error });
      return false;
    }
  }

  async function inOrder(group: readonly Delivery[]): Promise<void> {
    for (const [index, delivery] of group.entries()) {
      if (await attempt(delivery)) continue;
      const kept = group.slice(index);
      for (const { id } of kept) failed.add(id);
      // Those behind it wait no longer than it does. Best effort: without it they wait for the queue's own timeout.
      await Promise.allSettled(kept.map((each) => source.retryAfter(each, retryDelayMs(delivery.receiveCount))));
      return;
    }
  }

  const ended = await Promise.allSettled([...groups(deliveries).values()].map(inOrder));
  // Only once every group came to rest: a function that returns earlier is frozen in the middle of its writes.
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
  return deliveries.filter(({ id }) => failed.has(id)).map(({ id }) => id);
}

function groups(deliveries: readonly Delivery[]): Map<string, Delivery[]> {
  const byGroup = new Map<string, Delivery[]>();
  for (const delivery of deliveries) {
    const name = delivery.group ?? `message ${delivery.id}`;
    const group = byGroup.get(name);
    if (group) group.push(delivery);
    else byGroup.set(name, [delivery]);
  }
  return byGroup;
}
