import { expect, vi } from 'vitest';
import * as effects from '../../lib/pool/effects.ts';
import { PRESENT } from '../../lib/pool/worker.ts';
import * as pages from '../../lib/resync/apply-page.ts';
import * as entries from '../../lib/resync/decide-entry.ts';
import * as expiries from '../../lib/resync/decide-expiry.ts';
import type { AskedPage } from '../../lib/resync/round.ts';
import * as round from '../../lib/resync/round.ts';
import * as steps from '../../lib/resync/run-round.ts';
import { MemoryRounds } from '../../lib/testing/memory-rounds.ts';
import { MemoryWorkers } from '../../lib/testing/memory-workers.ts';
import type { ResyncReport } from '../../lib/wire/index.ts';
import { LEASE_MS } from '../support/control-plane.ts';
import { because } from './because.ts';
import { setup } from './stage.ts';

/** Lost workers and rounds: a worker's handlers live until its lease ends, counted from the heartbeat that it sent last. */

const LIVE = 'G2: lost within its lease';
const TWICE = 'G2: two live handlers';

/** What the end of a round's time means is judged otherwise than it is. */
function judged(otherwise: (...of: Parameters<typeof expiries.decideExpiry>) => Parameters<typeof expiries.decideExpiry>): void {
  const { decideExpiry } = expiries;
  vi.spyOn(expiries, 'decideExpiry').mockImplementation((...of) => decideExpiry(...otherwise(...of)));
}

because('the beat is looked at before the timer starts, and not when the worker is asked: that may be seconds later', {
  async plays() {
    const { plane, runs, begin, strike, w1, row } = await setup();
    await runs();
    strike({ by: 'resync-arm', method: 'get', delayMs: 8_000 });
    const beating = plane.scheduler.after(7_000, () => void w1.beat());
    const from = plane.now();
    await begin();
    await plane.advance(from + 7_000 + LEASE_MS - 1 - plane.now());
    expect(row()?.beat).toBe(1);
    expect(row()?.state, LIVE).toBe('active');
    beating();
  },
  without() {
    const { armRound } = steps;
    vi.spyOn(steps, 'armRound').mockImplementation(async (ports, settings, token, taskToken) => {
      const opened = await ports.rounds.get(token);
      const row = opened && (await ports.workers.get(opened.worker));
      if (row) await ports.rounds.open({ ...opened, beat: row.beat });
      return armRound(ports, settings, token, taskToken);
    });
  },
  breaks: LIVE,
});

because('a worker is lost only where its beat is still what it was when the look at it was decided on', {
  async plays() {
    const { plane, runs, begin, strike, w1, row } = await setup();
    await runs();
    await begin();
    // A heartbeat comes between the look at the row and the write.
    strike({ by: 'resync-expire', method: 'change', meanwhile: () => void w1.beat() });
    await plane.advance(LEASE_MS + 1_000);
    expect(row()?.beat).toBe(1);
    expect(row()?.state, LIVE).toBe('active');
  },
  without() {
    const { change } = MemoryWorkers.prototype;
    vi.spyOn(MemoryWorkers.prototype, 'change').mockImplementation(function (this: MemoryWorkers, id, { beat: _, ...where }, set) {
      return change.call(this, id, where, set);
    });
  },
  breaks: LIVE,
});

because('a worker counts its heartbeats itself: put back to an earlier moment, its row would count up to what was looked at before', {
  async plays() {
    const { plane, runs, begin, workers, w1, row } = await setup();
    await runs();
    const putBack = workers.backup();
    await w1.beat();
    await begin();
    await w1.beat();
    await plane.advance(LEASE_MS - 5_000);
    putBack();
    await w1.beat();
    await plane.advance(6_000);
    expect(row()?.state, LIVE).toBe('active');
  },
  without() {
    const { heartbeat } = MemoryWorkers.prototype;
    vi.spyOn(MemoryWorkers.prototype, 'heartbeat').mockImplementation(async function (this: MemoryWorkers, said) {
      return heartbeat.call(this, { ...said, beat: (this.peek(said.workerId)?.beat ?? 0) + 1 });
    });
  },
  breaks: LIVE,
});

