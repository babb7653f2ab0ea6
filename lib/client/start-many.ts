import { PoolError } from '../pool/errors.ts';
import type { StartRequest } from '../wire/index.ts';
import { inBatches } from './batches.ts';
import { type Abortable, type Calls, invalid, named } from './calls.ts';
import { type Dispatch, dispatchHandle } from './dispatch.ts';
import type { Schema } from './payload.ts';
import { type Entry, startOf, subjectOf } from './start.ts';

/** What became of one entry of `startMany`: the queue has it, or not. */
export type Sent =
  | { readonly sent: true; readonly key: string; readonly dispatchId: string; readonly dispatch: Dispatch }
  | { readonly sent: false; readonly key: string; readonly dispatchId?: string; readonly error: PoolError };

/** As many as one call of the queue takes. */
const BATCH = 10;

export async function* startMany(
  calls: Calls,
  schema: Schema | undefined,
  entries: Iterable<Entry<unknown>> | AsyncIterable<Entry<unknown>>,
  { signal }: Abortable = {},
): AsyncGenerator<Sent, void, undefined> {
  const { ids, timer } = calls.ports;
  const make = async (entry: Entry<unknown>) => ({ entry, start: await startOf(entry, schema, ids).catch(unfit) });
  for await (const batch of inBatches(entries, BATCH, timer, signal)) {
    const made = await calls.run('startMany', 'grantProduce', signal, () => Promise.all(batch.map(make)));
    const starts = made.flatMap(({ start }) => (start instanceof PoolError ? [] : start));
    const errors = await send(calls, starts, signal);
    for (const { entry, start } of made) {
      if (start instanceof PoolError) yield { sent: false, ...idsOf(entry), error: start };
      else {
        const { key, dispatchId } = start;
        const error = errors.get(start);
        yield error
          ? { sent: false, key, dispatchId, error }
          : { sent: true, key, dispatchId, dispatch: dispatchHandle(calls, subjectOf(start)) };
      }
    }
  }
}

/** Why those that are not in the queue are not. */
async function send(calls: Calls, starts: readonly StartRequest[], signal?: AbortSignal): Promise<ReadonlyMap<StartRequest, PoolError>> {
  if (starts.length === 0) return new Map();
  try {
    const answers = await calls.run('startMany', 'grantProduce', signal, () => calls.ports.requests.send(starts));
    const errors = new Map<StartRequest, PoolError>();
    for (const [index, start] of starts.entries()) {
      const error = answers[index];
      if (error) errors.set(start, named(error, 'startMany', 'grantProduce'));
    }
    return errors;
  } catch (error) {
    if (signal?.aborted || !(error instanceof PoolError)) throw error;
    return new Map(starts.map((start) => [start, error]));
  }
}

/** No entry, whatever it is, may stop the others. */
function unfit(error: unknown): PoolError {
  const told = named(error, 'startMany', 'grantProduce');
  return told instanceof PoolError ? told : invalid(`startMany(): ${told instanceof Error ? told.message : told}`, error);
}

/** Which entry it was; it may be anything. */
function idsOf(entry: Partial<Entry<unknown>> | null | undefined): { readonly key: string; readonly dispatchId?: string } {
  const dispatchId = entry?.dispatchId;
  return { key: String(entry?.key ?? ''), ...(dispatchId !== undefined && { dispatchId: String(dispatchId) }) };
}
