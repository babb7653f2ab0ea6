import { afterEach, expect, test } from 'vitest';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import type { Clock, DispatchStore, JobStore, WorkerStore } from '../../lib/pool/ports.ts';
import type { PoolState } from '../../lib/pool/worker.ts';
import type { Recovered, Restoration } from '../../lib/resync/decide-restore.ts';
import type { RestoreStore } from '../../lib/resync/ports.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { bytes } from './dispatch-store.ts';
import { aName, anAdmitted, anAssigned, aRegistration, aRunning, at, ended, started } from './samples.ts';

export interface RestoreStoreSetup {
  readonly restores: RestoreStore;
  /** As whoever operates the pool reads it. */
  readonly recovered: RestoreStore['recovered'];
  /** The records that are restored, and what a restoration rests on. */
  readonly jobs: JobStore;
  readonly dispatches: DispatchStore;
  readonly workers: WorkerStore;
  readonly registry: Registry;
  /** Undefined: there is no record of it. */
  readonly setPool: (pool: PoolState | undefined) => Promise<void>;
  readonly clock: Clock;
}

const won = { outcome: 'won' };
const lost = { outcome: 'lost' };
const present = ['active', 'draining'] as const;

/** What restoring relies on, of any `RestoreStore`. `setup` may give every test the same store. */
export function restoreStoreConformance(name: string, setup: () => RestoreStoreSetup | Promise<RestoreStoreSetup>): void {
  afterEach(async () => (await setup()).setPool(undefined));

  async function aWorker({ workers, registry }: RestoreStoreSetup, generation = 1) {
    const registration = aRegistration();
    const { workerId: worker, session } = registration;
    await registry.register(registration);
    await workers.change(worker, { session, states: present }, { generation });
    return { registration, worker, session, generation };
  }

  /** A job that runs, and what is to be written of it where nothing is left. */
  async function running(given: RestoreStoreSetup, payload = bytes(3)) {
    const { registration, ...by } = await aWorker(given);
    const admitted = anAdmitted(payload);
    const { key, dispatchId, fingerprint } = admitted;
    const job = aRunning({ key, dispatchId, fingerprint, owner: { worker: by.worker, session: by.session } });
    const restoration: Restoration = { key, job, dispatch: { next: started(admitted), expected: 'absent', payload }, by };
    return { registration, admitted, payload, job, by, restoration };
  }

  /** The same, and a job of another dispatch that stands in its place. */
  async function besides(given: RestoreStoreSetup) {
    const { jobs, dispatches, clock } = given;
    const its = await running(given);
    const wrong = anAdmitted(bytes(5), { key: its.job.key });
    await dispatches.admit(wrong, bytes(5));
    await jobs.commit(anAssigned({ key: wrong.key, dispatchId: wrong.dispatchId, fingerprint: wrong.fingerprint }), undefined);
    const expiresAt = Math.ceil(clock.now() / 1_000) * 1_000 + 3_600_000;
    const refused: Dispatch = {
      ...wrong,
      status: 'never-started',
      outcome: { outcome: 'refused', reason: 'key-busy', holder: { dispatchId: its.admitted.dispatchId, sameRequest: false } },
      expiresAt,
    };
    await dispatches.admit(its.admitted, its.payload);
    await dispatches.change(started(its.admitted), 'admitted');
    const restoration: Restoration = {
      ...its.restoration,
      dispatch: { next: started(its.admitted), expected: 'started' },
      displaced: { next: refused, expected: 'admitted' },
    };
    return { ...its, wrong, refused, restoration, rev: (await jobs.get(wrong.key))?.rev, expiresAt };
  }

  /** Everything that a restoration might write. */
  async function records({ jobs, dispatches }: RestoreStoreSetup, { key, dispatch, displaced }: Restoration) {
    const ids = [dispatch.next.dispatchId, ...(displaced ? [displaced.next.dispatchId] : [])];
    const known = await Promise.all(ids.map(async (id) => [await dispatches.get(id), await dispatches.payload(id)]));
    return { job: await jobs.get(key), known };
  }

  test.for([0, 2_048, 2_049, 262_144])(
    `${name}: restores a job, its dispatch and its payload of %i bytes where nothing is left (P6)`,
    async (length) => {
      const given = await setup();
      const { job, admitted, payload, restoration } = await running(given, bytes(length));
      expect(await given.restores.restore(restoration, undefined)).toEqual(won);
      expect((await given.jobs.get(job.key))?.record).toStrictEqual(job);
      expect(await given.dispatches.get(admitted.dispatchId)).toStrictEqual(started(admitted));
      expect(await given.dispatches.payload(admitted.dispatchId)).toEqual(payload);
      await expect.poll(async () => (await given.jobs.ownedBy(job.owner.worker)).items).toEqual([job.key]);
    },
  );

  test.for([3, 5_000])(
    `${name}: writes only what is missing, and keeps what is there: a payload of %i bytes, since when it ran (P7)`,
    async (length) => {
      const given = await setup();
      const { job, admitted, payload, restoration } = await running(given, bytes(length));
      await given.dispatches.admit(admitted, payload);
      await given.dispatches.change(started(admitted, at - 7), 'admitted');
      const wrong = { ...started(admitted), requestedAt: at + 5, fence: at + 9 };
      const another = bytes(length + 1);
      expect(
        await given.restores.restore({ ...restoration, dispatch: { next: wrong, expected: 'started', payload: another } }, undefined),
      ).toEqual(won);
      expect((await given.jobs.get(job.key))?.record).toEqual(job);
      expect(await given.dispatches.get(admitted.dispatchId)).toStrictEqual({ ...started(admitted, at - 7), fence: at + 9 });
      if (length <= 2_048) expect(await given.dispatches.payload(admitted.dispatchId)).toEqual(payload);
    },
  );

  test.for([0, 2_048, 2_049])(`${name}: restores a payload of %i bytes alone, and leaves the job record as it is`, async (length) => {
    const given = await setup();
    const { job, admitted, payload, restoration } = await running(given, bytes(length));
    await given.jobs.commit(job, undefined);
    await given.dispatches.change(started(admitted), 'absent');
    const before = await given.jobs.get(job.key);
    const { job: _, ...alone } = restoration;
    const { next } = restoration.dispatch;
    expect(await given.restores.restore({ ...alone, dispatch: { next, expected: 'started', payload } }, before?.rev)).toEqual(won);
    expect(await given.jobs.get(job.key)).toEqual(before);
    expect(await given.dispatches.get(admitted.dispatchId)).toStrictEqual(started(admitted));
    expect(await given.dispatches.payload(admitted.dispatchId)).toEqual(payload);
  });

  test(`${name}: puts what runs in the place of another dispatch, and ends that one, together`, async () => {
    const given = await setup();
    const { job, admitted, wrong, refused, restoration, rev } = await besides(given);
    expect(await given.restores.restore(restoration, rev)).toEqual(won);
    expect((await given.jobs.get(job.key))?.record).toStrictEqual(job);
    expect(await given.dispatches.get(admitted.dispatchId)).toStrictEqual(started(admitted));
    expect(await given.dispatches.get(wrong.dispatchId)).toStrictEqual(refused);
    expect(await given.dispatches.payload(wrong.dispatchId)).toBeUndefined();
  });

  test(`${name}: is won once by those who restore the same at the same time`, async () => {
    const given = await setup();
    const { job, restoration } = await running(given, bytes(3_000));
    const rivals = await Promise.all(Array.from({ length: 5 }, () => given.restores.restore(restoration, undefined).catch(() => lost)));
    expect(rivals.filter(({ outcome }) => outcome === 'won')).toHaveLength(1);
    expect((await given.jobs.get(job.key))?.record).toEqual(job);
    expect(await given.dispatches.payload(job.dispatchId)).toEqual(bytes(3_000));
  });

  test.for<[string, PoolState | undefined]>([
    ['without a record of the pool', undefined],
    ['an open pool', { state: 'open', generation: 1 }],
    ['a pool that is recovering', { state: 'recovering', generation: 1 }],
  ])(`${name}: restores in %s`, async ([, pool]) => {
    const given = await setup();
    await given.setPool(pool);
    expect(await given.restores.restore((await running(given)).restoration, undefined)).toEqual(won);
  });

  test.for(['draining', 'revoked'] as const)(`${name}: restores what a worker runs that is %s`, async (state) => {
    const given = await setup();
    const { by, restoration } = await running(given);
    await given.workers.change(by.worker, { session: by.session, states: present }, { state });
    expect(await given.restores.restore(restoration, undefined)).toEqual(won);
  });

  type Running = Awaited<ReturnType<typeof running>>;
  const changed = ({ workers }: RestoreStoreSetup, { by }: Pick<Running, 'by'>, change: Parameters<WorkerStore['change']>[2]) =>
    workers.change(by.worker, { session: by.session, states: present }, change);

  test.for<[string, (given: RestoreStoreSetup, its: Running) => Promise<unknown>]>([
    ['somebody else owns the key by now (P8)', ({ jobs }, { job }) => jobs.commit(anAssigned({ key: job.key }), undefined)],
    ['the job has ended', ({ jobs, clock }, { job }) => jobs.commit({ ...anEndedOf(job), recordedAt: clock.now() }, undefined)],
    ['the dispatch is known by now', ({ dispatches }, { admitted, payload }) => dispatches.admit(admitted, payload)],
    ['the session was replaced', ({ registry }, { registration }) => registry.register({ ...registration, session: aName('s') })],
    ['the worker is lost', (given, its) => changed(given, its, { state: 'lost' })],
    [
      'the worker has left',
      async ({ registry }, { by }) => {
        await registry.drain(by.worker, by.session);
        await registry.leave(by.worker, by.session);
      },
    ],
    ['the worker has no row', ({ workers }, { by }) => workers.remove(by.worker, { session: by.session, states: present })],
    ['the worker was not seen yet', ({ registry }, { registration }) => registry.register(registration)],
    ['the worker is of another generation', (given, its) => changed(given, its, { generation: 2 })],
    ['the pool is of another generation', ({ setPool }) => setPool({ state: 'open', generation: 2 })],
    ['the pool is closed', ({ setPool }) => setPool({ state: 'closed', generation: 1 })],
  ])(`${name}: writes nothing at all where %s (P7)`, async ([, happens]) => {
    const given = await setup();
    const its = await running(given);
    await happens(given, its);
    const before = await records(given, its.restoration);
    expect(await given.restores.restore(its.restoration, undefined)).toEqual(lost);
    expect(await records(given, its.restoration)).toEqual(before);
  });

  type Beside = Awaited<ReturnType<typeof besides>>;
  test.for<[string, (given: RestoreStoreSetup, its: Beside) => Promise<unknown>]>([
    ['the job record has moved on (P8)', ({ jobs }, { wrong, rev }) => jobs.commit(anAssigned({ key: wrong.key }), rev)],
    [
      'the dispatch has ended (G7)',
      ({ dispatches }, { admitted, expiresAt }) => dispatches.change(ended(started(admitted), expiresAt), 'started'),
    ],
    ['the fence of the dispatch rose', ({ dispatches }, { admitted }) => dispatches.raiseFence(admitted.dispatchId, at + 1)],
    ['the other dispatch started', ({ dispatches }, { wrong }) => dispatches.change(started(wrong), 'admitted')],
    ['the fence of the other dispatch rose', ({ dispatches }, { wrong }) => dispatches.raiseFence(wrong.dispatchId, at + 1)],
  ])(`${name}: writes nothing of three records where %s (P7)`, async ([, happens]) => {
    const given = await setup();
    const its = await besides(given);
    await happens(given, its);
    const before = await records(given, its.restoration);
    expect(await given.restores.restore(its.restoration, its.rev)).toEqual(lost);
    expect(await records(given, its.restoration)).toEqual(before);
  });

  test.for(['key', 'fingerprint'] as const)(`${name}: writes nothing where the dispatch is of another %s (P3, P4)`, async (field) => {
    const given = await setup();
    const its = await besides(given);
    const { next, expected } = its.restoration.dispatch;
    const restoration = { ...its.restoration, dispatch: { next: { ...next, [field]: aName('x') }, expected } };
    const before = await records(given, its.restoration);
    expect(await given.restores.restore(restoration, its.rev)).toEqual(lost);
    expect(await records(given, its.restoration)).toEqual(before);
  });

  test(`${name}: says what every restoration of a recovery came to, and of that recovery alone, however many there were`, async () => {
    const given = await setup();
    const generation = aGeneration();
    await given.setPool({ state: 'recovering', generation });
    const known: Recovered[] = [];
    const over = await besides(given);
    for (const [{ by, ...its }, how, rev] of [
      [await running(given), 'restored', undefined],
      [await running(given), 'raised', undefined],
      [over, 'replaced', over.rev],
    ] as const) {
      await changed(given, { by }, { generation });
      const { key, dispatchId, fence } = its.job;
      const displaced = how === 'replaced' ? { lost: over.wrong.dispatchId } : {};
      const recovered: Recovered = { key, dispatchId, worker: by.worker, fence, how, ...displaced };
      const restoration = { ...its.restoration, by: { ...by, generation }, recovered };
      expect(await given.restores.restore(restoration, rev)).toEqual(won);
      // Of what was lost nobody is told.
      expect(await given.restores.restore(restoration, rev)).toEqual(lost);
      known.push(recovered);
    }
    expect(await recoveredIn(given, generation)).toEqual(known);
    expect(await recoveredIn(given, generation + 1)).toEqual([]);
  });

  test(`${name}: writes nothing where the job record that was read is gone, or has changed, though it is not to be written`, async () => {
    const given = await setup();
    const { job, admitted, payload, restoration } = await running(given);
    await given.jobs.commit(job, undefined);
    await given.dispatches.change(started(admitted), 'absent');
    const { job: _, ...alone } = restoration;
    const payloadAlone = { ...alone, dispatch: { next: started(admitted), expected: 'started', payload } } as const;
    expect(await given.restores.restore(payloadAlone, 'another revision')).toEqual(lost);
    expect(await given.restores.restore({ ...payloadAlone, key: aName('k') }, (await given.jobs.get(job.key))?.rev)).toEqual(lost);
    expect(await given.dispatches.payload(admitted.dispatchId)).toBeUndefined();
  });
}

/** Of no other test. */
function aGeneration(): number {
  return Math.floor(Math.random() * 1e9) + 2;
}

async function recoveredIn({ recovered }: RestoreStoreSetup, generation: number): Promise<readonly Recovered[]> {
  const all: Recovered[] = [];
  let cursor: string | undefined;
  do {
    const page = await recovered(generation, cursor);
    all.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}

function anEndedOf({ key, dispatchId, fingerprint, fence, attempt, admittedAt, startedAt }: ReturnType<typeof aRunning>) {
  const settled = { outcome: { outcome: 'started', at: startedAt }, end: { status: 'succeeded', finishedAt: at } } as const;
  return { status: 'ended', key, dispatchId, fingerprint, fence, attempt, admittedAt, startedAt, settled } as const;
}
