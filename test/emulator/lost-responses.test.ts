import { afterAll, describe, expect, it } from 'vitest';
import { dynamoDispatches } from '../../lib/aws/dynamo-dispatches.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { dynamoRestores } from '../../lib/aws/dynamo-restores.ts';
import { dynamoRounds } from '../../lib/aws/dynamo-rounds.ts';
import { dynamoRegistry, dynamoWorkers } from '../../lib/aws/dynamo-workers.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import type { Restoration } from '../../lib/resync/decide-restore.ts';
import type { Round } from '../../lib/resync/round.ts';
import {
  aKey,
  aName,
  anAdmitted,
  anAssigned,
  anEnded,
  aPending,
  aRegistration,
  aRunning,
  at,
  cancelled,
  ended,
  started,
} from '../conformance/samples.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { ResponseLoser } from '../support/lost-responses.ts';

// F4: a write that was performed, and whose response was lost, is won; its own success must not be taken for a rival's.

const pool = await adapterPool();
afterAll(() => pool.remove());

const { jobsTable, workersTable, retentionMs } = pool.config;
const wire = new ResponseLoser();
const { dynamo } = await pool.clientsOf(['jobs', 'dispatches', 'workers', 'registry', 'rounds', 'restores'], wire);
const jobs = dynamoJobs({ dynamo, table: jobsTable, retentionMs, clock, ids });
const dispatches = dynamoDispatches({ dynamo, table: jobsTable, clock, ids });
const workers = dynamoWorkers({ dynamo, jobsTable, workersTable, clock, ids });
const registry = dynamoRegistry({ dynamo, table: workersTable, ids });
const restores = dynamoRestores({ dynamo, jobsTable, workersTable, retentionMs, clock, ids });
const rounds = dynamoRounds({ dynamo, table: jobsTable });

/** What `call` gives when the response to its first (or nth) `action` is lost. */
async function losing<T>(action: string, call: () => Promise<T>, nth?: number): Promise<T> {
  const before = wire.lost;
  wire.lose(action, nth);
  const result = await call();
  expect(wire.lost, `${action} was called`).toBe(before + 1);
  return result;
}

const won = { outcome: 'won' };
const later = Math.ceil(clock.now() / 1_000) * 1_000 + 3_600_000;

