import { describe, expect, test } from 'vitest';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { Violation } from '../../lib/testing/claims.ts';
import { Checker } from '../../lib/testing/invariants.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Process } from '../../lib/testing/process.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';

/** A checker that cannot fail proves nothing: each guarantee is broken here, once. */
function setup() {
  const scheduler = new Scheduler();
  const violations: Violation[] = [];
  const leaseMs = 30_000;
  const checker = new Checker({ scheduler, leaseMs, services: () => services, onViolation: (violation) => violations.push(violation) });
  const services = new MemoryServices({ clock: scheduler, timer: scheduler, observe: { job: checker.job, dispatch: checker.dispatch } });
  const worker = (name: string) => {
    const process = new Process(scheduler, { name, kind: 'worker' });
    renew(process);
    return process;
  };
  const renew = (by: Process, row?: object) =>
    checker.heard({ by, service: 'registry', method: 'register', args: row ? [row] : [] }, scheduler.now(), { value: undefined });
  return { scheduler, checker, services, worker, renew, leaseMs, broken: () => violations.map(({ guarantee }) => guarantee) };
}

const head = { key: 'k', dispatchId: 'd1', fingerprint: 'f', attempt: 1, admittedAt: 1 };
const owner = (worker: string) => ({ worker, session: `session-${worker}` });
const assigned = (fence: number, worker: string): Job => ({ ...head, status: 'assigned', fence, owner: owner(worker), assignedAt: 1 });
const running = (fence: number, worker: string): Job => ({
  ...assigned(fence, worker),
  status: 'running',
  owner: owner(worker),
  assignedAt: 1,
  startedAt: 1,
});
const ended: Job = {
  ...head,
  status: 'ended',
  fence: 2,
  recordedAt: 2_000_000_000_000,
  settled: { outcome: { outcome: 'started', at: 1 }, end: { status: 'succeeded', finishedAt: 2 } },
};
const dispatch: Dispatch = {
  dispatchId: 'd1',
  key: 'k',
  fingerprint: 'f',
  fence: 2,
  requestedAt: 1,
  status: 'started',
  outcome: { outcome: 'started', at: 1 },
};

