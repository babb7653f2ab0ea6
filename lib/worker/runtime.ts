import type { WorkerEvent } from './events.ts';
import type { Handler } from './handler.ts';
import type { Logger } from './logger.ts';
import type { WorkerPorts } from './ports.ts';

export interface RuntimeOptions {
  readonly handler: Handler;
  readonly workerId: string;
  /** The pool's lease, 3 000 to 90 000 ms: how long this worker may run jobs after its last heartbeat was sent. */
  readonly leaseMs: number;
  /** Jobs at most. */
  readonly capacity: number;
  /** How long a drain may take where it names no deadline of its own. */
  readonly drainDeadlineMs: number;
  /** How long one stop of a job may take; never beyond the drain's or the lease's end. */
  readonly stopDeadlineMs: number;
  /** How long a command may lie in an inbox: so long are ends remembered at least. Default one hour. */
  readonly inboxRetentionMs?: number;
  readonly logger: Logger;
  readonly onEvent?: (event: WorkerEvent) => void;
}

export interface Worker extends AsyncDisposable {
  readonly workerId: string;
  /** After a lost lease it is `registering` again. */
  readonly state: 'registering' | 'active' | 'draining' | 'left';
  readonly health: Health;
  /**
   * Takes no more jobs, stops those that it has and hands them back, then leaves. Resolves once it has left, or at its deadline (default: the
   * option `drainDeadlineMs`) with what would not stop counted as `abandoned`. Called again, it joins; an earlier deadline counts.
   */
  drain(options?: { readonly deadlineMs?: number }): Promise<DrainReport>;
  /** Resolves once the worker has left or was abandoned; it never rejects. */
  readonly closed: Promise<DrainReport>;
}

export interface Health {
  /** False only after an overrun, or where the runtime itself died. */
  readonly live: boolean;
  /** Registered, active, lease held. */
  readonly ready: boolean;
  readonly leaseLeftMs: number;
  readonly jobs: number;
}

export interface DrainReport {
  /** Jobs stopped and handed back. */
  readonly released: number;
  /** Jobs whose handler still lived at the deadline. */
  readonly abandoned: number;
}

/** A worker that works over ports alone; the simulation runs it on a virtual clock. */
export interface Runtime extends Worker {
  /** Registers, then works until it is drained. Resolves once registered; rejects where that cannot succeed. Call it once. */
  start(): Promise<void>;
  /** Every job whose handler may be alive here, for checks. */
  readonly lives: readonly {
    readonly key: string;
    readonly dispatchId: string;
    readonly fence: number;
    readonly phase: 'starting' | 'up';
  }[];
}

export declare function createWorker(ports: WorkerPorts, options: RuntimeOptions): Runtime;
