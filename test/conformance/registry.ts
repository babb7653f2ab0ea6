import { expect, test } from 'vitest';
import type { WorkerStore } from '../../lib/pool/ports.ts';
import type { Registry } from '../../lib/worker/ports.ts';
import { aName, aRegistration } from './samples.ts';

export interface RegistrySetup {
  readonly registry: Registry;
  /** The control plane's side of the same rows. */
  readonly workers: Pick<WorkerStore, 'get' | 'change'>;
}

/** What the worker runtime relies on, of any `Registry`. `setup` may give every test the same one. */
export function registryConformance(name: string, setup: () => RegistrySetup | Promise<RegistrySetup>): void {
  async function registered() {
    const { registry, workers } = await setup();
    const registration = aRegistration();
    const { workerId, session } = registration;
    await registry.register(registration);
    return { registry, workers, registration, workerId, session, said: { workerId, session, beat: 1, running: 0 } };
  }

  test(`${name}: a heartbeat of a session that was replaced is refused, and says by whom (F31)`, async () => {
    const { registry, workers, registration, workerId, said } = await registered();
    const successor = { ...registration, session: aName('s') };
    await registry.register(successor);
    const row = await workers.get(workerId);
    expect(row).toMatchObject({ session: successor.session, state: 'active', beat: 0 });
    expect(await registry.heartbeat({ ...said, running: 7 })).toEqual({ outcome: 'refused', row });
    expect(await workers.get(workerId)).toEqual(row);
  });

  test(`${name}: a heartbeat without a row is refused, and makes none`, async () => {
    const { registry, workers } = await setup();
    const { workerId, session } = aRegistration();
    expect(await registry.heartbeat({ workerId, session, beat: 1, running: 0 })).toEqual({ outcome: 'refused' });
    expect(await workers.get(workerId)).toBeUndefined();
  });

  test(`${name}: a row of a new session has nothing of the one before`, async () => {
    const { registry, workers, registration, workerId, session, said } = await registered();
    await registry.heartbeat({ ...said, running: 3, answered: aName('round') });
    await workers.change(workerId, { session, states: ['active', 'draining'] }, { generation: 4 });
    await registry.drain(workerId, session);
    const successor = { ...registration, session: aName('s'), capacity: 3, leaseMs: 5_000 };
    await registry.register(successor);
    expect(await workers.get(workerId)).toStrictEqual({ ...successor, state: 'active', beat: 0, running: 0 });
  });

  test(`${name}: each heartbeat raises the beat, carries what it says and returns the row`, async () => {
    const { registry, workers, registration, workerId, session, said } = await registered();
    const first = await registry.heartbeat({ ...said, running: 2 });
    expect(first).toStrictEqual({ outcome: 'renewed', row: { ...registration, state: 'active', beat: 1, running: 2 } });
    const answered = aName('round');
    await registry.heartbeat({ ...said, beat: 3, running: 1, answered });
    await workers.change(workerId, { session, states: ['active', 'draining'] }, { generation: 2 });
    const last = await registry.heartbeat({ ...said, beat: 4 });
    const row = { ...registration, state: 'active', beat: 4, running: 0, answered, generation: 2 };
    expect(last).toStrictEqual({ outcome: 'renewed', row });
    expect(await workers.get(workerId)).toStrictEqual(row);
  });

  test(`${name}: a heartbeat that was overtaken changes nothing and is not refused; tried again, it is renewed as it was (G8)`, async () => {
    const { registry, workers, registration, workerId, said } = await registered();
    const answered = aName('round');
    const last = { ...said, beat: 3, running: 2, answered };
    const row = { ...registration, state: 'active', beat: 3, running: 2, answered };
    for (let time = 0; time < 2; time++) expect(await registry.heartbeat(last)).toStrictEqual({ outcome: 'renewed', row });
    for (const beat of [1, 2])
      expect(await registry.heartbeat({ ...said, beat, answered: aName('round') })).toEqual({ outcome: 'overtaken' });
    expect(await workers.get(workerId)).toStrictEqual(row);
  });

  test(`${name}: a draining worker goes on beating, and reads in the row that it drains`, async () => {
    const { registry, workerId, session, said } = await registered();
    expect(await registry.drain(workerId, session)).toBe(true);
    expect(await registry.heartbeat(said)).toMatchObject({ outcome: 'renewed', row: { state: 'draining', beat: 1 } });
    expect(await registry.drain(workerId, session)).toBe(false);
  });

  test(`${name}: a worker leaves from draining alone, and beats no more`, async () => {
    const { registry, workers, workerId, session, said } = await registered();
    expect(await registry.leave(workerId, session)).toBe(false);
    await registry.drain(workerId, session);
    expect(await registry.leave(workerId, session)).toBe(true);
    expect(await registry.leave(workerId, session)).toBe(true);
    expect(await registry.drain(workerId, session)).toBe(false);
    const row = await workers.get(workerId);
    expect(row?.state).toBe('left');
    expect(await registry.heartbeat(said)).toEqual({ outcome: 'refused', row });
  });

  test(`${name}: another session changes nothing of the row`, async () => {
    const { registry, workers, workerId, session } = await registered();
    const before = await workers.get(workerId);
    const other = aName('s');
    expect(await registry.drain(workerId, other)).toBe(false);
    await registry.drain(workerId, session);
    expect(await registry.leave(workerId, other)).toBe(false);
    expect(await workers.get(workerId)).toEqual({ ...before, state: 'draining' });
  });
}