because('a heartbeat that is tried again after a later one lowers no beat: the row would show again what was looked at before', {
  async plays() {
    const { plane, runs, begin, workers, w1, row } = await setup();
    await runs();
    await w1.beat();
    await begin();
    await plane.advance(LEASE_MS - 5_000);
    await w1.beat();
    await workers.heartbeat({ workerId: 'w1', session: 's1', beat: 1, running: 0 });
    await plane.advance(6_000);
    expect(row()?.state, LIVE).toBe('active');
  },
  without() {
    const { heartbeat } = MemoryWorkers.prototype;
    vi.spyOn(MemoryWorkers.prototype, 'heartbeat').mockImplementation(async function (this: MemoryWorkers, said) {
      const below: object = { beat: said.beat - 1 };
      await this.change(said.workerId, { session: said.session, states: PRESENT }, below);
      return heartbeat.call(this, said);
    });
  },
  breaks: LIVE,
});

because('a session with a longer lease than a round is lost after as many unchanged rounds as cover it', {
  async plays() {
    const { plane, runs, begin, w1, row } = await setup({ leaseMs: 75_000 });
    await runs();
    await w1.beat();
    await begin();
    await plane.advance(74_000);
    expect(row()?.state, LIVE).toBe('active');
  },
  without: () => judged((of, row, silence, context) => [of, row && { ...row, leaseMs: LEASE_MS }, silence, context]),
  breaks: LIVE,
});

because('an evicted worker is waited for by the longer of its own lease and the pool’s', {
  async plays() {
    const { plane, ports, runs, w1, row } = await setup({ leaseMs: 75_000 });
    await runs();
    await w1.beat();
    await steps.evict(ports, w1);
    await plane.advance(74_000);
    expect(row()?.state, LIVE).toBe('revoked');
    await plane.advance(2_000);
    expect(row()?.state).toBe('lost');
  },
  without() {
    const { get } = MemoryWorkers.prototype;
    vi.spyOn(MemoryWorkers.prototype, 'get').mockImplementation(async function (this: MemoryWorkers, id) {
      const row = await get.call(this, id);
      return row && { ...row, leaseMs: LEASE_MS };
    });
  },
  breaks: LIVE,
});

because('an evicted worker is not lost before its lease was waited for: nobody has told its handlers yet', {
  async plays() {
    const { plane, ports, runs, w1, row } = await setup();
    await runs();
    await w1.beat();
    await steps.evict(ports, w1);
    await plane.advance(LEASE_MS - 1);
    expect(row()?.state, LIVE).toBe('revoked');
  },
  without() {
    const { openRound } = steps;
    vi.spyOn(steps, 'openRound').mockImplementation(async (...of) => {
      const step = await openRound(...of);
      return step.next === 'wait' ? { ...step, waitSeconds: 0 } : step;
    });
  },
  breaks: LIVE,
});

because('what was not yet up when the worker was asked is never lost: its start may still be in the inbox', {
  async plays() {
    const { request, begin, says, join, w1, startsAt } = await setup();
    await request({ op: 'start', key: 'k', payload: new Uint8Array(), dispatchId: 'd1', ifBusy: 'reject' });
    await join();
    await w1.beat({ running: 10 });
    await begin();
    const answer = w1.answer();
    w1.up('k');
    await says(w1.started('k'));
    await says(...answer);
    expect(startsAt('s2'), TWICE).toEqual([]);
  },
  without() {
    const { decideEntry } = entries;
    vi.spyOn(entries, 'decideEntry').mockImplementation((snapshot, entry, answering, context) =>
      decideEntry(snapshot, entry, { ...answering, ...(answering.asked ? { asked: { ...answering.asked, running: true } } : {}) }, context),
    );
  },
  breaks: TWICE,
});

