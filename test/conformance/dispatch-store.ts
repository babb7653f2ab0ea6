import { expect, test } from 'vitest';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import type { Clock, DispatchStore } from '../../lib/pool/ports.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { aName, anAdmitted, at, cancelled, ended, started } from './samples.ts';

export interface DispatchStoreSetup {
  readonly dispatches: DispatchStore;
  readonly clock: Clock;
}

/** Deterministic, and not text: every byte value, NUL and invalid UTF-8 among them. */
export function bytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, index) => (index * 31) % 256);
}

/** What the use cases rely on, of any `DispatchStore`. `setup` may give every test the same store. */
export function dispatchStoreConformance(name: string, setup: () => DispatchStoreSetup | Promise<DispatchStoreSetup>): void {
  const wholeSecondsFrom = (now: number) => Math.ceil(now / 1_000) * 1_000;
  const later = ({ clock }: DispatchStoreSetup) => wholeSecondsFrom(clock.now()) + 3_600_000;
  const earlier = ({ clock }: DispatchStoreSetup) => wholeSecondsFrom(clock.now()) - 10_000;

  test.for([0, 1, 256, 2_048, 2_049, 262_144])(
    `${name}: keeps a payload of %i bytes byte for byte, until the dispatch is over`,
    async (length) => {
      const given = await setup();
      const { dispatches } = given;
      const payload = bytes(length);
      const admitted = anAdmitted(payload);
      const { dispatchId } = admitted;
      expect(await dispatches.admit(admitted, payload)).toEqual({ outcome: 'won' });
      expect(await dispatches.get(dispatchId)).toStrictEqual(admitted);
      expect(await dispatches.payload(dispatchId)).toEqual(payload);
      expect(await dispatches.change(started(admitted), 'admitted')).toEqual({ outcome: 'won' });
      expect(await dispatches.payload(dispatchId)).toEqual(payload);
      const over = ended(started(admitted), later(given));
      expect(await dispatches.change(over, 'started')).toEqual({ outcome: 'won' });
      expect(await dispatches.payload(dispatchId)).toBeUndefined();
      expect(await dispatches.get(dispatchId)).toStrictEqual(over);
    },
  );

  test.for([0, 2_048, 2_049, 262_144])(`${name}: never gives a dispatch the payload of a rival, of %i bytes (P3, P4)`, async (length) => {
    const { dispatches } = await setup();
    const dispatchId = aName('d');
    const rivals = Array.from({ length: 8 }, (_, index) => {
      const payload = Uint8Array.from([...bytes(length), index]);
      return { payload, head: anAdmitted(payload, { dispatchId }) };
    });
    const commits = await Promise.all(rivals.map(({ head, payload }) => dispatches.admit(head, payload)));
    const [winner, ...more] = rivals.filter((_, index) => commits[index]?.outcome === 'won');
    expect(more).toEqual([]);
    expect(await dispatches.get(dispatchId)).toEqual(winner?.head);
    expect(await dispatches.payload(dispatchId)).toEqual(winner?.payload);
    for (const commit of commits) if (commit.outcome === 'lost') expect(commit.current).toEqual(winner?.head);
  });

  test.for([3, 5_000])(`${name}: admits an id once, and leaves what is there as it was (G3, P5), %i bytes`, async (length) => {
    const given = await setup();
    const { dispatches } = given;
    const payload = bytes(length);
    const admitted = anAdmitted(payload);
    const { dispatchId } = admitted;
    await dispatches.admit(admitted, payload);
    for (const next of [started(admitted), ended(started(admitted), later(given))]) {
      await dispatches.change(next, next.status === 'started' ? 'admitted' : 'started');
      const other = anAdmitted(bytes(length + 1), { dispatchId });
      expect(await dispatches.admit(other, bytes(length + 1))).toEqual({ outcome: 'lost', current: next });
      expect(await dispatches.admit(admitted, payload)).toEqual({ outcome: 'lost', current: next });
      expect(await dispatches.get(dispatchId)).toEqual(next);
      expect(await dispatches.payload(dispatchId)).toEqual(next.status === 'started' ? payload : undefined);
    }
  });

  test(`${name}: knows nothing of an id that was never seen`, async () => {
    const { dispatches } = await setup();
    const admitted = anAdmitted();
    expect(await dispatches.get(admitted.dispatchId)).toBeUndefined();
    expect(await dispatches.payload(admitted.dispatchId)).toBeUndefined();
    expect(await dispatches.change(started(admitted), 'admitted')).toEqual({ outcome: 'lost' });
    await dispatches.raiseFence(admitted.dispatchId, at);
    expect(await dispatches.get(admitted.dispatchId)).toBeUndefined();
  });

  test(`${name}: records the first of several ends and answers the others with it (G7, F11)`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const admitted = anAdmitted();
    await dispatches.admit(admitted, new Uint8Array());
    await dispatches.change(started(admitted), 'admitted');
    const ends = Array.from({ length: 8 }, (_, index) => ({
      ...ended(started(admitted), later(given)),
      end: { status: 'failed', finishedAt: at + index, error: { code: 'broken', message: `${index}` } } as const,
    }));
    const commits = await Promise.all(ends.map((end) => dispatches.change(end, 'started')));
    const first = ends.find((_, index) => commits[index]?.outcome === 'won');
    expect(commits.filter(({ outcome }) => outcome === 'won')).toHaveLength(1);
    for (const commit of commits) if (commit.outcome === 'lost') expect(commit.current).toEqual(first);
    expect(await dispatches.get(admitted.dispatchId)).toEqual(first);
  });

  test(`${name}: changes nothing where the status is another, and says which`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const expiresAt = later(given);
    const admitted = anAdmitted();
    await dispatches.admit(admitted, new Uint8Array());
    const over = ended(started(admitted), expiresAt);
    const lost = { outcome: 'lost', current: admitted };
    expect(await dispatches.change(over, 'started')).toEqual(lost);
    expect(await dispatches.change(over, 'absent')).toEqual(lost);
    expect(await dispatches.change(cancelled(admitted, expiresAt), 'never-started')).toEqual(lost);
    expect(await dispatches.get(admitted.dispatchId)).toEqual(admitted);
  });

  test(`${name}: changes nothing of another key or fingerprint (P3)`, async () => {
    const { dispatches } = await setup();
    const admitted = anAdmitted();
    const { dispatchId } = admitted;
    await dispatches.admit(admitted, new Uint8Array());
    const lost = { outcome: 'lost', current: admitted };
    expect(await dispatches.change({ ...started(admitted), key: aName('k') }, 'admitted')).toEqual(lost);
    expect(await dispatches.change({ ...started(admitted), fingerprint: 'another' }, 'admitted')).toEqual(lost);
    expect(await dispatches.get(dispatchId)).toEqual(admitted);
  });

  test(`${name}: an unknown fingerprint matches any, and what was known of it stays`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const expiresAt = later(given);
    const admitted = anAdmitted();
    await dispatches.admit(admitted, new Uint8Array());
    const { fingerprint: _, ...unknown } = cancelled(admitted, expiresAt);
    expect(await dispatches.change(unknown, 'admitted')).toEqual({ outcome: 'won' });
    expect(await dispatches.get(admitted.dispatchId)).toStrictEqual(cancelled(admitted, expiresAt));

    const { fingerprint: __, ...foreign } = started(anAdmitted());
    expect(await dispatches.change(foreign, 'absent')).toEqual({ outcome: 'won' });
    expect(await dispatches.get(foreign.dispatchId)).toStrictEqual(foreign);
    const known = { ...ended(foreign, expiresAt), fingerprint: fingerprintOf(foreign.key, new Uint8Array()) };
    expect(await dispatches.change(known, 'started')).toEqual({ outcome: 'won' });
    expect(await dispatches.get(foreign.dispatchId)).toStrictEqual(known);
  });

  test(`${name}: what the record has already stays: since when it ran, when it was asked for, a higher fence`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const expiresAt = later(given);
    const admitted = anAdmitted(undefined, { fence: 20 });
    const { dispatchId } = admitted;
    await dispatches.admit(admitted, new Uint8Array());
    const presumed = (dispatch: Dispatch): Dispatch => ({ ...dispatch, requestedAt: at + 5, fence: 7 });
    expect(await dispatches.change(presumed(started(admitted)), 'admitted')).toEqual({ outcome: 'won' });
    expect(await dispatches.get(dispatchId)).toStrictEqual(started(admitted));
    const over = ended(started(admitted, at + 9), expiresAt);
    expect(await dispatches.change({ ...over, fence: 30 }, 'started')).toEqual({ outcome: 'won' });
    expect(await dispatches.get(dispatchId)).toStrictEqual({ ...ended(started(admitted), expiresAt), fence: 30 });
  });

  test(`${name}: does not end what a start of a higher fence may be on its way to`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const expiresAt = later(given);
    const admitted = anAdmitted(undefined, { fence: 20 });
    await dispatches.admit(admitted, new Uint8Array());
    const stale = { ...cancelled(admitted, expiresAt), fence: 19 };
    expect(await dispatches.change(stale, 'admitted', 19)).toEqual({ outcome: 'lost', current: admitted });
    expect(await dispatches.change(stale, 'admitted', 20)).toEqual({ outcome: 'won' });
    expect(await dispatches.get(admitted.dispatchId)).toEqual(cancelled(admitted, expiresAt));
  });

  test(`${name}: raises a fence and never lowers it`, async () => {
    const { dispatches } = await setup();
    const admitted = anAdmitted(undefined, { fence: 20 });
    await dispatches.admit(admitted, new Uint8Array());
    await Promise.all([19, 25, 24, 20].map((fence) => dispatches.raiseFence(admitted.dispatchId, fence)));
    expect(await dispatches.get(admitted.dispatchId)).toEqual({ ...admitted, fence: 25 });
  });

  test(`${name}: writes a missing record whole, once`, async () => {
    const given = await setup();
    const { dispatches } = given;
    const lost = cancelled(anAdmitted(), later(given));
    const rivals = await Promise.all([lost, lost, lost].map((each, index) => dispatches.change({ ...each, fence: index }, 'absent')));
    expect(rivals.map(({ outcome }) => outcome).sort()).toEqual(['lost', 'lost', 'won']);
    expect(await dispatches.payload(lost.dispatchId)).toBeUndefined();
  });

  test.for([5, 3_000])(`${name}: forgets a dispatch that expired, and admits its id anew, %i bytes`, async (length) => {
    const given = await setup();
    const { dispatches } = given;
    const expired = cancelled(anAdmitted(bytes(length)), earlier(given));
    const { dispatchId } = expired;
    await dispatches.change(expired, 'absent');
    expect(await dispatches.get(dispatchId)).toBeUndefined();
    const payload = bytes(length);
    const again = anAdmitted(payload, { dispatchId });
    expect(await dispatches.admit(again, payload)).toEqual({ outcome: 'won' });
    expect(await dispatches.get(dispatchId)).toStrictEqual(again);
    expect(await dispatches.payload(dispatchId)).toEqual(payload);
  });
}
