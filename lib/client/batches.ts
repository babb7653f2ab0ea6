import type { Timer } from '../pool/ports.ts';
import { abortable } from './abortable.ts';

/** How long a batch that is not full waits for more, ms. */
const LINGER_MS = 50;

/**
 * The items of `source` in order, in batches of up to `size`, read no faster than the batches are taken. A batch goes as soon as
 * it is full or the source keeps it waiting, so a slow source delays nothing that it already gave. Where the source throws, what it
 * gave before still comes first.
 */
export async function* inBatches<T>(
  source: Iterable<T> | AsyncIterable<T>,
  size: number,
  timer: Timer,
  signal?: AbortSignal,
): AsyncGenerator<readonly T[], void, undefined> {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  /** What the source was asked for and no batch has taken; it outlives the batch that gave up waiting for it. */
  let asked: Promise<IteratorResult<T>> | undefined;
  const ask = () => {
    asked ??= (async () => iterator.next())();
    return asked;
  };
  let isOpen = true;
  try {
    for (;;) {
      const first = await abortable(signal, ask);
      asked = undefined;
      isOpen = !first.done;
      if (first.done) return;
      const batch = [first.value];
      const { promise: tooLong, resolve } = Promise.withResolvers<undefined>();
      const cancel = timer.after(LINGER_MS, () => resolve(undefined));
      while (batch.length < size) {
        // An error stays where it is, and is met again once this batch is out.
        const more = await Promise.race([ask().catch(() => undefined), tooLong]);
        if (!more || more.done) break;
        asked = undefined;
        batch.push(more.value);
      }
      cancel();
      yield batch;
    }
  } finally {
    if (isOpen) {
      const closed = (async () => iterator.return?.())();
      // A source that still owes an item closes only after it: leaving must not wait for that.
      if (asked) closed.catch(() => {});
      else await closed;
    }
  }
}
