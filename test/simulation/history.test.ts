import { describe, expect, test } from 'vitest';
import type { Dispatch, NotStarted } from '../../lib/pool/dispatch.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { Violation } from '../../lib/testing/claims.ts';
import { Checker } from '../../lib/testing/invariants.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { Process } from '../../lib/testing/process.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { History } from './history.ts';

/** One key, and a pool that can be made to answer wrongly. */
function setup() {
  const scheduler = new Scheduler();
  const violations: Violation[] = [];
  const services: MemoryServices = new MemoryServices({
    clock: scheduler,
    timer: scheduler,
    observe: {
      job: (key, before, after) => history.job(key, before, after),
      dispatch: (dispatchId, before, after) => history.dispatch(dispatchId, before, after),
    },
  });
  const checker = new Checker({
    scheduler,
    leaseMs: 30_000,
    services: () => services,
    onViolation: (violation) => violations.push(violation),
  });
  const history = new History({ scheduler, checker, services: () => services });
  const payload = new TextEncoder().encode('p');
  const fingerprint = fingerprintOf('k', payload);
  const asks = (dispatchId: string, ifBusy: 'reject' | 'next' | 'replace' = 'reject', expiresAt?: number) =>
    history.asks({ type: 'start', key: 'k', dispatchId, payload: 'p', ifBusy, ...(expiresAt === undefined ? {} : { expiresAt }) });
  const write = (dispatch: Dispatch) => services.dispatches.write(dispatch, payload);
  const head = (dispatchId: string) => ({ dispatchId, key: 'k', fingerprint, fence: 1, requestedAt: scheduler.now() });
  const refuse = (dispatchId: string, outcome: NotStarted) =>
    write({ ...head(dispatchId), status: 'never-started', outcome, expiresAt: scheduler.now() + 1e9 });
  const hold = async (dispatchId: string, more: Partial<Job> = {}) => {
    const job = { ...head(dispatchId), status: 'running', attempt: 1, admittedAt: 1, assignedAt: 1, startedAt: 1 } as const;
    const owner = { worker: 'w', session: 's' };
    await services.jobs.commit({ ...job, owner, ...more } as Job, services.jobs.versioned('k')?.rev);
  };
  const broken = () => {
    history.check('at rest');
    return [...new Set(violations.map(({ claim }) => claim))];
  };
  return { scheduler, services, checker, history, asks, write, head, refuse, hold, broken };
}

const busy = (dispatchId: string): NotStarted => ({ outcome: 'refused', reason: 'key-busy', holder: { dispatchId, sameRequest: false } });

