import { PoolError } from '../pool/errors.ts';
import { abortable } from './abortable.ts';
import type { Calls, Wait } from './calls.ts';

/** From one look to the next: 100 ms at first, each twice the one before, up to 2 s. */
const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 2_000;

/**
 * Looks until there is something to see. A look that fails in a way that may pass saw nothing; any other failure ends the watch. Throws
 * `deadline-exceeded` with what `unseen` says by then, or the signal's reason.
 */
export async function watch<T>(
  { ports: { timer }, disposed }: Calls,
  { timeoutMs, signal }: Wait,
  look: () => Promise<T | undefined>,
  unseen: () => string,
): Promise<T> {
  const deadline = new AbortController();
  const over = AbortSignal.any([deadline.signal, disposed, ...(signal ? [signal] : [])]);
  let trouble: PoolError | undefined;
  const seen = async (): Promise<T | undefined> => {
    try {
      const found = await look();
      trouble = undefined;
      return found;
    } catch (error) {
      if (!(error instanceof PoolError && error.retryable)) throw error;
      trouble = error;
      return undefined;
    }
  };
  const cancelDeadline = timer.after(timeoutMs, () => {
    const met = trouble ? `; the last look failed: ${trouble.message}` : '';
    deadline.abort(new PoolError('deadline-exceeded', unseen() + met, { retryable: true, cause: trouble }));
  });
  let cancelPause = () => {};
  try {
    return await abortable(over, async () => {
      for (let delayMs = FIRST_DELAY_MS; ; delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS)) {
        const found = await seen();
        if (found !== undefined) return found;
        // Nobody hears any more; a pause begun now would keep the process alive.
        over.throwIfAborted();
        await new Promise<void>((resolve) => {
          cancelPause = timer.after(delayMs, resolve);
        });
      }
    });
  } finally {
    cancelDeadline();
    cancelPause();
  }
}