because('a round asks once and for all: an answer is judged by what was known when it was asked for', {
  async plays() {
    const { plane, request, join, says, strike, w1, startsAt } = await setup();
    await request({ op: 'start', key: 'k', payload: new Uint8Array(), dispatchId: 'd1', ifBusy: 'reject' });
    await join();
    await w1.beat({ running: 10 });
    // The function that asks dies when it has asked, and is run again two seconds later.
    strike({ by: 'resync-arm', method: 'send', fault: 'died-after' });
    await plane.services.machine.start('by the test', w1);
    await plane.advance(100);
    const answer = w1.answer();
    w1.up('k');
    await says(w1.started('k'));
    await plane.advance(3_000);
    await says(...answer);
    expect(startsAt('s2'), TWICE).toEqual([]);
  },
  without() {
    const asked = new Map<string, AskedPage>();
    vi.spyOn(MemoryRounds.prototype, 'ask').mockImplementation(async (all) => {
      for (const page of all) asked.set(`${page.token} ${page.page}`, page);
    });
    vi.spyOn(MemoryRounds.prototype, 'page').mockImplementation(async (token, page) => asked.get(`${token} ${page}`));
    const { armRound } = steps;
    vi.spyOn(steps, 'armRound').mockImplementation((ports, ...rest) => {
      const get = async (token: string) => {
        const found = await ports.rounds.get(token);
        return found && { ...found, asked: 0 };
      };
      return armRound({ ...ports, rounds: Object.create(ports.rounds, { get: { value: get } }) }, ...rest);
    });
  },
  breaks: TWICE,
});

because('absence from some pages of an answer is no loss: the others may be on their way', {
  async plays() {
    const { plane, runs, begin, says, join, w1, startsAt, job } = await setup();
    for (let index = 0; index < 101; index++) await runs(`d-${index}`, `k-${index}`.padEnd(1_000, 'x'));
    await join();
    await begin();
    const [first] = w1.answer() as readonly [ResyncReport, ...ResyncReport[]];
    await says(first);
    const onFirst = new Set(first.entries.map(({ key }) => key));
    const others = plane.services.jobs.all().filter(({ key }) => !onFirst.has(key));
    expect(others.length).toBeGreaterThan(0);
    for (const { key } of others) expect([job(key)?.status, startsAt('s2', key)], TWICE).toEqual(['running', []]);
  },
  without() {
    const { applyPage } = pages;
    vi.spyOn(pages, 'applyPage').mockImplementation(async (ports, settings, report, receiveCount) => {
      const { rounds } = ports;
      const asked = (await rounds.get(report.round))?.asked ?? 0;
      const all = await Promise.all(Array.from({ length: asked }, (_, index) => rounds.page(report.round, index + 1)));
      const jobs = all.flatMap((page) => page?.jobs ?? []);
      const whole = Object.create(rounds, { page: { value: async () => ({ token: report.round, page: report.page, jobs }) } });
      const said = new Set(report.entries.map(({ key }) => key));
      const absent = jobs.filter(({ key }) => !said.has(key)).map(({ key, fence }) => ({ state: 'unrecognized', key, fence }) as const);
      return applyPage({ ...ports, rounds: whole }, settings, { ...report, entries: [...report.entries, ...absent] }, receiveCount);
    });
  },
  breaks: TWICE,
});

because('an end on a page is settled in the transaction that commits it: come again, the page may find its round superseded', {
  async plays() {
    const { plane, runs, begin, says, strike, rounds, sweeps, w1, job, dispatches } = await setup();
    await runs();
    await begin();
    w1.over('k', 'finished', { at: 77 });
    const [page] = w1.answer() as readonly [ResyncReport];
    const supersede = () => void rounds.close(page.round, 'closed');
    for (const method of ['commit', 'commitSettled']) strike({ by: 'report', method, fault: 'died-after', meanwhile: supersede });
    await says(page);
    await sweeps(2, w1);
    expect(job()?.status).toBe('ended');
    expect(dispatches.peek('d1')?.status, 'G3: an end is never recorded').toBe('ended');
    expect(plane.counts.get('page-discarded')).toBe(1);
  },
  without() {
    const { carryOut } = effects;
    vi.spyOn(effects, 'carryOut').mockImplementation((carrier, ...rest) => carryOut({ ...carrier, settlesInCommit: false }, ...rest));
  },
  breaks: 'G3: an end is never recorded',
});

