import { expect, test } from 'vitest';
import type { RunningJob } from '../../lib/pool/job.ts';
import type { ExecutionInput, RoundResult } from '../../lib/resync/ports.ts';
import { armRound, evict, expireRound, loseRevoked, openRound, type ResyncSettings, type Step } from '../../lib/resync/run-round.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { parseCommand, type ResyncCommand } from '../../lib/wire/index.ts';

const LEASE_MS = 30_000;
const settings: ResyncSettings = { leaseMs: LEASE_MS, roundTimeoutMs: LEASE_MS, maxSilentRounds: 3 };
const subject = { worker: 'w', session: 's' };
const NEW = { rounds: 0 };

/** One worker, and the steps of its rounds called by hand where the state machine would. */
async function setup({ leaseMs = LEASE_MS }: { readonly leaseMs?: number } = {}) {
  const scheduler = new Scheduler();
  const services = new MemoryServices({ clock: scheduler, timer: scheduler });
  const started: (ExecutionInput & { readonly name: string })[] = [];
  const woken: (readonly [string, RoundResult])[] = [];
  services.machine = {
    start: async (name, input) => void started.push({ name, ...input }),
    wake: async (taskToken, result) => void woken.push([taskToken, result]),
  };
  const ports = services.poolPorts();
  const { workers, inboxes, rounds, jobs } = services;
  await inboxes.create('s');
  await workers.register({ workerId: 'w', session: 's', leaseMs, capacity: 1_000, registeredAt: scheduler.now() });

  const tokenOf = (step: Step) => {
    if (step.next !== 'arm') throw new Error(`next is ${step.next}`);
    return step.token;
  };
  let beats = 0;
  return {
    ...{ services, ports, workers, rounds, started, woken },
    advance: (ms: number) => scheduler.advance(ms),
    row: () => workers.peek('w'),
    beat: () => workers.heartbeat({ workerId: 'w', session: 's', beat: ++beats, running: 0 }),
    open: (silence = NEW) => openRound(ports, settings, subject, silence),
    expire: (token: string, silence = NEW) => expireRound(ports, settings, token, silence),
    /** Opens and arms a round, as an execution does that only begins. */
    async begin(taskToken: string): Promise<string> {
      const token = tokenOf(await openRound(ports, settings, subject, NEW));
      await armRound(ports, settings, token, taskToken);
      return token;
    },
    tokenOf,
    /** Pages of the question that the worker has not taken yet. */
    async asked(): Promise<readonly ResyncCommand[]> {
      const commands: ResyncCommand[] = [];
      for (;;) {
        const received = await inboxes.receive('s', 0);
        if (received === 'no-inbox' || received.length === 0) return commands;
        for (const { body, receipt } of received) {
          const parsed = parseCommand(body);
          if (parsed.ok && parsed.value.op === 'resync') commands.push(parsed.value);
          await inboxes.delete('s', [receipt]);
        }
      }
    },
    async own(keys: readonly string[]): Promise<void> {
      for (const key of keys) {
        const job: RunningJob = {
          ...{ key, dispatchId: `d-${key}`, fingerprint: 'f', fence: 1, attempt: 1, admittedAt: 1, assignedAt: 1, startedAt: 1 },
          ...{ status: 'running', owner: subject },
        };
        await jobs.commit(job, undefined);
      }
    },
  };
}

test('who begins while a round is in course opens none over it, but asks its pages again', async () => {
  const { begin, open, row, asked, own, beat, advance, woken } = await setup();
  await own(['a', 'b']);
  const token = await begin('first');
  const question = await asked();
  expect(question).toMatchObject([{ round: token, page: 1, pages: 1, beat: 0, jobs: [{ key: 'a' }, { key: 'b' }] }]);
  await beat();
  await advance(1.4 * LEASE_MS);
  expect(await open()).toEqual({ next: 'done' });
  expect(row()?.round).toBe(token);
  expect(await asked()).toEqual(question);
  expect(woken).toEqual([]);
});

test('a round that its machine left overdue is superseded, and whoever waits for it is woken (R2)', async () => {
  const { begin, row, advance, woken, rounds } = await setup();
  const first = await begin('first');
  await advance(1.5 * LEASE_MS + 1);
  const second = await begin('second');
  expect(row()?.round).toBe(second);
  expect((await rounds.get(first))?.state).toBe('closed');
  expect(woken).toEqual([['first', 'superseded']]);
});

