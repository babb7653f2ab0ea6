import type { Dispatch } from '../pool/dispatch.ts';
import type { PoolError } from '../pool/errors.ts';
import type { Job } from '../pool/job.ts';
import type { Clock, Ids, Page, Timer, WorkerStore } from '../pool/ports.ts';
import type { WorkerRow } from '../pool/worker.ts';
import type { RestoreStore, RoundMachine, RoundStore } from '../resync/ports.ts';
import type { PoolRecord, QueueGauges, RecoverPorts } from '../resync/recover.ts';
import type { Request } from '../wire/index.ts';

/** What a client needs of the world; `lib/aws` has each on a service, `lib/testing` each in memory. Methods may throw a `PoolError`. */
export interface ClientPorts {
  readonly requests: RequestBatchSender;
  readonly records: RecordReader;
  readonly operate: OperatePorts;
  readonly clock: Clock;
  readonly timer: Timer;
  readonly ids: Ids;
}

/**
 * What operating takes, and no more: rows are changed, a round is asked for and looked at, the pool's own record is written; and the rest is
 * the control plane's.
 */
export interface OperatePorts {
  readonly workers: Pick<WorkerStore, 'get' | 'change'>;
  readonly rounds: Pick<RoundStore, 'get'>;
  readonly machine: Pick<RoundMachine, 'start'>;
  readonly pool: PoolRecord;
  readonly gauges: QueueGauges;
  readonly owned: RecoverPorts['owned'];
  readonly restores: Pick<RestoreStore, 'recovered'>;
  /** The pool's lease, ms. */
  readonly leaseMs: number;
}

export interface RequestBatchSender {
  /** Enqueues each request under a deduplication id of its own; one result per request, in order: undefined where the queue has it. Splits what does not fit one call. */
  send(requests: readonly Request[]): Promise<readonly (PoolError | undefined)[]>;
}

/** Reads, all of them consistent but for the index pages, which are hints. Expired records count as none. */
export interface RecordReader {
  dispatches(ids: readonly string[]): Promise<ReadonlyMap<string, Dispatch>>;
  jobs(keys: readonly string[]): Promise<ReadonlyMap<string, Job>>;
  /** Keys of jobs that wait, all shards. */
  pendingKeys(cursor?: string): Promise<Page<string>>;
  keysOwnedBy(workerId: string, cursor?: string): Promise<Page<string>>;
  workers(): Promise<readonly WorkerRow[]>;
}
