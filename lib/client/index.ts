import { awsClients } from '../aws/clients.ts';
import type { PoolConfig } from '../aws/config.ts';
import { loadPoolConfig } from '../aws/load-config.ts';
import { clientPorts } from '../aws/ports.ts';
import { named } from './calls.ts';
import type { AnyPayload, In, Schema } from './payload.ts';
import { createPool, type Pool, type PoolOptions } from './pool.ts';

export type { PoolConfig } from '../aws/config.ts';
export type { Failure, Holder, JobEnd, NotStarted, Started } from '../pool/dispatch.ts';
export { PoolError, type PoolErrorCode } from '../pool/errors.ts';
export type { JobName } from '../resync/recover.ts';
export type { IfBusy } from '../wire/index.ts';
export type { Abortable, Wait } from './calls.ts';
export type { JobDescription, JobStatus, LiveJobStatus, WorkerDescription, WorkerState } from './describe.ts';
export type { Dispatch } from './dispatch.ts';
export type { Ensured } from './ensure.ts';
export type { ListFilter } from './list.ts';
export type { End, FingerprintMismatch, Outcome } from './observation.ts';
export type { DrainReport, ResyncReport, WorkerHandle } from './operate.ts';
export type { AnyPayload, In, Schema } from './payload.ts';
export type { NotifyOptions, Pool, PoolOptions, StopOptions } from './pool.ts';
export type { RecoverReport, RecoverWait, RestoredJob } from './recover.ts';
export type { Entry, StartTerms } from './start.ts';
export type { Sent } from './start-many.ts';

/**
 * Connects to a pool by name (default `HOLDFAST_POOL`) or configuration; nothing is asked but the pool's parameter, and that not where
 * `HOLDFAST_POOL_CONFIG` has it. Region, credentials and endpoint are those of the SDK's environment.
 *
 *     using pool = await connect('feeds', { payload: Feed });
 *     const dispatch = await pool.start('tenant:17', { url }, { dispatchId: `order-${order.id}` });
 *     const outcome = await dispatch.outcome({ timeoutMs: 30_000 });
 *
 * Connect once per process. A pool that nobody waits on has no timer and keeps no process alive; a wait does, until it is answered,
 * its deadline passes, it is aborted or the pool is disposed of.
 *
 * Throws `no-such-pool`, `not-permitted`, `throttled`, `unavailable`.
 */
export async function connect<S extends Schema = Schema<AnyPayload>, N extends Schema = Schema<AnyPayload>>(
  pool?: string | PoolConfig,
  options?: PoolOptions<S, N>,
): Promise<Pool<In<S>, In<N>>> {
  const config = await loadPoolConfig(pool, process.env).catch((error) => {
    throw named(error, 'connect', 'a grant on the pool');
  });
  const clients = awsClients(config);
  const connected = createPool(clientPorts(config, clients), options);
  return {
    ...connected,
    [Symbol.dispose]() {
      connected[Symbol.dispose]();
      clients.destroy();
    },
  };
}