test('a round that was answered stands in nobody’s way', async () => {
  const { begin, row, rounds } = await setup();
  await rounds.close(await begin('first'), 'resolved');
  const second = await begin('second');
  expect(row()?.round).toBe(second);
});

test('asking in a loop never puts off the eviction of a worker that beats and does not answer', async () => {
  const { begin, open, beat, advance, expire, tokenOf, ports, row } = await setup();
  let token = await begin('first');
  let silence = NEW;
  const ends: string[] = [];
  while (ends.length < 3) {
    for (let second = 0; second < LEASE_MS / 1_000; second++) {
      await advance(1_000);
      await beat();
      expect((await open()).next).toBe('done');
    }
    const end = await expire(token, silence);
    ends.push(end.next);
    if (end.next !== 'open') break;
    // Just now, too: the round is closed, and its machine is about to open the next.
    expect((await open()).next).toBe('done');
    silence = end.silence;
    token = tokenOf(await open(silence));
    await armRound(ports, settings, token, 'next');
  }
  expect(ends).toEqual(['open', 'open', 'wait']);
  expect(row()?.state).toBe('revoked');
});

test('asking in a loop never puts off that a silent worker is lost, nor where its lease is longer than a round', async () => {
  const { begin, open, advance, expire, tokenOf, ports, row } = await setup({ leaseMs: 2 * LEASE_MS });
  const first = await begin('first');
  await advance(LEASE_MS);
  const end = await expire(first);
  expect((await open()).next).toBe('done');
  const silence = end.next === 'open' ? end.silence : NEW;
  const second = tokenOf(await open(silence));
  await armRound(ports, settings, second, 'next');
  await advance(LEASE_MS);
  expect((await open()).next).toBe('done');
  expect((await expire(second, silence)).next).toBe('reassign');
  expect(row()?.state).toBe('lost');
});

test('a question goes in pages of at most 100 jobs, and of no more than an item and a message hold however their keys are escaped', async () => {
  const { own, begin, asked, rounds } = await setup();
  await own(Array.from({ length: 230 }, (_, index) => `small ${index}`));
  const long = Array.from({ length: 120 }, (_, index) => `${index}`.padEnd(1_024, '\u0001'));
  await own(long);
  const token = await begin('first');
  const question = await asked();
  expect(question.map(({ page }) => page).sort((a, b) => a - b)).toEqual(Array.from(question, (_, index) => index + 1));
  const keys = question.flatMap(({ jobs }) => jobs.map(({ key }) => key));
  expect(new Set(keys).size).toBe(350);
  for (const { jobs, page, pages } of question) {
    expect(pages).toBe(question.length);
    expect(jobs.length).toBeLessThanOrEqual(100);
    expect(Buffer.byteLength(JSON.stringify(jobs))).toBeLessThan(400_000);
    expect((await rounds.page(token, page))?.jobs).toEqual(jobs);
  }
});

test('an evicted worker renews no more from that moment, and is lost after the longer of its lease and the pool’s', async () => {
  const { begin, ports, row, beat, started, woken, open, rounds } = await setup({ leaseMs: 45_000 });
  const token = await begin('first');
  expect(await evict(ports, subject)).toBe(true);
  expect(await beat()).toMatchObject({ outcome: 'refused', row: { state: 'revoked' } });
  expect(started).toEqual([{ name: expect.stringMatching(/^s-0-\d+-revoked$/), ...subject }]);
  // The execution that was started waits in place of the one that waited for the answer.
  expect(await open()).toEqual({ next: 'wait', waitSeconds: 45 });
  expect((await rounds.get(token))?.state).toBe('closed');
  expect(woken).toEqual([['first', 'superseded']]);
  expect((await loseRevoked(ports, subject)).next).toBe('reassign');
  expect(row()?.state).toBe('lost');
});

test('an eviction that died half-way is finished by asking again, and by the machine that waits for the round', async () => {
  const { begin, ports, workers, started, expire } = await setup();
  const token = await begin('first');
  await workers.change('w', { session: 's', states: ['active'] }, { state: 'revoked' });
  expect(await expire(token)).toEqual({ next: 'wait', waitSeconds: 30 });
  expect(await evict(ports, subject)).toBe(true);
  expect(started).toHaveLength(1);
});

test.each(['lost', 'left'] as const)('a worker that is %s is not evicted, and nobody waits for it', async (state) => {
  const { ports, workers, row, started } = await setup();
  await workers.change('w', { session: 's', states: ['active'] }, { state });
  expect(await evict(ports, subject)).toBe(false);
  expect(row()?.state).toBe(state);
  expect(started).toEqual([]);
});
