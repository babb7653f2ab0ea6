import type { PoolEvent } from '../wire/index.ts';
import { decideEvents, type RecordChange } from './decide-events.ts';
import type { WorkerStore } from './ports.ts';

/** The bus that a pool tells its changes on. */
export interface EventBus {
  /** Publishes the event, perhaps together with others that are given at the same time, or throws; then it may have been published. */
  publish(event: PoolEvent): Promise<void>;
}

/**
 * Tells what a write changed, once it is durable: the caller reads it from the stream of what was written, so no lock is held and nothing of
 * the pool waits. One event at a time: the next one of the same record goes out only when the one before is out.
 *
 * A function that dies in between is given the write again, and tells all of it again under the same ids.
 */
export async function tellChange(
  { bus, workers }: { readonly bus: EventBus; readonly workers: Pick<WorkerStore, 'poolState'> },
  pool: string,
  change: RecordChange | undefined,
): Promise<void> {
  if (!change) return;
  const { generation } = await workers.poolState();
  for (const event of decideEvents(change, { pool, generation })) await bus.publish(event);
}
