import { describe, expect, test } from 'vitest';
import type { Job } from '../../lib/pool/job.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { ControlPlane } from '../support/control-plane.ts';
import { PlayedWorker } from '../support/played-worker.ts';

/** What comes on the report queue besides facts about jobs and pages: workers that come and go, and what is none of it. */
async function setup() {
  const plane = new ControlPlane();
  const { jobs, workers, reports, deadReports } = plane.services;
  const named = (key: string, fence: number) => ({
    ...{ key, dispatchId: `d-${key}`, fingerprint: fingerprintOf(key, PAYLOAD), fence },
    ...{ attempt: 1, admittedAt: 1 },
  });
  return {
    ...{ plane, jobs, workers, reports, deadReports },
    come: (worker: string, session: string, more: { readonly capacity?: number; readonly isSeen?: boolean } = {}) =>
      PlayedWorker.registered(plane, worker, session, { isSeen: false, ...more }),
    async registered({ worker, session }: PlayedWorker): Promise<void> {
      plane.report({ type: 'registered', worker, session, at: 1 });
      await plane.rest();
    },
    async waits(key: string, dueAt: number): Promise<void> {
      await plane.putJob({ ...named(key, 0), status: 'pending', because: 'admitted', dueAt });
      const { attempt: _, admittedAt: requestedAt, ...dispatch } = named(key, 0);
      await plane.putDispatch({ ...dispatch, requestedAt, status: 'admitted' }, PAYLOAD);
    },
    async owns(key: string, { worker, session }: PlayedWorker): Promise<void> {
      const owned = { status: 'running', owner: { worker, session }, assignedAt: 1, startedAt: 2 } as const;
      await plane.putJob({ ...named(key, 1), ...owned } satisfies Job);
      const { attempt: _, admittedAt: requestedAt, ...dispatch } = named(key, 1);
      await plane.putDispatch({ ...dispatch, requestedAt, status: 'started', outcome: { outcome: 'started', at: 2 } }, PAYLOAD);
    },
    assigned: () => jobs.all().flatMap(({ key, status }) => (status === 'assigned' ? [key] : [])),
  };
}

const PAYLOAD = new TextEncoder().encode('p');

describe('a worker that registers', () => {
  test('is stamped with the generation of the pool, and only then is anything placed there', async () => {
    const { plane, come, registered, waits, workers, assigned } = await setup();
    workers.setPool({ state: 'open', generation: 4 });
    const w1 = await come('w1', 's1');
    await waits('k', 1);
    plane.request({ op: 'assign', key: 'k' });
    await plane.rest();
    expect([workers.peek('w1')?.generation, assigned()]).toEqual([undefined, []]);
    await plane.scheduler.advance(5_000);
    await registered(w1);
    expect([workers.peek('w1')?.generation, assigned()]).toEqual([4, ['k']]);
  });

  test('is given at once what waits for a worker: what is due, oldest first, as much as it has room for', async () => {
    const { come, registered, waits, assigned, plane } = await setup();
    for (const [index, dueAt] of [3, 1, 2].entries()) await waits(`k${index}`, dueAt);
    await waits('later', plane.now() + 60_000);
    await registered(await come('w1', 's1', { capacity: 2 }));
    expect(assigned()).toEqual(['k1', 'k2']);
  });

  test('and is full by the time its report comes again is given nothing, and the report is done with', async () => {
    const { come, registered, waits, workers, assigned, reports, deadReports } = await setup();
    const w1 = await come('w1', 's1', { capacity: 2 });
    await registered(w1);
    await waits('k', 1);
    for (const running of [2, 3]) {
      await workers.heartbeat({ workerId: 'w1', session: 's1', beat: running, running });
      await registered(w1);
    }
    expect([assigned(), reports.size, deadReports.size]).toEqual([[], 0, 0]);
  });

  test('under an id that owned jobs before is asked about them at once; under a fresh id, nobody is asked', async () => {
    const { plane, come, registered, owns } = await setup();
    const old = await come('w1', 's1', { isSeen: true });
    for (const key of ['a', 'b']) await owns(key, old);
    const again = await come('w1', 's1 again');
    await registered(again);
    expect(again.question().flatMap(({ jobs }) => jobs.map(({ key }) => key))).toEqual(['a', 'b']);
    await registered(await come('w2', 's2'));
    expect(plane.executions.map(({ session }) => session)).toEqual(['s1 again']);
  });

  test('whose report comes after it registered once more, or went, changes nothing by it', async () => {
    const { plane, come, registered, owns, waits, workers, assigned } = await setup();
    const old = await come('w1', 's1');
    await owns('a', old);
    await waits('k', 1);
    await come('w1', 's1 again');
    await registered(old);
    expect([workers.peek('w1')?.generation, assigned(), plane.executions]).toEqual([undefined, [], []]);
    await workers.drain('w1', 's1 again');
    await registered(new PlayedWorker(plane, 'w1', 's1 again'));
    expect([assigned(), plane.executions]).toEqual([[], []]);
    plane.report({ type: 'registered', worker: 'nobody', session: 's', at: 1 });
    await plane.rest();
    expect(plane.services.deadReports.size).toBe(0);
  });
});

test('a worker that left has its jobs placed elsewhere, however many they are; what ends at that very time has ended (P15)', async () => {
  const { plane, come, owns, workers, jobs } = await setup();
  const gone = await come('w1', 's1', { isSeen: true });
  for (let index = 0; index < 230; index++) await owns(`k-${index}`, gone);
  await workers.drain('w1', 's1');
  await workers.leave('w1', 's1');
  await come('w2', 's2', { capacity: 1_000, isSeen: true });
  gone.holds('k-7', 'd-k-7', PAYLOAD, 1, 2);
  gone.over('k-7', 'finished', { at: 77 });
  plane.report({ type: 'left', worker: 'w1', session: 's1', at: 1 }, gone.ended('k-7'));
  await plane.rest();
  expect(jobs.all().filter((job) => job.status === 'assigned' && job.owner.worker === 'w2')).toHaveLength(229);
  expect(jobs.peek('k-7')).toMatchObject({ status: 'ended', settled: { end: { status: 'succeeded', finishedAt: 77 } } });
  expect(plane.services.dispatches.peek('d-k-7')).toMatchObject({ status: 'ended', end: { finishedAt: 77 } });
});

test('what is no report is dead-lettered at once with its reason, and its neighbours are handled', async () => {
  const { plane, come, workers, reports, deadReports } = await setup();
  await come('w1', 's1');
  const bodies = ['not json', '{}', '[]', 'null', '{"v":99,"type":"left"}', '{"v":1,"type":"unheard of"}'];
  for (const body of bodies) reports.send({ body });
  plane.report({ type: 'registered', worker: 'w1', session: 's1', at: 1 });
  await plane.rest();
  expect(deadReports.messages().map(({ body }) => body)).toEqual(bodies);
  expect(deadReports.messages().every(({ attributes }) => (attributes?.reason?.length ?? 0) > 0)).toBe(true);
  expect(workers.peek('w1')?.generation).toBe(1);
});