describe('performed, with the response lost', () => {
  it.each(['of a new record', 'on a revision'])('a commit %s is won', async (on) => {
    const job = anAssigned();
    if (on === 'on a revision') await jobs.commit(aPending({ key: job.key }), undefined);
    const expected = (await jobs.get(job.key))?.rev;
    expect(await losing('PutItem', () => jobs.commit(job, expected))).toEqual(won);
    expect((await jobs.get(job.key))?.record).toEqual(job);
  });

  it.each([
    [0, 1],
    [2_048, 1],
    // Payload and head are two writes.
    [2_049, 1],
    [2_049, 2],
    [262_144, 2],
  ])('an admission with %i bytes is won, of write %i', async (length, nth) => {
    const payload = new Uint8Array(length).fill(7);
    const admitted = anAdmitted(payload);
    expect(await losing('PutItem', () => dispatches.admit(admitted, payload), nth)).toEqual(won);
    expect(await dispatches.get(admitted.dispatchId)).toEqual(admitted);
    expect(await dispatches.payload(admitted.dispatchId)).toEqual(payload);
  });

  it('a change is won, at every step of a dispatch', async () => {
    const admitted = anAdmitted();
    const { dispatchId } = admitted;
    await dispatches.admit(admitted, new Uint8Array());
    for (const [next, expected] of [
      [started(admitted), 'admitted'],
      [ended(started(admitted), later), 'started'],
    ] as const) {
      expect(await losing('UpdateItem', () => dispatches.change(next, expected))).toEqual(won);
      expect(await dispatches.get(dispatchId)).toEqual(next);
    }
    const missing = cancelled(anAdmitted(), later);
    expect(await losing('PutItem', () => dispatches.change(missing, 'absent'))).toEqual(won);
  });

  it.each([1, 2])('a change below the fence of the record is won, of write %i', async (nth) => {
    const admitted = anAdmitted(undefined, { fence: 20 });
    await dispatches.admit(admitted, new Uint8Array());
    expect(await losing('UpdateItem', () => dispatches.change({ ...started(admitted), fence: 10 }, 'admitted'), nth)).toEqual(won);
    expect(await dispatches.get(admitted.dispatchId)).toEqual(started(admitted));
  });

  it.each([0, 5_000])('an end that is committed with its settlement is won, with %i bytes', async (length) => {
    const payload = new Uint8Array(length);
    const admitted = anAdmitted(payload);
    const { key, dispatchId, fingerprint } = admitted;
    await dispatches.admit(admitted, payload);
    const next = cancelled(admitted, later);
    const end = anEnded({ key, dispatchId, fingerprint, recordedAt: clock.now(), settled: { outcome: next.outcome } });
    const settling = () => jobs.commitSettled(end, undefined, { next, expected: 'admitted' });
    expect(await losing('TransactWriteItems', settling)).toEqual(won);
    expect((await jobs.get(key))?.record).toEqual(end);
    expect(await dispatches.get(dispatchId)).toEqual(next);
  });

  it('a raised fence is raised', async () => {
    const admitted = anAdmitted(undefined, { fence: 20 });
    await dispatches.admit(admitted, new Uint8Array());
    await losing('UpdateItem', () => dispatches.raiseFence(admitted.dispatchId, 21));
    expect(await dispatches.get(admitted.dispatchId)).toEqual({ ...admitted, fence: 21 });
  });

  it('a registration stands, and its heartbeat is renewed', async () => {
    const registration = aRegistration();
    const { workerId, session } = registration;
    await losing('PutItem', () => registry.register(registration));
    const heard = await losing('UpdateItem', () => registry.heartbeat({ workerId, session, beat: 1, running: 1 }));
    expect(heard).toEqual({ outcome: 'renewed', row: { ...registration, state: 'active', beat: 1, running: 1 } });
    expect(await workers.get(workerId)).toMatchObject({ beat: 1 });
  });

  it('a worker is declared lost', async () => {
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    const where = { session, states: ['active', 'draining'], beat: 0 } as const;
    expect(await losing('UpdateItem', () => workers.change(workerId, where, { state: 'lost' }))).toMatchObject({ state: 'lost' });
  });

  it('a worker drains and leaves, and what was written of it stands', async () => {
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    const where = { session, states: ['active'] } as const;
    for (const change of [{ generation: 2 }, { round: 'r1' }]) {
      const row = await losing('UpdateItem', () => workers.change(workerId, { ...where, beat: 0 }, change));
      expect(row).toMatchObject({ ...change, state: 'active' });
    }
    expect(await losing('UpdateItem', () => registry.drain(workerId, session))).toBe(true);
    expect(await losing('UpdateItem', () => registry.leave(workerId, session))).toBe(true);
    expect(await workers.get(workerId)).toMatchObject({ state: 'left', generation: 2, round: 'r1' });
  });
});

describe('performed, with the response lost, of a round', () => {
  it('it is opened, asked and armed, each page of its answer counts once, and it is over', async () => {
    const opened = anOpenRound();
    const { token } = opened;
    await losing('PutItem', () => rounds.open(opened));
    expect(await rounds.get(token)).toEqual(opened);
    const pages = [1, 2].map((page) => ({ token, page, jobs: [{ key: aKey(), fence: at, running: true }] }));
    await losing('PutItem', () => rounds.ask(pages));
    for (const page of pages) expect(await rounds.page(token, page.page)).toEqual(page);
    const armed = { asked: 2, deadline: at + 60_000, taskToken: 'task' };
    expect((await losing('UpdateItem', () => rounds.arm(token, armed))).outcome).toBe('won');

    for (const page of [1, 2]) {
      const said = { page, pages: 2, skipped: 1, counts: { 'entry agrees': 3, 'entry unrecognized, stopping': 1 } };
      const { current } = await losing('UpdateItem', () => rounds.apply(token, said));
      expect(current?.applied).toEqual(new Set(page === 1 ? [1] : [1, 2]));
    }
    const { current } = await losing('UpdateItem', () => rounds.close(token, 'resolved'));
    const counts = { 'entry agrees': 6, 'entry unrecognized, stopping': 2 };
    // Whoever waits for it is woken by what comes back.
    expect(current).toEqual({ ...opened, ...armed, state: 'resolved', pages: 2, applied: new Set([1, 2]), skipped: 2, counts });
  });

  function anOpenRound(): Round {
    const round = { token: ids.next(), worker: aName('w'), session: aName('s'), state: 'open', beat: 1, openedAt: at } as const;
    return { ...round, deadline: at, asked: 0, applied: new Set(), skipped: 0, counts: {} };
  }
});

