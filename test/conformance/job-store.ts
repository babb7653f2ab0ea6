import { expect, test } from 'vitest';
import type { Job } from '../../lib/pool/job.ts';
import type { Clock, DispatchStore, JobStore, Versioned } from '../../lib/pool/ports.ts';
import { aName, anAdmitted, anAssigned, anEnded, aPending, aRunning, at, ended, everyJob, started } from './samples.ts';

export interface JobStoreSetup {
  readonly jobs: JobStore;
  /** The dispatch records that are settled together with a job. */
  readonly dispatches: DispatchStore;
  readonly clock: Clock;
  /** With which the store was made, ms. */
  readonly retentionMs: number;
}

/** What the use cases rely on, of any `JobStore`. `setup` may give every test the same store. */
export function jobStoreConformance(name: string, setup: () => JobStoreSetup | Promise<JobStoreSetup>): void {
  async function present(jobs: JobStore, key: string): Promise<Versioned<Job>> {
    const found = await jobs.get(key);
    if (!found) throw new Error(`no record of ${JSON.stringify(key)}`);
    return found;
  }

  test(`${name}: gives one of many racing commits the key (G1, P14)`, async () => {
    const { jobs } = await setup();
    const rivals = Array.from({ length: 20 }, () => ({ ...anAssigned(), key: aPending().key }));
    const { key } = aPending();
    const commits = await Promise.all(rivals.map((rival) => jobs.commit({ ...rival, key }, undefined)));
    const winners = rivals.filter((_, index) => commits[index]?.outcome === 'won');
    expect(winners).toHaveLength(1);
    expect((await present(jobs, key)).record).toEqual({ ...winners[0], key });
  });

  test(`${name}: tells a loser who won, by the record as it is (F5)`, async () => {
    const { jobs } = await setup();
    const holder = aRunning();
    await jobs.commit(holder, undefined);
    const current = await present(jobs, holder.key);
    expect(await jobs.commit(anAssigned({ key: holder.key }), undefined)).toEqual({ outcome: 'lost', current });
    expect(await jobs.commit(anAssigned({ key: holder.key }), 'another revision')).toEqual({ outcome: 'lost', current });
    expect(await present(jobs, holder.key)).toEqual(current);
  });

  test(`${name}: loses without a record where there is none to replace`, async () => {
    const { jobs } = await setup();
    const job = aPending();
    expect(await jobs.commit(job, 'a revision')).toEqual({ outcome: 'lost' });
    expect(await jobs.get(job.key)).toBeUndefined();
  });

  test(`${name}: lets a revision be replaced once, the same record or not`, async () => {
    const { jobs } = await setup();
    const job = aPending();
    await jobs.commit(job, undefined);
    const { rev } = await present(jobs, job.key);
    expect(await jobs.commit(job, rev)).toEqual({ outcome: 'won' });
    expect(await jobs.commit(job, rev)).toMatchObject({ outcome: 'lost', current: { record: job } });
    expect((await present(jobs, job.key)).rev).not.toBe(rev);
  });

  test(`${name}: gives back every status with every field, and keeps nothing of the record before (R8)`, async () => {
    const { jobs, clock } = await setup();
    const { key } = aPending();
    let rev: string | undefined;
    for (const job of everyJob(clock.now())) {
      expect(await jobs.commit({ ...job, key }, rev)).toEqual({ outcome: 'won' });
      const found = await present(jobs, key);
      expect(found.record).toStrictEqual({ ...job, key });
      rev = found.rev;
    }
  });

  test(`${name}: reads a commit at once (F26)`, async () => {
    const { jobs } = await setup();
    const job = aRunning();
    await jobs.commit(job, undefined);
    let { rev } = await present(jobs, job.key);
    for (let fence = 1; fence <= 50; fence += 1) {
      await jobs.commit({ ...job, fence }, rev);
      const found = await present(jobs, job.key);
      expect(found.record.fence).toBe(fence);
      rev = found.rev;
    }
  });

  test(`${name}: keeps keys apart, however alike (F22)`, async () => {
    const { jobs } = await setup();
    const base = aName('k');
    const accents = [`${base}é`, `${base}e\u0301`];
    const alike = [base, `${base} `, ` ${base}`, `${base}#`, `${base}#a`, `${base}/..`, `${base}\u0000`, `job#${base}`, ...accents];
    const longest = [`${base}${'x'.repeat(1024 - base.length)}`, `${base}${'y'.repeat(1024 - base.length)}`];
    const all = [...alike, ...longest].map((key) => aPending({ key }));
    expect(await Promise.all(all.map((job) => jobs.commit(job, undefined)))).toEqual(all.map(() => ({ outcome: 'won' })));
    expect(await Promise.all(all.map(async ({ key }) => (await jobs.get(key))?.record))).toEqual(all);
  });

  test(`${name}: forgets an ended job after the retention, and admits the key anew`, async () => {
    const { jobs, clock, retentionMs } = await setup();
    const old = anEnded({ recordedAt: clock.now() - retentionMs - 10_000 });
    await jobs.commit(old, undefined);
    expect(await jobs.get(old.key)).toBeUndefined();
    const next = anAssigned({ key: old.key });
    expect(await jobs.commit(next, undefined)).toEqual({ outcome: 'won' });
    expect((await present(jobs, old.key)).record).toEqual(next);
  });

  test(`${name}: does not forget an ended job before, nor one behind which another waits (G6)`, async () => {
    const { jobs, clock, retentionMs } = await setup();
    const recent = anEnded({ recordedAt: clock.now() - retentionMs + 60_000 });
    const waitedFor = anEnded({ recordedAt: clock.now() - retentionMs - 10_000, next: aName('d') });
    for (const job of [recent, waitedFor]) {
      await jobs.commit(job, undefined);
      expect((await jobs.get(job.key))?.record).toEqual(job);
      expect(await jobs.commit(anAssigned({ key: job.key }), undefined)).toMatchObject({ outcome: 'lost', current: { record: job } });
    }
  });

  test(`${name}: reads many at once, as they are, and leaves out what is not there`, async () => {
    const { jobs, clock, retentionMs } = await setup();
    const written = Array.from({ length: 120 }, () => aRunning());
    const expired = anEnded({ recordedAt: clock.now() - retentionMs - 10_000 });
    await Promise.all([...written, expired].map((job) => jobs.commit(job, undefined)));
    const keys = [...written.map(({ key }) => key), expired.key, aName('k')];
    const found = await jobs.getMany(keys);
    expect(found).toHaveLength(written.length);
    expect(found).toEqual(expect.arrayContaining(written));
    expect(await jobs.getMany([])).toEqual([]);
  });

  /** A running job and its dispatch, and what both become when it ends. */
  async function ending({ jobs, dispatches, clock }: JobStoreSetup, payload = new Uint8Array()) {
    const admitted = anAdmitted(payload);
    const { key, dispatchId, fingerprint } = admitted;
    await dispatches.admit(admitted, payload);
    await dispatches.change(started(admitted), 'admitted');
    const job = aRunning({ key, dispatchId, fingerprint });
    await jobs.commit(job, undefined);
    const { rev } = await present(jobs, key);
    const next = ended(started(admitted), Math.ceil(clock.now() / 1_000) * 1_000 + 3_600_000);
    const end = anEnded({ key, dispatchId, fingerprint, recordedAt: clock.now(), settled: { outcome: next.outcome, end: next.end } });
    return { job, rev, end, dispatch: started(admitted), settlement: { next, expected: 'started' } as const };
  }

  test.for([0, 5_000])(`${name}: commits an end and its settlement together, with %i bytes of payload`, async (length) => {
    const given = await setup();
    const { jobs, dispatches } = given;
    const { end, rev, settlement } = await ending(given, new Uint8Array(length));
    expect(await jobs.commitSettled(end, rev, settlement)).toEqual({ outcome: 'won' });
    expect((await present(jobs, end.key)).record).toStrictEqual(end);
    expect(await dispatches.get(end.dispatchId)).toStrictEqual(settlement.next);
    expect(await dispatches.payload(end.dispatchId)).toBeUndefined();
  });

  test(`${name}: commits neither an end nor its settlement where the job went on`, async () => {
    const given = await setup();
    const { jobs, dispatches } = given;
    const { end, rev, dispatch, settlement } = await ending(given);
    const moved = anAssigned({ key: end.key });
    await jobs.commit(moved, rev);
    expect(await jobs.commitSettled(end, rev, settlement)).toMatchObject({ outcome: 'lost', current: { record: moved } });
    expect((await present(jobs, end.key)).record).toEqual(moved);
    expect(await dispatches.get(end.dispatchId)).toEqual(dispatch);
  });

  test(`${name}: commits neither an end nor its settlement where the dispatch was settled otherwise (G7)`, async () => {
    const given = await setup();
    const { jobs, dispatches } = given;
    const { job, end, rev, settlement } = await ending(given);
    const other = { ...settlement.next, end: { status: 'failed', finishedAt: at, error: { code: 'c', message: 'm' } } } as const;
    await dispatches.change(other, 'started');
    expect(await jobs.commitSettled(end, rev, settlement)).toEqual({ outcome: 'lost', current: { record: job, rev } });
    expect(await present(jobs, end.key)).toEqual({ record: job, rev });
    expect(await dispatches.get(end.dispatchId)).toEqual(other);
  });

  test(`${name}: settles as a change does: a higher fence and what is known stay, a missing record is written whole`, async () => {
    const given = await setup();
    const { jobs, dispatches } = given;
    const raised = await ending(given);
    const fence = raised.dispatch.fence + 5;
    await dispatches.raiseFence(raised.end.dispatchId, fence);
    expect(await jobs.commitSettled(raised.end, raised.rev, raised.settlement)).toEqual({ outcome: 'won' });
    expect(await dispatches.get(raised.end.dispatchId)).toStrictEqual({ ...raised.settlement.next, fence });

    const { key } = aPending();
    const missing = { ...raised.settlement.next, dispatchId: aName('d'), key };
    const end = { ...raised.end, key, dispatchId: missing.dispatchId };
    expect(await jobs.commitSettled(end, undefined, { next: missing, expected: 'absent' })).toEqual({ outcome: 'won' });
    expect(await dispatches.get(missing.dispatchId)).toStrictEqual(missing);
    expect((await present(jobs, key)).record).toStrictEqual(end);
  });

  test(`${name}: finds what waits and is due, oldest first, and nothing else`, async () => {
    const { jobs, clock } = await setup();
    // Far in the past, so that what others left waiting comes after.
    const base = 1_000 + Math.floor(Math.random() * 1e9);
    const waiting = Array.from({ length: 24 }, (_, index) => aPending({ dueAt: base + index * 2 }));
    const behind = anEnded({ recordedAt: base + 1, next: aName('d') });
    const later = aPending({ dueAt: base + 10_000 });
    const others = [anAssigned(), aRunning(), anEnded({ recordedAt: clock.now() })];
    await Promise.all([...waiting, behind, later, ...others].map((job) => jobs.commit(job, undefined)));
    const [first, ...rest] = waiting.map(({ key }) => key);
    const mine = new Set([...waiting, behind, later, ...others].map(({ key }) => key));
    const dueBy = async (now: number, limit = 1_000) => (await jobs.due(now, limit)).map(({ key }) => key).filter((key) => mine.has(key));
    await expect.poll(() => dueBy(base + 9_999)).toEqual([first, behind.key, ...rest]);
    expect(await dueBy(base + 4)).toEqual([first, behind.key, ...rest.slice(0, 2)]);
    expect((await jobs.due(clock.now(), 3)).length).toBe(3);
  });

  test(`${name}: no longer finds waiting what was assigned, nor owned what was let go`, async () => {
    const { jobs } = await setup();
    const job = aPending({ dueAt: 1 });
    const { key } = job;
    const taken = anAssigned({ key });
    await jobs.commit(job, undefined);
    await expect.poll(async () => (await jobs.due(2, 1_000)).some((due) => due.key === key && due.dueAt === 1)).toBe(true);
    await jobs.commit(taken, (await present(jobs, key)).rev);
    await expect.poll(async () => (await jobs.due(2, 1_000)).some((due) => due.key === key)).toBe(false);
    await expect.poll(async () => (await jobs.ownedBy(taken.owner.worker)).items).toEqual([key]);
    await jobs.commit({ ...job, dueAt: 3 }, (await present(jobs, key)).rev);
    await expect.poll(async () => (await jobs.ownedBy(taken.owner.worker)).items).toEqual([]);
  });

  test(`${name}: finds every key of a worker, over its sessions and over pages`, async () => {
    const { jobs } = await setup();
    const worker = aName('w');
    // Long keys, so that they fill more than one page of whatever size.
    const mine = Array.from({ length: 130 }, (_, index) =>
      (index % 2 ? aRunning : anAssigned)({ key: aName('k').padEnd(1_000, 'x'), owner: { worker, session: `s${index % 3}` } }),
    );
    await Promise.all([...mine, aRunning()].map((job) => jobs.commit(job, undefined)));
    const everyKey = async () => {
      const keys: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await jobs.ownedBy(worker, cursor);
        keys.push(...page.items);
        cursor = page.cursor;
      } while (cursor !== undefined);
      return keys.sort();
    };
    await expect.poll(everyKey).toEqual(mine.map(({ key }) => key).sort());
  });
}
