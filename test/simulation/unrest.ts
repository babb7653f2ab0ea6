import { isOwned } from '../../lib/pool/job.ts';
import { isEligible } from '../../lib/pool/worker.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { Crew } from './crew.ts';
import type { Scene } from './scene.ts';

/** Why a world is not at rest yet: somebody has something to do, or what is recorded, believed and alive in truth are not the same. */
export function unrest(scene: Scene, crew: Crew): string | undefined {
  return workLeft(scene) ?? strayHandler(scene, crew);
}

function workLeft({ pool: { services, isAtWork } }: Scene): string | undefined {
  if (isAtWork) return 'somebody is at work';
  for (const queue of [services.requests, services.reports])
    if (queue.size > 0) return `queue ${queue.name} holds ${JSON.stringify(queue.messages()[0])}`;
  const rows = services.workers.all();
  for (const { session, state } of rows) {
    const size = state === 'active' ? (services.inboxes.queue(session)?.size ?? 0) : 0;
    if (size > 0) return `the inbox of ${session} holds ${size} commands`;
  }
  const { generation } = services.workers.peekPool();
  for (const job of services.jobs.all()) {
    // A worker that was busy with something else at the key is the only place until it is lost, full or not.
    const only =
      job.status === 'pending' ? rows.find(({ workerId, session }) => isSame(job.only, { worker: workerId, session })) : undefined;
    const hasRoom = (only ? [only] : rows).some((row) => isEligible(row, generation));
    const isResting =
      job.status === 'running' ||
      (job.status === 'ended' && job.next === undefined) ||
      (!hasRoom && (job.status === 'pending' || job.status === 'ended'));
    if (!isResting) return `job ${JSON.stringify(job)} waits${hasRoom ? ', and a worker has room' : ''}`;
    if (!isOwned(job)) continue;
    const row = services.workers.peek(job.owner.worker);
    if (row?.session !== job.owner.session || row.state !== 'active')
      return `job ${JSON.stringify(job)} is owned by ${JSON.stringify(row)}`;
  }
  return undefined;
}

function strayHandler({ pool, checker }: Scene, { workers }: Crew): string | undefined {
  const { jobs, workers: rows } = pool.services;
  const alive = checker.liveHandlers();
  const hasRoom = rows.all().some((row) => isEligible(row, rows.peekPool().generation));
  for (const { process, key, dispatchId, fence } of alive) {
    const job = jobs.peek(key);
    const isKnown = job?.status === 'running' && job.dispatchId === dispatchId && job.owner.worker === process.name;
    // Its record was deleted, another one waits at its key, and finds nowhere to go: that one is to meet it before it is restored.
    const isUnmet = job?.status === 'pending' && !hasRoom && checker.isOrphan(key, fence);
    if (!isKnown && !isUnmet) return `${process.name} runs "${key}" for ${dispatchId}, and the record says ${JSON.stringify(job)}`;
  }
  for (const job of jobs.all()) {
    const isUp = alive.some(({ key, dispatchId }) => key === job.key && dispatchId === job.dispatchId);
    if (job.status === 'running' && !isUp) return `no handler of ${JSON.stringify(job)} is alive`;
  }
  for (const { runtime, process } of workers) {
    const inTruth = alive.filter((each) => each.process === process).map(({ key }) => key);
    if (!isSame(runtime.lives.map(({ key }) => key).sort(), inTruth.sort()))
      return `${process.name} believes in ${JSON.stringify(runtime.lives)}, and alive is ${inTruth}`;
  }
  return undefined;
}
