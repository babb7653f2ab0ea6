import { assertId, assertKey } from '../wire/index.ts';
import { type Abortable, Calls, named, type Wait } from './calls.ts';
import { describeJob, describeWorker, type JobDescription, type WorkerDescription } from './describe.ts';
import { type Dispatch, dispatchHandle } from './dispatch.ts';
import { type Ensured, ensure } from './ensure.ts';
import { type ListFilter, list } from './list.ts';
import { type WorkerHandle, workerHandle } from './operate.ts';
import { type AnyPayload, bytesOf, type In, type Schema } from './payload.ts';
import type { ClientPorts } from './ports.ts';
import { type RecoverReport, type RecoverWait, recover } from './recover.ts';
import { type Entry, type StartTerms, startOf, subjectOf, valid } from './start.ts';
import { type Sent, startMany } from './start-many.ts';

/**
 * A pool as its producers and observers see it.
 *
 * Refusals, failures and ends are values. Thrown is a `PoolError`, or the own reason of the `signal` that every method takes. Aborting
 * ends the waiting and not the deed: a request on its way may still arrive.
 *
 * Any method may throw `invalid-request` (what it was given is beyond a limit; nothing was sent), `not-permitted` (it names the grant that is
 * missing), `throttled` or `unavailable` (try again: a dispatch id is the same start however often it is sent). Waits throw
 * `deadline-exceeded` with what is known by then, reads `corrupt-record` where a record cannot be read.
 */
export interface Pool<P = AnyPayload, N = AnyPayload> extends Disposable {
  /**
   * Asks for a job at `key`. Resolves when the queue has the request; what became of it says `outcome()`.
   *
   * Sent again with the same `dispatchId`, key and payload it is the same start: it changes nothing, and its outcome is the recorded
   * one for as long as the pool remembers it (30 days by default).
   */
  start(key: string, payload: P, options?: StartTerms & Abortable): Promise<Dispatch>;
  /**
   * Starts many, in order and in batches, read no faster than the results are. One result per entry: an entry that is invalid or was
   * not sent does not stop the others. Where the source throws, so does this, once what came before is through.
   */
  startMany(entries: Iterable<Entry<P>> | AsyncIterable<Entry<P>>, options?: Abortable): AsyncIterable<Sent>;
  /**
   * Sees that a job with this payload runs at `key`: starts it, or joins the one that is there already (`existing`), and waits until it
   * is up. A key that is busy with another payload is a value, as is every other end of the start.
   */
  ensure(key: string, payload: P, wait: Wait): Promise<Ensured>;
  /** Stops one dispatch or, without `dispatchId`, whatever is admitted at `key`. Resolves when the queue has it; for the effect await `ended()`. */
  stop(key: string, options?: StopOptions): Promise<void>;
  /** Hands a notification to the job that is live at `key`; where none is, it is dropped. Resolves when the queue has it. */
  notify(key: string, payload: N, options?: NotifyOptions): Promise<{ readonly id: string }>;
  /** A handle by name; asks nothing. Not knowing key and payload, it cannot tell that the id belongs to another request. */
  dispatch(dispatchId: string): Dispatch;
  /** The record of the key's job, read consistently; undefined where there never was one, or it has expired. */
  describe(key: string, options?: Abortable): Promise<JobDescription | undefined>;
  /** Live jobs, found by index; one that changes hands in the meantime may be missed. */
  list(filter?: ListFilter): AsyncIterable<JobDescription>;
  /** Every worker that is there, or was within the last hour. A row that cannot be read is left out. */
  workers(options?: Abortable): AsyncIterable<WorkerDescription>;
  /** A handle by name; asks nothing. What it does throws `not-found` where there is no such worker. */
  worker(workerId: string): WorkerHandle;
  /**
   * For the operator who restores a table to an earlier moment: sets the records right by what the workers really run. Until it is over nothing
   * is assigned, and starts wait; it takes at least half a minute, or a lease. Nothing else of the pool has to be stopped. Where the wait ends
   * early the pool goes on recovering, and another call goes on with that. It leaves the pool open.
   *
   * Where the table is put back before this is called, the pool acts on the older records in between, and may start elsewhere what a worker
   * still runs: let `putBack` do it.
   */
  recover(wait: RecoverWait): Promise<RecoverReport>;
}

export interface StopOptions extends Abortable {
  /** The one to stop, and no other. Default: whatever is admitted at the key, one that waits for its turn included. */
  readonly dispatchId?: string;
}

export interface NotifyOptions extends Abortable {
  /** 1 to 128 bytes; the handler gets the same one with each repeat. Default: a ULID. */
  readonly id?: string;
}

export interface PoolOptions<S extends Schema, N extends Schema> {
  /** Any Standard Schema. Payloads are checked against it and sent as JSON; the handler's schema parses them. */
  readonly payload?: S;
  /** Likewise, for notifications. */
  readonly notification?: N;
}

/** The client over ports. Once disposed of, it ends every wait and takes no more calls. */
export function createPool<S extends Schema = Schema<AnyPayload>, N extends Schema = Schema<AnyPayload>>(
  ports: ClientPorts,
  schemas: PoolOptions<S, N> = {},
): Pool<In<S>, In<N>> {
  const { records, ids } = ports;
  const calls = new Calls(ports);

  return {
    start: async (key, payload, { signal, ...terms } = {}) =>
      calls.run('start', 'grantProduce', signal, async () => {
        const start = await startOf({ ...terms, key, payload }, schemas.payload, ids);
        await calls.send(start);
        return dispatchHandle(calls, subjectOf(start));
      }),

    startMany: (entries, options) => startMany(calls, schemas.payload, entries, options),

    ensure: (key, payload, wait) => ensure(calls, schemas.payload, key, payload, wait),

    stop: async (key, { dispatchId, signal } = {}) =>
      calls.run('stop', 'grantProduce', signal, async () => calls.send(valid({ op: 'stop', key, dispatchId }))),

    notify: async (key, payload, { id = ids.next(), signal } = {}) =>
      calls.run('notify', 'grantProduce', signal, async () => {
        const bytes = await bytesOf('notification', payload, schemas.notification);
        await calls.send(valid({ op: 'notify', key, payload: bytes, id }));
        return { id };
      }),

    dispatch(dispatchId) {
      try {
        assertId('dispatchId', dispatchId);
      } catch (error) {
        throw named(error, 'dispatch', 'grantObserve');
      }
      return dispatchHandle(calls, { dispatchId });
    },

    describe: async (key, { signal } = {}) =>
      calls.run('describe', 'grantObserve', signal, async () => {
        assertKey(key);
        const job = (await records.jobs([key])).get(key);
        return job && describeJob(job);
      }),

    list: (filter = {}) => list(calls, filter),

    async *workers({ signal } = {}) {
      const rows = await calls.run('workers', 'grantObserve', signal, () => records.workers());
      yield* rows.map(describeWorker);
    },

    worker(workerId) {
      try {
        return workerHandle(calls, workerId);
      } catch (error) {
        throw named(error, 'worker', 'grantOperate');
      }
    },

    recover: async (wait) => recover(calls, wait),

    [Symbol.dispose]: () => calls.dispose(),
  };
}
