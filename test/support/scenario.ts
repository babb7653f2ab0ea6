import type { Dispatch } from '../../lib/pool/dispatch.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { PoolSettings } from '../../lib/pool/settings.ts';
import type { PoolState } from '../../lib/pool/worker.ts';
import type { Network } from '../../lib/testing/calls.ts';
import type { InvocationFate } from '../../lib/testing/functions.ts';
import type { FactReport, Report, Request } from '../../lib/wire/index.ts';
import { type DispatchName, dispatch, JOBS, JOBS_WITH_NEXT, NOW, OWNER, PAYLOAD } from '../../protocol/cast.ts';
import { ControlPlane } from './control-plane.ts';

/**
 * What stands at a key and what comes, as data, with the people of the tables (protocol/cast.ts). Times given and reported lie before
 * `NOW`, where a run begins, and what is recorded in it after; that tells them apart.
 */
export interface Scenario {
  readonly name: string;
  /** The job record at key `k`: a column of the tables; by default none. */
  readonly job?: string;
  /** Records of dispatches; by default what the job record says of its own one, and `next` admitted. */
  readonly dispatches?: { readonly [D in DispatchName]?: Dispatch['status'] | 'absent' };
  /** `w1`, which owns what is owned, and `w2`; by default active, with room. */
  readonly workers?: { readonly w1?: WorkerState; readonly w2?: WorkerState };
  readonly settings?: Partial<PoolSettings>;
  readonly pool?: PoolState['state'];
  /** What stands there besides. */
  readonly stands?: (plane: ControlPlane) => Promise<void>;
  /** One after the other, each until rest. */
  readonly steps: readonly Step[];
  /** What is there in the end: the job, the dispatches, the commands that were sent. */
  readonly leaves: string;
}

/** `unseen`: nobody handled yet that it registered. `unlisted`: lost, and the list of workers does not show it yet. */
export type WorkerState = 'active' | 'unseen' | 'full' | 'lost' | 'unlisted' | 'left' | 'replaced' | 'gone';

/** `sweep`: a pass, once everything that waits is due. A deed: whatever else a test does. */
export type Step = Request | Report | Answer | 'sweep' | Deed;
export type Deed = (plane: ControlPlane) => void | Promise<void>;

/** What a worker says of a dispatch, about the last command that it was sent. */
export interface Answer {
  readonly answer: FactReport['type'];
  readonly of: DispatchName;
  readonly more: object;
}

export async function stage(
  scenario: Omit<Scenario, 'leaves'>,
  world: { readonly network: Network; readonly invocations: InvocationFate },
): Promise<ControlPlane> {
  const { job: column, dispatches = {}, workers = {}, pool, settings = {} } = scenario;
  const plane = new ControlPlane({ startsAt: NOW, settings, ...world });
  await addWorker(plane, OWNER.worker, OWNER.session, workers.w1 ?? 'active');
  await addWorker(plane, 'w2', 's2', workers.w2 ?? 'active');
  if (pool) plane.services.workers.setPool({ state: pool, generation: 1 });
  const job = column === undefined ? undefined : (JOBS[column] ?? JOBS_WITH_NEXT[column]);
  if (column !== undefined && !job) throw new Error(`${scenario.name}: no such column: ${column}`);
  if (job) await plane.putJob(job);
  for (const name of Object.keys(PAYLOAD) as DispatchName[]) {
    const record = dispatch(name, dispatches[name] ?? statusBy(job, name), name === job?.dispatchId ? { fence: job.fence } : {});
    // The cast's times of expiry are for tables, in which no time goes by.
    if (record) await plane.putDispatch('expiresAt' in record ? { ...record, expiresAt: Number.MAX_SAFE_INTEGER } : record, PAYLOAD[name]);
  }
  await scenario.stands?.(plane);
  return plane;
}

function statusBy(job: Job | undefined, name: DispatchName): Dispatch['status'] | 'absent' {
  if (job?.next === name) return 'admitted';
  if (job?.dispatchId !== name) return 'absent';
  if (job.status === 'ended') return 'ended';
  return job.startedAt === undefined ? 'admitted' : 'started';
}

async function addWorker(plane: ControlPlane, workerId: string, session: string, state: WorkerState): Promise<void> {
  const { workers, inboxes } = plane.services;
  if (state === 'gone') return;
  await plane.addWorker(workerId, session, { capacity: state === 'full' ? 0 : 10, isSeen: state !== 'unseen' });
  if (state === 'active' || state === 'unseen' || state === 'full') return;
  await inboxes.remove(session);
  if (state === 'left') await workers.drain(workerId, session);
  if (state === 'left') await workers.leave(workerId, session);
  const lose = () => workers.change(workerId, { session, states: ['active'] }, { state: 'lost' });
  if (state === 'lost') await lose();
  if (state === 'unlisted') await plane.unlisted(lose);
  if (state === 'replaced') await plane.addWorker(workerId, `${session} again`);
}

export async function take(plane: ControlPlane, step: Step): Promise<void> {
  if (step === 'sweep') return sweepOnceDue(plane);
  if (typeof step === 'function') await step(plane);
  else if ('op' in step) plane.request(step);
  else plane.report('answer' in step ? answered(plane, step) : step);
  await plane.rest();
}

/** Where something waits: until it is due, and then a pass. */
export async function sweepOnceDue(plane: ControlPlane): Promise<void> {
  const dueAt = Math.max(0, ...plane.services.jobs.all().map((job) => (job.status === 'pending' ? job.dueAt : 0)));
  if (dueAt > plane.now()) await plane.scheduler.advance(dueAt - plane.now());
  await plane.sweep();
}

function answered(plane: ControlPlane, { answer, of, more }: Answer): Report {
  const command = plane.sent.filter((sent) => 'dispatchId' in sent && sent.dispatchId === of).at(-1);
  if (!command || !('dispatchId' in command)) throw new Error(`no worker was sent anything about ${of}`);
  const { key, dispatchId, fingerprint, fence, session } = command;
  const worker = plane.services.workers.all().find((row) => row.session === session)?.workerId ?? OWNER.worker;
  return { type: answer, key, dispatchId, fingerprint, fence, worker, session, at: 700, ...more } as FactReport;
}
