import { expect, test } from 'vitest';
import type { WorkerStore } from '../../lib/pool/ports.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { aName, aRegistration, at } from './samples.ts';

export interface WorkerStoreSetup {
  readonly workers: WorkerStore;
  /** The workers' side of the same rows. */
  readonly registry: Registry;
}

/** What the use cases rely on, of any `WorkerStore`. `setup` may give every test the same store. */
export function workerStoreConformance(name: string, setup: () => WorkerStoreSetup | Promise<WorkerStoreSetup>): void {
  test(`${name}: reads a row as it is at once, and none where there is none (F26)`, async () => {
    const { workers, registry } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    expect(await workers.get(workerId)).toBeUndefined();
    await registry.register(registration);
    for (let beat = 1; beat <= 20; beat += 1) {
      await registry.heartbeat({ workerId, session, beat, running: beat });
      expect(await workers.get(workerId)).toStrictEqual({ ...registration, state: 'active', beat, running: beat });
    }
  });

  test(`${name}: changes the session that was seen and no later one, and returns the row as it is then`, async () => {
    const { workers, registry } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    const changed = { ...registration, state: 'active', beat: 0, running: 0, generation: 3, round: 'r1' };
    const here = { session, states: ['active', 'draining'] } as const;
    expect(await workers.change(workerId, here, { generation: 3, round: 'r1' })).toStrictEqual(changed);
    expect(await workers.get(workerId)).toStrictEqual(changed);
    expect(await workers.change(workerId, here, { namedAt: at, auditAt: at, round: 'r2' })).toStrictEqual({
      ...changed,
      namedAt: at,
      auditAt: at,
      round: 'r2',
    });
    await registry.register({ ...registration, session: aName('s') });
    const row = await workers.get(workerId);
    expect(await workers.change(workerId, here, { state: 'lost' })).toBeUndefined();
    expect(await workers.get(workerId)).toStrictEqual(row);
  });

  test(`${name}: declares lost only the beat that was looked at, in a state that was meant`, async () => {
    const { workers, registry } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    await registry.heartbeat({ workerId, session, beat: 1, running: 0 });
    const lose = (beat: number) => workers.change(workerId, { session, states: ['active', 'draining'], beat }, { state: 'lost' });
    expect(await lose(0)).toBeUndefined();
    expect(await lose(1)).toMatchObject({ state: 'lost', beat: 1 });
    expect(await lose(1)).toBeUndefined();
    const again = await registry.heartbeat({ workerId, session, beat: 2, running: 0 });
    expect(again).toMatchObject({ outcome: 'refused', row: { state: 'lost', beat: 1 } });
  });

  test(`${name}: changes or removes no row into being`, async () => {
    const { workers } = await setup();
    const { workerId, session } = aRegistration();
    const where = { session, states: ['active'] } as const;
    expect(await workers.change(workerId, where, { generation: 1 })).toBeUndefined();
    await workers.remove(workerId, where);
    expect(await workers.get(workerId)).toBeUndefined();
  });

  test(`${name}: removes the row that was seen, and none that came after it`, async () => {
    const { workers, registry } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    await workers.remove(workerId, { session: aName('s'), states: ['active'] });
    await workers.remove(workerId, { session, states: ['lost', 'left'] });
    await workers.remove(workerId, { session, states: ['active'], beat: 1 });
    expect(await workers.get(workerId)).toBeDefined();
    await workers.remove(workerId, { session, states: ['active'], beat: 0 });
    expect(await workers.get(workerId)).toBeUndefined();
  });

  test(`${name}: lists every row within seconds, whatever its state`, async () => {
    const { workers, registry } = await setup();
    const registrations = Array.from({ length: 12 }, () => aRegistration());
    await Promise.all(registrations.map((registration) => registry.register(registration)));
    const [draining] = registrations;
    if (draining) await registry.drain(draining.workerId, draining.session);
    const rows = await Promise.all(registrations.map(({ workerId }) => workers.get(workerId)));
    await expect.poll(() => workers.list(), { timeout: 15_000, interval: 500 }).toEqual(expect.arrayContaining(rows));
  });

  test(`${name}: a pool of which nothing is recorded is open, in its first generation`, async () => {
    const { workers } = await setup();
    expect(await workers.poolState()).toEqual({ state: 'open', generation: 1 });
  });
}
