import { channel } from 'node:diagnostics_channel';
import type { JobError, StopReason, WorkerRefusal } from '../wire/index.ts';
import type { Logger } from './logger.ts';

/** Why a command had no effect. */
export type DropReason =
  /** It is no command, or one of a version that this runtime does not know; a round sends again what matters of it. */
  | 'unreadable'
  /** It is for another session of this worker, or its session ended while it waited. */
  | 'other-session'
  /** A start, stop or release below what runs at the key. */
  | 'lower-fence'
  /** A notification or a confirm for a job that is not up here under that fence. */
  | 'not-up'
  /** A notification for a job that is being stopped. */
  | 'stopping'
  /** A notification for a handler that takes none. */
  | 'no-notify'
  /** A page of an older resync round than the last one. */
  | 'older-round';

interface OfJob {
  readonly key: string;
  readonly dispatchId: string;
  readonly fence: number;
}

/** What a worker tells of itself. A closed list: switch on `type`. */
export type WorkerEvent = { readonly workerId: string } & (
  | { readonly type: 'registered'; readonly session: string; readonly leaseMs: number }
  | { readonly type: 'renewed'; readonly session: string; readonly leaseLeftMs: number }
  /**
   * The session is over; every job is being stopped, and a new one is registered once nothing of them lives.
   * - `expired`: two thirds of the lease passed without a heartbeat that succeeded.
   * - `replaced`: the row is of another process under this id, was declared lost, or is gone.
   * - `evicted`: the pool took its right to renew, by an operator's hand or because it answers no rounds.
   * - `no-inbox`: its inbox was deleted.
   */
  | {
      readonly type: 'lease-lost';
      readonly session: string;
      readonly reason: 'expired' | 'replaced' | 'evicted' | 'no-inbox';
      readonly jobs: number;
    }
  /** Jobs still live although the lease has ended: other workers may run them now. */
  | { readonly type: 'overrun'; readonly keys: readonly string[] }
  | { readonly type: 'draining'; readonly by: 'this-process' | 'operator'; readonly deadlineMs?: number }
  | { readonly type: 'left'; readonly released: number; readonly abandoned: number }
  | ({ readonly type: 'job-started'; readonly attempt: number } & OfJob)
  | ({ readonly type: 'job-refused'; readonly reason: WorkerRefusal['reason'] } & OfJob)
  | ({ readonly type: 'job-start-failed'; readonly error: JobError } & OfJob)
  | ({ readonly type: 'job-stopped'; readonly reason: StopReason } & OfJob)
  | ({ readonly type: 'job-stop-failed'; readonly reason: StopReason; readonly error: JobError } & OfJob)
  | ({ readonly type: 'job-ended'; readonly error?: JobError } & OfJob)
  | ({ readonly type: 'job-released'; readonly reason: StopReason } & OfJob)
  /** The handler's `notify` threw, or the notification did not fit its schema. The job goes on. */
  | ({ readonly type: 'notify-failed'; readonly id: string; readonly error: JobError } & OfJob)
  | { readonly type: 'report-retried'; readonly reports: number; readonly attempt: number; readonly error: unknown }
  | { readonly type: 'command-dropped'; readonly why: DropReason; readonly op?: string; readonly key?: string; readonly detail?: string }
);

/** A `WorkerEvent` before it is known whose. */
export type EventDetail = WorkerEvent extends infer E ? (E extends WorkerEvent ? Omit<E, 'workerId'> : never) : never;

export type Emit = (event: EventDetail) => void;

/** Every event also goes to the `node:diagnostics_channel` of this name, so that tracing and metrics need no wrapper. */
export const channelName = 'holdfast:worker';

const levels = {
  registered: 'info',
  renewed: 'debug',
  'lease-lost': 'warn',
  overrun: 'error',
  draining: 'info',
  left: 'info',
  'job-started': 'info',
  'job-refused': 'info',
  'job-start-failed': 'warn',
  'job-stopped': 'info',
  'job-stop-failed': 'warn',
  'job-ended': 'info',
  'job-released': 'info',
  'notify-failed': 'error',
  'report-retried': 'warn',
  'command-dropped': 'debug',
} as const satisfies { readonly [type in WorkerEvent['type']]: keyof Logger };

/** Tells `onEvent`, the channel and the log. A throw in `onEvent` is logged and goes no further. */
export function emitter(workerId: string, onEvent: ((event: WorkerEvent) => void) | undefined, logger: Logger): Emit {
  const subscribers = channel(channelName);
  return (detail) => {
    const event = { workerId, ...detail } as WorkerEvent;
    const { type, ...fields } = event;
    const isUnreadable = event.type === 'command-dropped' && event.why === 'unreadable';
    logger[isUnreadable ? 'error' : levels[type]](type, fields);
    if (subscribers.hasSubscribers) subscribers.publish(event);
    try {
      onEvent?.(event);
    } catch (error) {
      logger.error('onEvent threw', { event: type, error });
    }
  };
}