describe('the checker sees', () => {
  test('a job that is assigned before it is due (G8)', () => {
    const { scheduler, checker, broken } = setup();
    const pending: Job = { ...head, status: 'pending', fence: 1, dueAt: scheduler.now() + 5_000, because: 'admitted' };
    checker.job('k', pending, assigned(2, 'a'));
    scheduler.skipTo(scheduler.now() + 5_000);
    checker.job('k', { ...pending, fence: 2 }, assigned(3, 'a'));
    expect(broken()).toEqual(['G8 any order']);
  });

  test('a job that is assigned in a pool that has long been closed (G8)', () => {
    const { scheduler, checker, broken } = setup();
    checker.pool({ state: 'closed', generation: 1 });
    checker.job('k', undefined, assigned(2, 'a'));
    scheduler.skipTo(scheduler.now() + 31_000);
    checker.job('l', undefined, { ...assigned(2, 'a'), key: 'l' });
    checker.pool({ state: 'open', generation: 1 });
    checker.job('m', undefined, { ...assigned(2, 'a'), key: 'm' });
    expect(broken()).toEqual(['G8 any order']);
  });

  test('an attempt that is counted though nothing failed (G4)', () => {
    const { checker, worker, broken } = setup();
    checker.job('k', running(2, 'a'), { ...running(2, 'a'), attempt: 2 });
    checker.over(checker.starting(worker('a'), 'k', 'd1', 2), { failed: true });
    checker.job('k', running(2, 'a'), { ...running(2, 'a'), attempt: 2 });
    expect(broken()).toEqual(['G4 a repeated start is harmless']);
  });

  test('one fence given to two owners (G1)', () => {
    const { checker, broken } = setup();
    checker.job('k', undefined, assigned(2, 'a'));
    checker.job('k', assigned(2, 'a'), assigned(2, 'b'));
    expect(broken()).toEqual(['G1 one owner']);
  });

  test('a fence that falls (G1)', () => {
    const { checker, broken } = setup();
    checker.job('k', undefined, assigned(3, 'a'));
    checker.job('k', assigned(3, 'a'), assigned(2, 'b'));
    expect(broken()).toEqual(['G1 one owner']);
  });

  test('a start command to a session that was not given the fence (G1)', () => {
    const { checker, broken } = setup();
    checker.job('k', undefined, assigned(2, 'a'));
    const start = { op: 'start', key: 'k', dispatchId: 'd1', fingerprint: 'f', fence: 2, attempt: 1, payload: new Uint8Array() } as const;
    checker.startSent({ ...start, session: 'session-a' });
    expect(broken()).toEqual([]);
    checker.startSent({ ...start, session: 'session-b' });
    expect(broken()).toEqual(['G1 one owner']);
  });

  test('a handler started while another worker has one alive (G2)', async () => {
    const { checker, services, worker, broken } = setup();
    const [a, b] = [worker('a'), worker('b')];
    await services.jobs.commit(assigned(2, 'a'), undefined);
    checker.up(checker.starting(a, 'k', 'd1', 2));
    await services.jobs.commit(assigned(3, 'b'), 'rev-1');
    checker.starting(b, 'k', 'd1', 3);
    expect(broken()).toEqual(['G2 one live handler']);
  });

  test('no breach where the other one is frozen and the fence is higher, but one where it is not (G2)', async () => {
    const { checker, services, worker, broken } = setup();
    const [a, b] = [worker('a'), worker('b')];
    await services.jobs.commit(assigned(2, 'a'), undefined);
    checker.up(checker.starting(a, 'k', 'd1', 2));
    a.freeze();
    await services.jobs.commit(assigned(3, 'b'), 'rev-1');
    checker.over(checker.starting(b, 'k', 'd1', 3));
    expect(broken()).toEqual([]);
    checker.starting(b, 'k', 'd1', 2);
    expect(broken()).toContain('G2 one live handler');
  });

  test('a write that the resource refused to a worker that was never frozen (G2)', () => {
    const { checker, worker, broken } = setup();
    checker.refusedWrite(worker('a'), 'k', 2);
    expect(broken()).toEqual(['G2 one live handler']);
  });

  test('an outcome that changes, and a fingerprint that does (G3)', () => {
    const { checker, broken } = setup();
    checker.dispatch('d1', dispatch, { ...dispatch, outcome: { outcome: 'started', at: 5 } });
    checker.dispatch('d1', dispatch, { ...dispatch, fingerprint: 'other' });
    expect(broken()).toEqual(['G3 exact dispatch', 'G3 exact dispatch']);
  });

  test('a payload that was not admitted (G3)', async () => {
    const { checker, services, broken } = setup();
    await services.dispatches.admit({ ...dispatch, status: 'admitted', fingerprint: 'f' }, new Uint8Array());
    checker.payload('d1', 'k', new TextEncoder().encode('other'));
    expect(broken()).toEqual(['G3 exact dispatch']);
  });

  test('a handler started twice on one worker, and one stopped that nobody asked to stop (G4)', async () => {
    const { checker, services, worker, broken } = setup();
    const a = worker('a');
    await services.jobs.commit(running(2, 'a'), undefined);
    const handler = checker.starting(a, 'k', 'd1', 2);
    checker.starting(a, 'k', 'd1', 2);
    checker.stopping(handler, 'stop-requested');
    expect(broken()).toEqual(['G4 a repeated start is harmless', 'G4 a repeated start is harmless']);
  });

  describe('where a record was deleted (G5)', () => {
    const other: Job = { ...assigned(3, 'b'), dispatchId: 'd2' };
    const row = { workerId: 'a', session: 'session-a', capacity: 1, leaseMs: 30_000, registeredAt: 1 };
    const here = { session: 'session-a', states: ['active'] } as const;

    /** A job that ran at `a`, under fence 2. */
    async function deleted() {
      const given = setup();
      const a = given.worker('a');
      await given.services.workers.register(row);
      await given.services.workers.change('a', here, { generation: 1 });
      await given.services.jobs.commit(running(2, 'a'), undefined);
      const handler = given.checker.starting(a, 'k', 'd1', 2);
      given.checker.up(handler);
      given.services.jobs.delete('k');
      return { ...given, a, handler };
    }

    test('nothing wrong with a handler beside the one that nobody knows of, nor with what really runs in its place again', async () => {
      const { checker, services, worker, a, handler, broken } = await deleted();
      await services.jobs.commit(other, undefined);
      const beside = checker.starting(worker('b'), 'k', 'd2', 3);
      checker.refusedWrite(a, 'k', 2);
      checker.over(beside);
      services.jobs.delete('k');
      await services.jobs.commit(running(2, 'a'), undefined);
      checker.stopping(handler, 'stop-requested');
      expect(broken()).toEqual([]);
    });

    test('a start beside what a recovery has put back under, and beside what was deleted before a recovery that is over', async () => {
      const putBack = setup();
      const a = putBack.worker('a');
      await putBack.services.jobs.commit(running(2, 'a'), undefined);
      putBack.checker.up(putBack.checker.starting(a, 'k', 'd1', 2));
      putBack.checker.heldBack(() => putBack.services.jobs.delete('k'));
      await putBack.services.jobs.commit(other, undefined);
      putBack.checker.starting(putBack.worker('b'), 'k', 'd2', 3);
      expect(putBack.broken()).toEqual(['G2 one live handler']);

      const recovered = await deleted();
      await recovered.services.jobs.commit(running(2, 'a'), undefined);
      recovered.checker.recovered(recovered.scheduler.now());
      recovered.checker.starting(recovered.worker('b'), 'k', 'd2', 3);
      expect(recovered.broken()).toContain('G2 one live handler');
    });

    test('a third one beside those two', async () => {
      const { checker, services, worker, broken } = await deleted();
      await services.jobs.commit(other, undefined);
      checker.starting(worker('b'), 'k', 'd2', 3);
      checker.job('k', other, { ...other, fence: 4, status: 'assigned', owner: owner('c'), assignedAt: 1 });
      checker.starting(worker('c'), 'k', 'd2', 4);
      expect(broken()).toContain('G2 one live handler');
    });

    test.for<[string, (given: Awaited<ReturnType<typeof deleted>>) => unknown]>([
      ['for a session that is lost', ({ services }) => services.workers.change('a', here, { state: 'lost' })],
      ['for a session that was replaced', ({ services }) => services.workers.register({ ...row, session: 'another' })],
      ['for a worker of another generation', ({ services }) => services.workers.change('a', here, { generation: 2 })],
      ['in a closed pool', ({ services }) => services.workers.setPool({ state: 'closed', generation: 1 })],
      [
        'for a dispatch that is over',
        ({ services }) =>
          services.dispatches.change(
            { ...dispatch, status: 'ended', end: { status: 'succeeded', finishedAt: 2 }, expiresAt: 2e12 },
            'absent',
          ),
      ],
    ])('a job restored %s', async ([, happens]) => {
      const given = await deleted();
      await happens(given);
      await given.services.jobs.commit(running(2, 'a'), undefined);
      expect(given.broken()).toEqual(['G5 restored, never overwritten']);
    });

    test('a job restored in the place of another worker’s', async () => {
      const { checker, services, broken } = await deleted();
      await services.jobs.commit(other, undefined);
      checker.job('k', other, { ...running(2, 'a'), above: 3 });
      expect(broken()).toEqual(['G5 restored, never overwritten']);
    });

    test('a job restored under its own fence, while a higher one of its key is forgotten (G1)', async () => {
      const { checker, services, broken } = await deleted();
      await services.jobs.commit(other, undefined);
      checker.job('k', other, running(2, 'a'));
      expect(broken()).toContain('G1 one owner');
    });
  });

  describe('where a Workers table was put back under a session that it does not know (G2, G3)', () => {
    const row = { workerId: 'a', session: 'session-a', capacity: 1, leaseMs: 30_000, registeredAt: 1 };
    const neverStarted: Dispatch = {
      ...{ dispatchId: 'd1', key: 'k', fingerprint: 'f', fence: 2, requestedAt: 1, expiresAt: 2e12 },
      status: 'never-started',
      outcome: { outcome: 'cancelled', by: 'stop' },
    };

    /** Assigned to `a` under fence 2, its start still on the way. */
    async function assignedThere(then: (given: ReturnType<typeof setup>) => void) {
      const given = setup();
      const a = given.worker('a');
      given.renew(a, row);
      await given.services.jobs.commit(assigned(2, 'a'), undefined);
      then(given);
      return { ...given, a };
    }
    const putBack = ({ checker }: ReturnType<typeof setup>) => checker.rowsPutBack();

    test('nothing wrong with its start of what was recorded as never started meanwhile, nor with who runs the key since', async () => {
      const { checker, services, worker, a, broken } = await assignedThere(putBack);
      await services.jobs.commit(assigned(3, 'b'), 'rev-1');
      checker.up(checker.starting(worker('b'), 'k', 'd1', 3));
      await services.dispatches.change(neverStarted, 'absent');
      const late = checker.starting(a, 'k', 'd1', 2);
      checker.refusedWrite(a, 'k', 2);
      expect(checker.wasTaken(late)).toBe(true);
      expect(broken()).toEqual([]);
    });

    test('a start of what was never taken from it', async () => {
      const { checker, services, a, broken } = await assignedThere(putBack);
      await services.dispatches.change(neverStarted, 'absent');
      expect(checker.wasTaken(checker.starting(a, 'k', 'd1', 2))).toBe(false);
      expect(broken()).toEqual(['G3 exact dispatch']);
    });

    test('a start by another than whom it was taken from, and by itself once it registered anew', async () => {
      const { checker, services, worker, renew, a, broken } = await assignedThere(putBack);
      await services.jobs.commit(assigned(3, 'b'), 'rev-1');
      await services.dispatches.change(neverStarted, 'absent');
      checker.over(checker.starting(worker('b'), 'k', 'd1', 3));
      expect(broken()).toEqual(['G3 exact dispatch']);
      renew(a, { ...row, session: 'session-anew' });
      checker.starting(a, 'k', 'd1', 2);
      expect(broken()).toEqual(['G3 exact dispatch', 'G3 exact dispatch', 'G1 one owner']);
    });

    test('a start beside it where a recovery put the table back, which assigns nothing meanwhile', async () => {
      const { checker, services, worker, a, broken } = await assignedThere(({ checker }) => checker.heldBack(() => checker.rowsPutBack()));
      checker.up(checker.starting(a, 'k', 'd1', 2));
      await services.jobs.commit(assigned(3, 'b'), 'rev-1');
      checker.starting(worker('b'), 'k', 'd1', 3);
      expect(broken()).toEqual(['G2 one live handler']);
    });

    test('a start beside one that the table does know', async () => {
      const { checker, services, worker, a, broken } = await assignedThere(() => {});
      await services.workers.register(row);
      checker.rowsPutBack();
      checker.up(checker.starting(a, 'k', 'd1', 2));
      await services.jobs.commit(assigned(3, 'b'), 'rev-1');
      checker.starting(worker('b'), 'k', 'd1', 3);
      expect(broken()).toEqual(['G2 one live handler']);
    });
  });

  test('an ended job taken up again, ended otherwise, or started for a dispatch that is over (G7)', async () => {
    const { checker, services, worker, broken } = setup();
    checker.job('k', ended, { ...assigned(2, 'a') });
    checker.job('k', ended, { ...ended, settled: { outcome: { outcome: 'cancelled', by: 'stop' } } });
    await services.dispatches.change(
      { ...dispatch, status: 'ended', end: { status: 'succeeded', finishedAt: 2 }, expiresAt: 2_000_000_000_000 },
      'absent',
    );
    await services.jobs.commit(assigned(2, 'a'), undefined);
    checker.starting(worker('a'), 'k', 'd1', 2);
    expect(broken()).toEqual(['G7 ends are final', 'G7 ends are final', 'G7 ends are final']);
  });

  test('a job that was being stopped and is taken up again', () => {
    const { checker, broken } = setup();
    const stopping: Job = {
      ...assigned(2, 'a'),
      status: 'stopping',
      owner: owner('a'),
      assignedAt: 1,
      stopReason: 'stop-requested',
      stopRequestedAt: 1,
    };
    checker.job('k', stopping, assigned(3, 'b'));
    expect(broken()).toEqual(['G6 no job lost']);
  });

  test('a handler that is not told at two thirds of the lease, and one that lives at its end', async () => {
    const { checker, services, scheduler, worker, leaseMs, broken } = setup();
    const a = worker('a');
    await services.jobs.commit(assigned(2, 'a'), undefined);
    const handler = checker.starting(a, 'k', 'd1', 2);
    await scheduler.advance((leaseMs * 2) / 3 + 10);
    expect(broken()).toEqual(['lease']);
    handler.isLost = true;
    await scheduler.advance(leaseMs / 3);
    expect(broken()).toEqual(['lease', 'lease']);
  });

  test('a worker declared lost before its lease is over', async () => {
    const { checker, scheduler, worker, renew, leaseMs, broken } = setup();
    worker('a');
    const row = { workerId: 'a', session: 's', state: 'active', beat: 0, leaseMs, capacity: 1, running: 0, registeredAt: 1 } as const;
    await scheduler.advance(leaseMs);
    checker.worker('a', row, { ...row, state: 'lost' });
    expect(broken()).toEqual([]);
    const b = worker('b');
    checker.worker('b', row, { ...row, state: 'lost' });
    expect(broken()).toEqual(['lease']);
    // What a table that was put back does not know, and what it was told since.
    checker.rowsPutBack();
    checker.worker('b', row, { ...row, state: 'lost' });
    expect(broken()).toEqual(['lease']);
    await scheduler.advance(1);
    renew(b);
    checker.worker('b', row, { ...row, state: 'lost' });
    expect(broken()).toEqual(['lease', 'lease']);
  });

  test('nothing wrong with a worker that renews in time', async () => {
    const { checker, services, scheduler, worker, renew, leaseMs, broken } = setup();
    const a = worker('a');
    await services.jobs.commit(assigned(2, 'a'), undefined);
    checker.starting(a, 'k', 'd1', 2);
    for (let i = 0; i < 6; i++) {
      await scheduler.advance(leaseMs / 3);
      renew(a);
    }
    expect(broken()).toEqual([]);
  });
});
