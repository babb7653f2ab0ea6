import { expect, test } from 'vitest';
import type { RecordReader } from '../../lib/client/ports.ts';
import type { Clock, DispatchStore, JobStore, Page } from '../../lib/pool/ports.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { aName, anAdmitted, anAssigned, anEnded, aPending, aRegistration, aRunning, cancelled } from './samples.ts';

export interface RecordsSetup {
  readonly records: RecordReader;
  /** The writers of the same records. */
  readonly jobs: JobStore;
  readonly dispatches: DispatchStore;
  readonly registry: Registry;
  readonly clock: Clock;
  /** Of ended jobs, ms. */
  readonly retentionMs: number;
}

/** What the client relies on, of any `RecordReader`. `setup` may give every test the same one. */
export function recordsConformance(name: string, setup: () => RecordsSetup | Promise<RecordsSetup>): void {
  async function every(pages: (cursor?: string) => Promise<Page<string>>): Promise<readonly string[]> {
    const all: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await pages(cursor);
      all.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== undefined);
    return all;
  }

  test(`${name}: reads dispatches and jobs as they are at once, many at a time, and leaves out what is not there (F26)`, async () => {
    const { records, jobs, dispatches } = await setup();
    const written = Array.from({ length: 130 }, () => aRunning());
    const admitted = Array.from({ length: 130 }, () => anAdmitted());
    await Promise.all(written.map((job) => jobs.commit(job, undefined)));
    await Promise.all(admitted.map((dispatch) => dispatches.admit(dispatch, new Uint8Array(100))));
    const keys = written.map(({ key }) => key);
    const ids = admitted.map(({ dispatchId }) => dispatchId);
    const someTwice = <T>(all: readonly T[], ...more: readonly T[]) => [...all, ...all.slice(0, 5), ...more];
    expect(await records.jobs(someTwice(keys, aName('k')))).toEqual(new Map(written.map((job) => [job.key, job])));
    const byId = new Map(admitted.map((dispatch) => [dispatch.dispatchId, dispatch]));
    expect(await records.dispatches(someTwice(ids, aName('d')))).toEqual(byId);
  });

  test(`${name}: reads nothing of nothing`, async () => {
    const { records } = await setup();
    expect(await records.jobs([])).toEqual(new Map());
    expect(await records.dispatches([])).toEqual(new Map());
  });

  test(`${name}: does not show what expired`, async () => {
    const { records, jobs, dispatches, clock, retentionMs } = await setup();
    const job = anEnded({ recordedAt: clock.now() - retentionMs - 10_000 });
    const dispatch = cancelled(anAdmitted(), clock.now() - 10_000);
    await jobs.commit(job, undefined);
    await dispatches.change(dispatch, 'absent');
    expect(await records.jobs([job.key])).toEqual(new Map());
    expect(await records.dispatches([dispatch.dispatchId])).toEqual(new Map());
  });

  test(`${name}: finds every key that waits, over all pages, due or not`, async () => {
    const { records, jobs, clock } = await setup();
    const waiting = Array.from({ length: 130 }, (_, index) => aPending({ dueAt: clock.now() + (index % 2 ? 86_400_000 : -1) }));
    const behind = anEnded({ recordedAt: clock.now(), next: aName('d') });
    const others = [anAssigned(), anEnded({ recordedAt: clock.now() })];
    await Promise.all([...waiting, behind, ...others].map((job) => jobs.commit(job, undefined)));
    const expected = [...waiting, behind].map(({ key }) => key);
    await expect.poll(() => every((cursor) => records.pendingKeys(cursor))).toEqual(expect.arrayContaining(expected));
    const found = await every((cursor) => records.pendingKeys(cursor));
    expect(new Set(found).size).toBe(found.length);
    for (const { key } of others) expect(found).not.toContain(key);
  });

  test(`${name}: finds every key of a worker`, async () => {
    const { records, jobs } = await setup();
    const worker = aName('w');
    const mine = [anAssigned({ owner: { worker, session: 's1' } }), aRunning({ owner: { worker, session: 's2' } })];
    await Promise.all([...mine, aRunning()].map((job) => jobs.commit(job, undefined)));
    const keys = async () => [...(await every((cursor) => records.keysOwnedBy(worker, cursor)))].sort();
    await expect.poll(keys).toEqual(mine.map(({ key }) => key).sort());
  });

  test(`${name}: lists the workers, at once`, async () => {
    const { records, registry } = await setup();
    const registration = aRegistration();
    await registry.register(registration);
    const row = { ...registration, state: 'active', beat: 0, running: 0 };
    expect(await records.workers()).toEqual(expect.arrayContaining([row]));
  });
}
