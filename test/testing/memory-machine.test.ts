import { expect, test } from 'vitest';
import type { ResyncSettings } from '../../lib/resync/run-round.ts';
import { MemoryMachine } from '../../lib/testing/memory-machine.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';

const LEASE_MS = 30_000;
const settings: ResyncSettings = { leaseMs: LEASE_MS, roundTimeoutMs: LEASE_MS, maxSilentRounds: 3 };
const subject = { worker: 'w', session: 's' };

/** The machine, and one worker that it may ask. */
async function setup() {
  const scheduler = new Scheduler();
  const services = new MemoryServices({ clock: scheduler, timer: scheduler });
  const machine = new MemoryMachine({ scheduler, settings, ports: () => services.poolPorts() });
  services.machine = machine;
  await services.inboxes.create('s');
  await services.workers.register({ workerId: 'w', session: 's', leaseMs: LEASE_MS, capacity: 10, registeredAt: scheduler.now() });
  return { scheduler, machine, rounds: () => services.rounds.all(), row: () => services.workers.peek('w') };
}

test('starts one execution by a name, and none by it once that is over', async () => {
  const { scheduler, machine, rounds } = await setup();
  await machine.start('name', subject);
  await machine.start('name', subject);
  await machine.start('name', { ...subject, session: 's2' });
  expect(machine.running).toBe(1);
  await scheduler.settle();
  expect(rounds()).toHaveLength(1);
  await machine.wake(rounds()[0]?.taskToken ?? '', 'resolved');
  await scheduler.settle();
  await machine.start('name', subject);
  await scheduler.settle();
  expect([machine.running, rounds().length]).toEqual([0, 1]);
});

test('is woken once by a task token, and not disturbed by one that is used, timed out or unknown', async () => {
  const { scheduler, machine, rounds, row } = await setup();
  await machine.wake('unknown', 'gone');
  await machine.start('one', subject);
  await scheduler.settle();
  const token = rounds()[0]?.taskToken ?? '';
  await machine.wake(token, 'resolved');
  await machine.wake(token, 'gone');
  await scheduler.settle();
  expect(machine.running).toBe(0);

  await scheduler.advance(2 * LEASE_MS);
  await machine.start('two', subject);
  await scheduler.settle();
  const late = rounds()[1]?.taskToken ?? '';
  await scheduler.advance(LEASE_MS);
  expect(row()?.state).toBe('lost');
  await machine.wake(late, 'resolved');
  await scheduler.advance(LEASE_MS);
  expect([machine.running, row()?.state]).toEqual([0, 'lost']);
});
