import type { Clock, Ids, Timer } from '../pool/ports.ts';
import type { WorkerRow } from '../pool/worker.ts';
import type { Report } from '../wire/index.ts';

/** What the worker runtime needs of the world; `lib/aws` has each on a service, `lib/testing` each in memory. Methods may throw a `PoolError`. */
export interface WorkerPorts {
  readonly registry: Registry;
  readonly inboxes: Inboxes;
  readonly reports: ReportSender;
  readonly clock: WorkerClock;
  readonly timer: Timer;
  readonly ids: Ids;
}

export interface WorkerClock extends Clock {
  /** Milliseconds since some moment; never goes back. On Linux it stands still while the machine is suspended, which is why elapsed time is the larger of both clocks'. */
  monotonic(): number;
}

/** The worker's own row. It needs no leave of the control plane, and may touch no other table. */
export interface Registry {
  /** Writes the row of a new session, replacing whatever stood there. */
  register(row: Pick<WorkerRow, 'workerId' | 'session' | 'leaseMs' | 'capacity' | 'registeredAt'>): Promise<void>;
  /** Raises the row's beat to this one where the row is of this session, active or draining, and its beat is lower. */
  heartbeat(said: {
    readonly workerId: string;
    readonly session: string;
    /** How many heartbeats the session has sent, this one included. */
    readonly beat: number;
    readonly running: number;
    readonly answered?: string;
  }): Promise<Heartbeat>;
  /** Turns the row of this session from active to draining; false where it is not active. */
  drain(workerId: string, session: string): Promise<boolean>;
  /** Turns the row of this session from draining to left; call it only once no handler is alive. */
  leave(workerId: string, session: string): Promise<boolean>;
}

export type Heartbeat =
  | { readonly outcome: 'renewed'; readonly row: WorkerRow }
  /** The row has the beat of one that was sent later: it is that one's answer that renews, and this one changed nothing. */
  | { readonly outcome: 'overtaken' }
  /** Carries the row that is there instead, which says why: another session, revoked, lost, left, or none. */
  | { readonly outcome: 'refused'; readonly row?: WorkerRow };

export interface Inboxes {
  /** Creates the inbox of a session; nothing where it is there already. Call it before `register`. */
  create(session: string): Promise<void>;
  /**
   * Waits up to `waitMs` for commands, at most 10. `no-inbox`: it is gone. `givenUp` fires once the worker has left: only then may the wait be
   * cut short, for what such a poll has received is hidden from everybody for a while.
   */
  receive(session: string, waitMs: number, givenUp?: AbortSignal): Promise<readonly Received[] | 'no-inbox'>;
  /** Deletes what was received. What is not deleted comes again. */
  delete(session: string, receipts: readonly string[]): Promise<void>;
}

export interface Received {
  readonly body: string;
  readonly receipt: string;
}

export interface ReportSender {
  /** Enqueues every report or throws; after a throw any of them may have been enqueued. */
  send(reports: readonly Report[]): Promise<void>;
}
