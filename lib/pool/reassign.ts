import type { PoolPorts } from './ports.ts';

/**
 * Sees to the jobs of a worker that is gone: enqueues `assign` for every key that the index still gives to it, page by page. The request
 * function then reads the owner's row and finds it lost, so nothing is decided here, and a key that has moved on, or that the
 * index shows too late, comes to no harm.
 *
 * Dying in the middle loses nothing: the `left` report comes again, and the sweep looks for such rows as long as they are named.
 */
export async function reassign({ jobs, requests }: Pick<PoolPorts, 'jobs' | 'requests'>, workerId: string): Promise<void> {
  let cursor: string | undefined;
  do {
    const page = await jobs.ownedBy(workerId, cursor);
    for (const key of page.items) await requests.send({ op: 'assign', key });
    cursor = page.cursor;
  } while (cursor !== undefined);
}
