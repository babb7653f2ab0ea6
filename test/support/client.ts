import type { AnyPayload, In, Schema } from '../../lib/client/payload.ts';
import { createPool, type Pool, type PoolOptions } from '../../lib/client/pool.ts';
import type { ClientPorts } from '../../lib/client/ports.ts';
import type { AdmittedDispatch, Dispatch } from '../../lib/pool/dispatch.ts';
import type { AssignedJob, EndedJob, Job, PendingJob, RunningJob, StoppingJob } from '../../lib/pool/job.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { fingerprintOf, parseRequest, type Request } from '../../lib/wire/index.ts';

/** Where virtual time starts: on a beat of the clock. */
export const NOW = 1_900_000_000_000;

/** One call of a port, and when. */
export interface PortCall {
  readonly method: string;
  readonly at: number;
  readonly names: readonly string[];
}

/** A client on the services in memory; every call of a port is noted, and `intercept` may answer or fail it instead. */
export function setup<S extends Schema = Schema<AnyPayload>, N extends Schema = Schema<AnyPayload>>(schemas: PoolOptions<S, N> = {}) {
  const scheduler = new Scheduler({ startsAt: NOW });
  const services = new MemoryServices({ clock: scheduler, timer: scheduler });
  const calls: PortCall[] = [];
  const intercepts: { [method: string]: ((names: never) => Promise<unknown> | undefined) | undefined } = {};
  const clock = { now: () => scheduler.now() };

  function watched<T extends object>(port: T): T {
    return new Proxy(port, {
      get:
        (target, method: string) =>
        (...given: unknown[]) => {
          calls.push({ method, at: scheduler.now() - NOW, names: [given[0] ?? []].flat().map(String) });
          const work = Reflect.get(target, method) as (...given: unknown[]) => Promise<unknown>;
          return intercepts[method]?.(given[0] as never) ?? work.apply(target, given);
        },
    });
  }
  const memory = services.clientPorts({ clock });
  const ports: ClientPorts = { ...memory, records: watched(memory.records), requests: watched(memory.requests) };

  return {
    pool: createPool(ports, schemas) as Pool<In<S>, In<N>>,
    ports,
    scheduler,
    services,
    clock,
    calls,
    intercepts,
    callsOf: (method: string) => calls.filter((call) => call.method === method),
    /** What the request queue has. */
    sent: (): readonly Request[] =>
      services.requests.messages().map(({ body }) => {
        const parsed = parseRequest(body);
        if (!parsed.ok) throw new Error(parsed.refusal.message);
        return parsed.value;
      }),
    /** Virtual time goes on until the promise settles, or nothing more can happen. */
    async reached<T>(promise: Promise<T>): Promise<T> {
      let isSettled = false;
      const settle = () => {
        isSettled = true;
      };
      promise.then(settle, settle);
      await scheduler.settle();
      while (!isSettled && (await scheduler.step()));
      if (!isSettled) throw new Error('nothing more can happen, and the promise is still open');
      return promise;
    },
    recordJob: (job: Job) => recorded(services.jobs.get(job.key).then((seen) => services.jobs.commit(job, seen?.rev))),
    recordDispatch: (dispatch: Dispatch) =>
      recorded(services.dispatches.get(dispatch.dispatchId).then((seen) => services.dispatches.change(dispatch, seen?.status ?? 'absent'))),
  };
}

async function recorded(commit: Promise<{ readonly outcome: 'won' | 'lost' }>): Promise<void> {
  if ((await commit).outcome === 'lost') throw new Error('the record was not written');
}

export type Setup = ReturnType<typeof setup>;

const text = new TextEncoder();
const head = { dispatchId: 'd1', key: 'k', fingerprint: fingerprintOf('k', text.encode('p')), fence: 7, attempt: 1, admittedAt: NOW };
const owned = { ...head, owner: { worker: 'w1', session: 's1' }, assignedAt: NOW };

export const aPendingJob = (with_: Partial<PendingJob> = {}): PendingJob => ({
  ...{ ...head, status: 'pending', because: 'admitted', dueAt: NOW },
  ...with_,
});
export const anAssignedJob = (with_: Partial<AssignedJob> = {}): AssignedJob => ({ ...owned, status: 'assigned', ...with_ });
export const aRunningJob = (with_: Partial<RunningJob> = {}): RunningJob => ({ ...owned, status: 'running', startedAt: NOW, ...with_ });
export const aStoppingJob = (with_: Partial<StoppingJob> = {}): StoppingJob => ({
  ...{ ...owned, status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: NOW },
  ...with_,
});
export const anEndedJob = (with_: Partial<EndedJob> = {}): EndedJob => ({
  ...head,
  status: 'ended',
  settled: { outcome: { outcome: 'started', at: NOW }, end: { status: 'succeeded', finishedAt: NOW + 5 } },
  recordedAt: NOW,
  ...with_,
});
export const anAdmittedDispatch = (with_: Partial<AdmittedDispatch> = {}): AdmittedDispatch => ({
  ...{ dispatchId: 'd1', key: 'k', fingerprint: head.fingerprint, fence: 7, requestedAt: NOW, status: 'admitted' },
  ...with_,
});
