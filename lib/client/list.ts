import { PoolError } from '../pool/errors.ts';
import { isLive, isOwned, type Job } from '../pool/job.ts';
import { pagesOf } from '../pool/pages.ts';
import type { Page } from '../pool/ports.ts';
import { type Abortable, type Calls, invalid } from './calls.ts';
import { describeJob, type JobDescription, type LiveJobStatus } from './describe.ts';
import { readEach } from './waits.ts';

export interface ListFilter extends Abortable {
  /** Default: any. */
  readonly status?: LiveJobStatus;
  /** Worker id of the owner. */
  readonly worker?: string;
}

const LIVE: readonly string[] = ['pending', 'assigned', 'running', 'stopping', 'releasing'] satisfies LiveJobStatus[];

/**
 * The indexes only say where to look: each job is read consistently before it is given, and given once. A corrupt record does not hide
 * the others: it is thrown once they are all out.
 */
export async function* list(calls: Calls, filter: ListFilter): AsyncGenerator<JobDescription, void, undefined> {
  const { status, signal } = filter;
  if (status !== undefined && !LIVE.includes(status)) throw invalid(`list(): status is "${status}"; allowed: ${LIVE.join(', ')}`);
  const { records } = calls.ports;
  const listed = new Set<string>();
  let corrupt: PoolError | undefined;
  for await (const found of foundKeys(calls, filter)) {
    const keys = found.filter((key) => !listed.has(key));
    const jobs = await calls.run('list', 'grantObserve', signal, () => readEach((names) => records.jobs(names), keys));
    for (const key of keys) {
      listed.add(key);
      const job = jobs.get(key);
      if (job instanceof PoolError) corrupt = job;
      else if (job && isListed(job, filter)) yield describeJob(job);
    }
  }
  if (corrupt) throw corrupt;
}

/** Those that wait first: a job that is assigned in the meantime is then found at its worker. */
async function* foundKeys(calls: Calls, { status, worker, signal }: ListFilter): AsyncGenerator<readonly string[]> {
  const { records } = calls.ports;
  const read = <T>(work: () => Promise<T>) => calls.run('list', 'grantObserve', signal, work);
  const pages = (next: (cursor?: string) => Promise<Page<string>>) => pagesOf((cursor) => read(() => next(cursor)));
  if (worker === undefined && (status ?? 'pending') === 'pending') yield* pages((cursor) => records.pendingKeys(cursor));
  if (status === 'pending') return;
  const owners = worker === undefined ? (await read(() => records.workers())).map(({ workerId }) => workerId) : [worker];
  for (const owner of owners) yield* pages((cursor) => records.keysOwnedBy(owner, cursor));
}

function isListed(job: Job, { status, worker }: ListFilter): boolean {
  return isLive(job) && (status ?? job.status) === job.status && (worker === undefined || (isOwned(job) && job.owner.worker === worker));
}
