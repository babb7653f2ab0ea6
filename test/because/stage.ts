import type { Job } from '../../lib/pool/job.ts';
import { executionName } from '../../lib/resync/run-round.ts';
import type { CallFault } from '../../lib/testing/calls.ts';
import type { Report, Request, StartRequest } from '../../lib/wire/index.ts';
import { ControlPlane } from '../support/control-plane.ts';
import { PlayedWorker } from '../support/played-worker.ts';

export const PAYLOAD = new TextEncoder().encode('p');

export function start(dispatchId: string, more: Partial<StartRequest> = {}): StartRequest {
  return { op: 'start', key: 'k', payload: PAYLOAD, dispatchId, ifBusy: 'reject', ...more };
}

/** What befalls the first call of the method by a function of that name from now on. */
export interface Strike {
  readonly by: string;
  readonly method: string;
  readonly fault?: CallFault;
  readonly delayMs?: number;
  /** Happens as the call is made. */
  readonly meanwhile?: () => void;
}

/** The control plane with one worker, `w1`, to which all jobs go until another one joins. */
export async function setup({ leaseMs, dies = () => false }: { readonly leaseMs?: number; readonly dies?: () => boolean } = {}) {
  const strikes: Strike[] = [];
  const plane = new ControlPlane({
    executions: (at) => ({ lateMs: 0, dies: at === 'step' && dies() }),
    network: {
      fate({ by, method }) {
        const index = strikes.findIndex((strike) => by.name.startsWith(strike.by) && method === strike.method);
        const [strike] = index < 0 ? [] : strikes.splice(index, 1);
        strike?.meanwhile?.();
        return { delayMs: strike?.delayMs ?? 0, ...(strike?.fault ? { fault: strike.fault } : {}) };
      },
    },
  });
  const { jobs, dispatches, workers, rounds } = plane.services;
  const w1 = await PlayedWorker.registered(plane, 'w1', 's1', leaseMs === undefined ? {} : { leaseMs });
  return {
    ...{ plane, jobs, dispatches, workers, rounds, w1 },
    ports: plane.services.poolPorts(),
    strike: (strike: Strike) => void strikes.push(strike),
    join: (worker = 'w2', session = 's2') => PlayedWorker.registered(plane, worker, session),
    async request(...all: readonly Request[]): Promise<void> {
      plane.request(...all);
      await plane.rest();
    },
    async says(...all: readonly Report[]): Promise<void> {
      plane.report(...all);
      await plane.rest();
    },
    /** `d1` is up at `k`, at `w1`. */
    async runs(dispatchId = 'd1', key = 'k'): Promise<void> {
      plane.request(start(dispatchId, { key }));
      await plane.rest();
      w1.up(key);
      plane.report(w1.started(key));
      await plane.rest();
    },
    lose: () => workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' }),
    /** An execution for `w1`; rest comes with its question. */
    async begin(): Promise<void> {
      const row = workers.peek('w1');
      if (row) await plane.services.machine.start(executionName(row, plane.now()), { worker: 'w1', session: row.session });
      await plane.rest();
    },
    /** Runs of the sweep, while these beat. */
    async sweeps(minutes: number, ...alive: readonly PlayedWorker[]): Promise<void> {
      for (let minute = 0; minute < minutes; minute++) {
        const until = plane.now() + 60_000;
        const sweep = plane.newSweep();
        while (plane.now() < until - 6_000) {
          for (const worker of alive) await worker.beat();
          await sweep.pass();
          await plane.advance(5_000);
        }
        await plane.advance(Math.max(0, until - plane.now()));
      }
    },
    job: (key = 'k'): Job | undefined => jobs.peek(key),
    row: () => workers.peek('w1'),
    startsAt: (session: string, key = 'k') =>
      plane.sent.filter((command) => command.op === 'start' && command.session === session && command.key === key),
  };
}
