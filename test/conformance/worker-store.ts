import { expect, test } from 'vitest';
import type { WorkerStore } from '../../lib/pool/ports.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { aName, aRegistration } from './samples.ts';

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
      await registry.heartbeat({ workerId, session, running: beat });
      expect(await workers.get(workerId)).toStrictEqual({ ...registration, state: 'active', beat, running: beat });
    }
  });

  test(`${name}: stamps a generation on the session that was seen, and on no later one`, async () => {
    const { workers, registry } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    expect(await workers.stamp(workerId, session, 3)).toBe(true);
    expect(await workers.stamp(workerId, session, 3)).toBe(true);
    expect(await workers.get(workerId)).toStrictEqual({ ...registration, state: 'active', beat: 0, running: 0, generation: 3 });
    await registry.register({ ...registration, session: aName('s') });
    const row = await workers.get(workerId);
    expect(await workers.stamp(workerId, session, 4)).toBe(false);
    expect(await workers.get(workerId)).toStrictEqual(row);
  });

  test(`${name}: stamps no row into being`, async () => {
    const { workers } = await setup();
    const { workerId, session } = aRegistration();
    expect(await workers.stamp(workerId, session, 1)).toBe(false);
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