because('a timer counts for the round that it was set for, and not for the worker’s current one', {
  async plays() {
    const { plane, ports, runs, says, w1, row } = await setup();
    await runs();
    const commands = {
      send: async (command: Parameters<typeof ports.commands.send>[0]) => {
        plane.sent.push(command);
        return 'sent' as const;
      },
    };
    const tokens: string[] = [];
    for (const rounds of [2, 1]) {
      const step = await steps.openRound(ports, plane.resync, w1, { rounds });
      if (step.next !== 'arm') throw new Error(step.next);
      await steps.armRound({ ...ports, commands }, plane.resync, step.token);
      tokens.push(step.token);
    }
    // The second one was asked in the place of the first, and is answered.
    await says(...w1.answer());
    await w1.beat();
    await steps.expireRound(ports, plane.resync, tokens[0] as string, { rounds: 2 });
    expect(row()?.state, 'a worker that answers is evicted').toBe('active');
  },
  without: () => judged((of, row, ...rest) => [{ ...of, token: row?.round ?? of.token, state: 'armed' }, row, ...rest]),
  breaks: 'a worker that answers is evicted',
});

because('a worker that has said that it answered is not evicted for it: its pages are in the queue', {
  async plays() {
    const { plane, runs, begin, w1, row } = await setup();
    await runs();
    w1.lives({ lateMs: 100_000 });
    await begin();
    await plane.advance(10 * LEASE_MS);
    expect(row()?.state, 'a worker that answers is evicted').toBe('active');
  },
  without() {
    judged((of, row, ...rest) => {
      if (!row) return [of, row, ...rest];
      const { answered: _, ...unanswered } = row;
      return [of, unanswered, ...rest];
    });
  },
  breaks: 'a worker that answers is evicted',
});

because('no round is begun over one that is in course: the count of what is unchanged would begin anew each time', {
  async plays() {
    const { runs, join, sweeps, startsAt } = await setup({ leaseMs: 90_000 });
    await runs();
    const w2 = await join();
    await sweeps(8, w2);
    expect(startsAt('s2'), 'G6: a silent worker is never given up on').not.toEqual([]);
  },
  without: () => void vi.spyOn(round, 'isInCourse').mockReturnValue(false),
  breaks: 'G6: a silent worker is never given up on',
});

because('the name of an execution has the minute: the one before may have died, and its name is taken for long', {
  async plays() {
    let died = 0;
    const { runs, join, sweeps, startsAt } = await setup({ dies: () => died++ === 0 });
    await runs();
    const w2 = await join();
    await sweeps(5, w2);
    expect(startsAt('s2'), 'G6: a silent worker is never given up on').not.toEqual([]);
  },
  without: () => void vi.spyOn(steps, 'executionName').mockImplementation(({ session, beat }) => `${session}-${beat}`),
  breaks: 'G6: a silent worker is never given up on',
});

because('a step means the same when it is run again: nobody may have heard of it, and the machine would end there', {
  async plays() {
    const { plane, runs, begin, join, strike, w1, startsAt } = await setup();
    await runs();
    await join();
    w1.lives({ answers: false });
    await begin();
    strike({ by: 'resync-expire', method: 'close', fault: 'died-after' });
    await plane.advance(6 * LEASE_MS);
    expect(startsAt('s2'), 'G6: a worker that never answers is never given up on').not.toEqual([]);
  },
  without() {
    const { decideExpiry } = expiries;
    vi.spyOn(expiries, 'decideExpiry').mockImplementation((of, ...rest) =>
      of.state === 'closed' ? { outcome: 'stale' } : decideExpiry(of, ...rest),
    );
  },
  breaks: 'G6: a worker that never answers is never given up on',
});
