/**
 * How a worker goes: its row first, so that nothing more is placed here; then its jobs, all at once, each handed back; then what still comes
 * out of the inbox, refused; then `left`, and only then, because from that moment on its keys are given to others without asking.
 *
 * A crash on the way is a crash of a worker: what was handed back is placed already, the rest a lease later. So is a missed deadline, but for
 * handlers that still live being told by `lost`.
 */
import { backoffMs, pause } from './backoff.ts';
import { atMost, type Deadline, type Time } from './deadline.ts';
import type { Logger } from './logger.ts';
import type { Registry } from './ports.ts';

/** What a drain needs of the worker that goes. */
export interface DrainHost {
  readonly registry: Pick<Registry, 'drain' | 'leave'>;
  readonly time: Time;
  readonly logger: Logger;
  readonly workerId: string;
  /** The one that is registered; none where it never was, or was lost. */
  readonly session: { readonly id: string; readonly isOver: boolean; polledEmpty(): Promise<void> } | undefined;
  /** How many handlers may be alive. */
  readonly running: number;
  handBack(): void;
  /** Resolves once no handler is alive. */
  stopped(): Promise<void>;
  /** Resolves once the report queue has everything. */
  reported(): Promise<void>;
}

/** Stops wait for the row no longer than this: they can do without it, and the deadline does not wait. */
const rowFirstMs = 2_000;
const lastWordMs = 1_000;
const firstRetryMs = 250;
const maxRetryMs = 5_000;

/** Resolves to whether `left` was written: not where a handler lived at the deadline, nor where the session is over. */
export async function drain(host: DrainHost, deadline: Deadline): Promise<boolean> {
  const { session, time } = host;
  const until = (work: Promise<unknown>) => Promise.race([work, deadline.passed]);
  if (!session) {
    await until(host.stopped());
    return false;
  }
  const marked = written('drain', host, session, deadline);
  await atMost(time, rowFirstMs, marked, [deadline]);
  host.handBack();
  await until(host.stopped());
  // Starts that were on their way are refused, and the refusals are said.
  await until(session.polledEmpty());
  await until(host.reported());
  if (host.running > 0 || session.isOver) return false;
  // With no handler alive it is true also after a missed deadline, and spares its keys the wait for a lease.
  const leaving = marked.then(() => written('leave', host, session, deadline));
  await until(leaving);
  let hasLeft = false;
  const left = leaving.then((isWritten) => {
    hasLeft = isWritten;
  });
  await atMost(time, lastWordMs, left);
  return hasLeft;
}

/** Tries until the row says so, or it can be of no use any more. */
async function written(
  what: 'drain' | 'leave',
  { registry, time, logger, workerId }: DrainHost,
  session: { readonly id: string; readonly isOver: boolean },
  deadline: Deadline,
): Promise<boolean> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await registry[what](workerId, session.id);
    } catch (error) {
      logger.warn(`${what} could not be written`, { workerId, failures, error });
    }
    if (deadline.isPast || session.isOver) return false;
    await pause(time.timer, backoffMs(failures, firstRetryMs, maxRetryMs));
  }
}