describe('the history of a key shows', () => {
  test('that somebody was refused for a holder that was not there by then (G3)', async () => {
    const { scheduler, asks, refuse, hold, broken } = setup();
    asks('d1')();
    await hold('d1');
    asks('d2')();
    refuse('d2', busy('d1'));
    expect(broken()).toEqual([]);
    await hold('d2');
    scheduler.skipTo(scheduler.now() + 1);
    asks('d3')();
    refuse('d3', busy('d1'));
    expect(broken()).toEqual(['whoever was refused met what it was refused for']);
  });

  test.each([
    ['next-taken', { outcome: 'refused', reason: 'next-taken' }],
    ['pool-closed', { outcome: 'refused', reason: 'pool-closed' }],
    ['expired', { outcome: 'refused', reason: 'expired' }],
  ] as const)('that somebody was refused as %s, and nothing of that kind was there (G3)', (_, outcome) => {
    const { asks, refuse, broken } = setup();
    asks('d1')();
    refuse('d1', outcome);
    expect(broken()).toEqual(['whoever was refused met what it was refused for']);
  });

  test('no breach where somebody was refused for what was there: two ahead, a closed pool, a time that was over', async () => {
    const { scheduler, history, asks, refuse, hold, broken } = setup();
    asks('d1')();
    asks('d2', 'next')();
    await hold('d1', { next: 'd2' });
    asks('d3', 'next')();
    refuse('d3', { outcome: 'refused', reason: 'next-taken' });
    asks('d4', 'reject', scheduler.now() - 1)();
    refuse('d4', { outcome: 'refused', reason: 'expired' });
    history.poolCloses();
    asks('d5')();
    refuse('d5', { outcome: 'refused', reason: 'pool-closed' });
    expect(broken()).toEqual([]);
  });

  test.each(['stop', 'superseded'] as const)('that somebody was cancelled (%s) without cause (G3)', (by) => {
    const { history, asks, refuse, broken } = setup();
    asks('d1')();
    history.asks({ type: 'stop', key: 'k', dispatchId: 'another' })();
    asks('d2', 'next')();
    refuse('d1', { outcome: 'cancelled', by });
    expect(broken()).toEqual(['whoever was cancelled was stopped or superseded']);
  });

  test('that a job was stopped though nobody stopped it (G7)', () => {
    const { scheduler, asks, write, head, broken } = setup();
    asks('d1')();
    const end = { status: 'stopped', finishedAt: 2, reason: 'replaced' } as const;
    write({ ...head('d1'), status: 'ended', outcome: { outcome: 'started', at: 1 }, end, expiresAt: scheduler.now() + 1e9 });
    expect(broken()).toEqual(['whoever was stopped, somebody stopped']);
  });

  test('that somebody waits behind another without having asked to (G3)', async () => {
    const { asks, hold, broken } = setup();
    asks('d1')();
    asks('d2', 'reject')();
    await hold('d1', { next: 'd2' });
    expect(broken()).toEqual(['whoever waits behind another asked to']);
  });

  test('that a stop was acknowledged and what it named goes on; one that nobody acknowledged may be lost (G7)', () => {
    const { scheduler, checker, history, asks, write, head, broken } = setup();
    asks('d1')();
    write({ ...head('d1'), status: 'started', outcome: { outcome: 'started', at: scheduler.now() } });
    const process = new Process(scheduler, { name: 'w', kind: 'worker' });
    const by = { by: process, service: 'registry', method: 'register', args: [] };
    checker.heard(by, scheduler.now(), { value: undefined });
    checker.up(checker.starting(process, 'k', 'd1', 1));
    scheduler.skipTo(scheduler.now() + 1);
    history.asks({ type: 'stop', key: 'k', dispatchId: 'd1' });
    expect(broken()).toEqual([]);
    history.asks({ type: 'stop', key: 'k' })();
    expect(broken()).toEqual(['what was stopped does not run']);
  });

  test('that a client was told of another request than its own (G3)', () => {
    const { scheduler, history, write, head, broken } = setup();
    const outcome = { outcome: 'started', at: scheduler.now() } as const;
    write({ ...head('d1'), status: 'started', outcome });
    history.hears({ dispatchId: 'd1', what: 'outcome', asked: { key: 'k', payload: 'p' }, answer: outcome });
    expect(broken()).toEqual([]);
    history.hears({ dispatchId: 'd1', what: 'outcome', asked: { key: 'k', payload: 'q' }, answer: outcome });
    expect(broken()).toEqual(['a client is told of what it asked for, and of nothing else']);
  });

  test('that a stop was acknowledged and its dispatch never ended, though it runs nowhere (G7)', () => {
    const { history, asks, write, head, broken } = setup();
    asks('d1')();
    write({ ...head('d1'), status: 'admitted' });
    history.asks({ type: 'stop', key: 'k', dispatchId: 'd1' })();
    expect(broken()).toEqual(['what was stopped is over']);
  });

  test('that a start was admitted which had expired before it was sent (G3)', async () => {
    const { scheduler, asks, hold, broken } = setup();
    asks('d1', 'reject', scheduler.now() + 1)();
    await hold('d1');
    expect(broken()).toEqual([]);
    asks('d2', 'replace', scheduler.now() - 2_000)();
    await hold('d2');
    expect(broken()).toEqual(['what had expired is not admitted']);
  });

  test('that a job has to move which nobody moved, or of another fence (G4)', async () => {
    const { history, hold, broken } = setup();
    history.moves('k', 1);
    await hold('d1', { status: 'releasing', releaseReason: 'moved' });
    await hold('d1');
    expect(broken()).toEqual([]);
    await hold('d1', { status: 'releasing', fence: 2, releaseReason: 'moved' });
    expect(broken()).toEqual(['whoever has to move, somebody moved']);
  });
});
