import { expect, vi } from 'vitest';
import * as requests from '../../lib/pool/decide-request.ts';
import * as jobs from '../../lib/pool/job.ts';
import type { PoolState } from '../../lib/pool/worker.ts';
import * as entries from '../../lib/resync/decide-entry.ts';
import * as restorations from '../../lib/resync/decide-restore.ts';
import { because } from './because.ts';
import { PAYLOAD, setup, start } from './stage.ts';

/** Records that were put back to an earlier moment, or are missing, and who really runs the job. */

const TWICE = 'G2: two live handlers';
const opened = (pool: PoolState): PoolState => ({ ...pool, state: 'open' });

/** The record says that `d1` is assigned to `w1`; since then it was given to `w2`, where it is up, and `w1` has forgotten it. */
async function putBack() {
  const stage = await setup();
  const { plane, request, join, job, startsAt } = stage;
  await request(start('d1'));
  const fence = (job()?.fence ?? 0) + 1;
  const w2 = await join();
  w2.holds('k', 'd1', PAYLOAD, fence, plane.now());
  plane.services.workers.setPool({ state: 'recovering', generation: 1 });
  expect(startsAt('s1')).toHaveLength(1);
  return { ...stage, w2, fence };
}

because('no request sends a start while the pool recovers: the assignment may be an earlier one than what runs', {
  async plays() {
    const { request, startsAt } = await putBack();
    await request(start('d1'), { op: 'assign', key: 'k' });
    expect(startsAt('s1'), TWICE).toHaveLength(1);
  },
  without() {
    const { decideRequest } = requests;
    vi.spyOn(requests, 'decideRequest').mockImplementation((snapshot, request, context) =>
      decideRequest(snapshot, request, { ...context, pool: opened(context.pool) }),
    );
  },
  breaks: TWICE,
});

because('no round sends a start again while the pool recovers: the worker may have forgotten how that one ended', {
  async plays() {
    const { begin, says, w1, startsAt } = await putBack();
    await begin();
    await says(...w1.answer());
    expect(startsAt('s1'), TWICE).toHaveLength(1);
  },
  without() {
    const { decideEntry } = entries;
    vi.spyOn(entries, 'decideEntry').mockImplementation((snapshot, ...more) =>
      decideEntry({ ...snapshot, pool: opened(snapshot.pool) }, ...more),
    );
  },
  breaks: TWICE,
});

const FELL = 'G1: a fence below one that was given before';

/** The record says that `d1` is assigned to `w1`; since then `d1` was stopped and `d2` ran there, and `w1` has forgotten both. Then the pool is open again. */
async function recovered() {
  const stage = await setup();
  const { plane, request, startsAt } = stage;
  await request(start('d1'));
  await plane.advance(1_000);
  const since = plane.now();
  await plane.advance(1_000);
  plane.services.workers.setPool({ state: 'open', generation: 2 });
  await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { generation: 2 });
  const fences = () => startsAt('s1').map((command) => ('fence' in command ? command.fence : 0));
  return { ...stage, isAbove: () => fences().length === 2 && fences().every((fence, sent) => sent === 0 || fence > since) };
}

for (const [who, asks] of [
  ['a request', ({ request }: Awaited<ReturnType<typeof recovered>>) => request(start('d1'))],
  [
    'a round',
    async ({ begin, says, w1 }: Awaited<ReturnType<typeof recovered>>) => {
      await begin();
      await says(...w1.answer());
    },
  ],
] as const) {
  because(`${who} that finds a start out from before the pool was recovered gives it another fence: another one may have run since`, {
    async plays() {
      const stage = await recovered();
      await asks(stage);
      expect(stage.isAbove(), FELL).toBe(true);
    },
    without() {
      vi.spyOn(jobs, 'isOutdated').mockReturnValue(false);
    },
    breaks: FELL,
  });
}

for (const [which, below, breaks] of [
  ['at', 0, 'G1 one owner: fence'],
  ['below', 1, 'G1 one owner: the fence of job "k" fell'],
] as const) {
  because(`what another worker confirms ${which} the record’s fence takes nothing: the record’s owner runs it (P8)`, {
    async plays() {
      const { plane, runs, join, says, w1, job, dispatches } = await setup();
      await runs();
      const before = job();
      const w2 = await join();
      const fence = w1.started('k').fence - below;
      w2.holds('k', 'd1', PAYLOAD, fence, plane.now());
      await says({ ...w2.started('k'), type: 'confirmed', payload: PAYLOAD } as never);
      expect(job()).toEqual(before);
      expect(dispatches.peek('d1')).toMatchObject({ status: 'started' });
    },
    without() {
      const { decideRestore } = restorations;
      vi.spyOn(restorations, 'decideRestore').mockImplementation((snapshot, report, context) => {
        const job = snapshot.job && { ...snapshot.job, fence: report.fence - 1 };
        return decideRestore({ ...snapshot, ...(job ? { job } : {}) }, report, context);
      });
    },
    breaks,
  });
}