describe('performed, with the response lost, of a restoration', () => {
  it.each([
    ['of a small payload', 3, 'TransactWriteItems'],
    ['of a payload of its own', 3_000, 'TransactWriteItems'],
    ['of a payload of its own, which was written before', 3_000, 'PutItem'],
  ] as const)('%s: it is won', async (_, length, action) => {
    const { job, dispatch, payload, restoration } = await missing(length);
    expect(await losing(action, () => restores.restore(restoration, undefined))).toEqual(won);
    expect((await jobs.get(job.key))?.record).toEqual(job);
    expect(await dispatches.get(dispatch.dispatchId)).toEqual(dispatch);
    expect(await dispatches.payload(dispatch.dispatchId)).toEqual(payload);
  });

  it('in a recovery: what it came to is told once', async () => {
    const { job, restoration } = await missing(3);
    const { key, dispatchId, fence, owner } = job;
    const recovered = { key, dispatchId, fence, worker: owner.worker, how: 'restored' } as const;
    expect(await losing('TransactWriteItems', () => restores.restore({ ...restoration, recovered }, undefined))).toEqual(won);
    // Of the operator's, whom alone it concerns.
    const { dynamo: operator } = await pool.clientsOf(['operate']);
    const told = await dynamoRestores({ dynamo: operator, jobsTable, workersTable, retentionMs, clock, ids }).recovered(1, undefined);
    expect(told.items).toEqual([recovered]);
  });

  it('over another dispatch: that one ends once', async () => {
    const { job, restoration } = await missing(3);
    const wrong = anAdmitted(undefined, { key: job.key });
    await dispatches.admit(wrong, new Uint8Array());
    const { dispatchId, fingerprint } = wrong;
    await jobs.commit(anAssigned({ key: job.key, dispatchId, fingerprint, fence: at - 1 }), undefined);
    const displaced = { next: cancelled(wrong, later), expected: 'admitted' } as const;
    const rev = (await jobs.get(job.key))?.rev;
    expect(await losing('TransactWriteItems', () => restores.restore({ ...restoration, displaced }, rev))).toEqual(won);
    expect((await jobs.get(job.key))?.record).toEqual(job);
    expect(await dispatches.get(dispatchId)).toEqual(displaced.next);
  });
});

/** A job that runs at a worker that was seen, and of which there is no record. */
async function missing(length: number) {
  const registration = aRegistration();
  const { workerId: worker, session } = registration;
  await registry.register(registration);
  await workers.change(worker, { session, states: ['active'] }, { generation: 1 });
  const payload = new Uint8Array(length).fill(7);
  const admitted = anAdmitted(payload);
  const { key, dispatchId, fingerprint } = admitted;
  const job = aRunning({ key, dispatchId, fingerprint, owner: { worker, session } });
  const dispatch = started(admitted);
  const restoration: Restoration = {
    key,
    job,
    dispatch: { next: dispatch, expected: 'absent', payload },
    by: { worker, session, generation: 1 },
  };
  return { job, dispatch, payload, restoration };
}

describe('not performed, because a rival was first, with the response lost', () => {
  it('a commit is lost, to the rival', async () => {
    const rival = aRunning();
    await jobs.commit(rival, undefined);
    const lost = await losing('PutItem', () => jobs.commit(anAssigned({ key: rival.key }), undefined));
    expect(lost).toMatchObject({ outcome: 'lost', current: { record: rival } });
  });

  it('an admission is lost, to the rival', async () => {
    const rival = anAdmitted(new Uint8Array([1]));
    await dispatches.admit(rival, new Uint8Array([1]));
    const admitted = anAdmitted(new Uint8Array([2]), { dispatchId: rival.dispatchId });
    expect(await losing('PutItem', () => dispatches.admit(admitted, new Uint8Array([2])))).toEqual({ outcome: 'lost', current: rival });
  });

  it('a change is lost, to the end that was recorded first', async () => {
    const admitted = anAdmitted();
    await dispatches.admit(admitted, new Uint8Array());
    const first = cancelled(admitted, later);
    await dispatches.change(first, 'admitted');
    const lost = await losing('UpdateItem', () => dispatches.change(started(admitted), 'admitted'));
    expect(lost).toEqual({ outcome: 'lost', current: first });
  });

  it('a restoration is lost, to whoever was assigned the key', async () => {
    const { restoration } = await missing(3_000);
    const rival = anAssigned({ key: restoration.key });
    await jobs.commit(rival, undefined);
    expect(await losing('TransactWriteItems', () => restores.restore(restoration, undefined))).toEqual({ outcome: 'lost' });
    expect((await jobs.get(restoration.key))?.record).toEqual(rival);
    expect(await dispatches.get(restoration.dispatch.next.dispatchId)).toBeUndefined();
  });

  it('a heartbeat is refused', async () => {
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register({ ...registration, session: aName('s') });
    const refused = await losing('UpdateItem', () => registry.heartbeat({ workerId, session, beat: 1, running: 1 }));
    expect(refused).toMatchObject({ outcome: 'refused', row: { running: 0 } });
  });
});
