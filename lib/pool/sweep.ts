import type { PoolPorts } from './ports.ts';
import { reassign } from './reassign.ts';
import { isEligible } from './worker.ts';

/** Keys looked for at most in one pass. */
const DUE_PER_PASS = 1_000;

/**
 * One pass over what no message asks for any more: jobs that wait and are due get an `assign`, oldest first and no more than there
 * are free slots; the keys that a worker which is gone still owns get theirs, however long ago it went.
 *
 * It decides nothing and remembers nothing: what a dying pass did not get to, the next one finds. Ended jobs that still hold a
 * `next` need a free slot too, so they count alike.
 */
export async function sweep(ports: PoolPorts): Promise<{ readonly due: number; readonly active: number }> {
  const { jobs, workers, requests, clock } = ports;
  const [rows, pool] = await Promise.all([workers.list(), workers.poolState()]);
  for (const { workerId, state } of rows) if (state === 'left' || state === 'lost') await reassign(ports, workerId);

  const eligible = rows.filter((row) => isEligible(row, pool.generation));
  const free = eligible.reduce((slots, { capacity, running }) => slots + capacity - running, 0);
  const due = free > 0 ? await jobs.due(clock.now(), Math.min(free, DUE_PER_PASS)) : [];
  for (const key of due) await requests.send({ op: 'assign', key });
  return { due: due.length, active: rows.filter(({ state }) => state === 'active' || state === 'draining').length };
}
