import type { Page, PoolPorts } from './ports.ts';

/**
 * Sees to the jobs of a worker that is gone: enqueues `assign` for every key that the index still gives to it. The request function
 * then reads the owner's row and finds it lost, so nothing is decided here, and a key that has moved on, or that the index shows
 * too late, comes to no harm.
 *
 * One page, so that a worker of a hundred thousand jobs fits into short calls. Dying after any of them loses nothing: the caller
 * comes again, and the sweep looks at such a row as long as any job names it.
 */
export async function reassignPage(
  { jobs, requests }: Pick<PoolPorts, 'jobs' | 'requests'>,
  workerId: string,
  cursor?: string,
): Promise<Page<string>> {
  const page = await jobs.ownedBy(workerId, cursor);
  await requests.send(page.items.map((key) => ({ op: 'assign', key })));
  return page;
}
