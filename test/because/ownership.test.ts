import { expect, vi } from 'vitest';
import * as ownerLost from '../../lib/pool/decide-owner-lost.ts';
import * as reports from '../../lib/pool/decide-report.ts';
import * as requests from '../../lib/pool/decide-request.ts';
import { type Decision, owed } from '../../lib/pool/decision.ts';
import * as dispatches from '../../lib/pool/dispatch.ts';
import * as effects from '../../lib/pool/effects.ts';
import * as transitions from '../../lib/pool/transitions.ts';
import * as workers from '../../lib/pool/worker.ts';
import { MemoryDispatches } from '../../lib/testing/memory-dispatches.ts';
import { MemoryQueue } from '../../lib/testing/memory-queue.ts';
import * as wire from '../../lib/wire/index.ts';
import { because } from './because.ts';
import { PAYLOAD, setup, start } from './stage.ts';

/** Who owns a job, and what is recorded of it: the rules of requests, reports, effects and settlement. */

/** Decisions are carried out otherwise than they are. */
function carriedOut(otherwise: (decision: Decision) => Decision): void {
  const { carryOut } = effects;
  vi.spyOn(effects, 'carryOut').mockImplementation((carrier, decision, rev) => carryOut(carrier, otherwise(decision), rev));
}

for (const state of ['draining', 'revoked'] as const) {
  because(`an owner whose row is ${state} is not lost: the worker hands its jobs back, or a lease of waiting decides`, {
    async plays() {
      const { plane, request, workers, startsAt, join, w1 } = await setup();
      await request(start('d1'));
      // Its handler is up, and nobody has heard of it when the start comes again.
      w1.up('k', plane.now());
      await join();
      await workers.change('w1', { session: 's1', states: ['active'] }, { state });
      await request(start('d1'), { op: 'assign', key: 'k' });
      expect(startsAt('s2'), 'G2: two live handlers').toEqual([]);
    },
    without() {
      vi.spyOn(workers, 'isOwnerLost').mockImplementation((row, owner) => row?.session !== owner.session || row.state !== 'active');
    },
    breaks: 'G2: two live handlers',
  });
}

because('the owner’s row is read before a command is sent: the list of workers that it was placed by may be old', {
  async plays() {
    const { plane, request, join, sweeps, startsAt, workers, w1 } = await setup();
    await w1.beat({ running: 10 });
    await join();
    await plane.unlisted(() => workers.change('w2', { session: 's2', states: ['active'] }, { state: 'lost' }));
    await plane.services.inboxes.remove('s2');
    await request(start('d1'));
    const w3 = await join('w3', 's3');
    await sweeps(2, w3);
    expect(startsAt('s3'), 'G6: nobody is sent the start').not.toEqual([]);
  },
  without() {
    const { carryOut } = effects;
    vi.spyOn(effects, 'carryOut').mockImplementation((carrier, ...rest) => carryOut({ ...carrier, checksOwner: false }, ...rest));
  },
  breaks: 'G6: nobody is sent the start',
});

because('a report never assigns: it makes the job wait, and asks for the same when it comes again', {
  async plays() {
    const { runs, says, join, sweeps, startsAt, strike, w1 } = await setup();
    await runs();
    const w2 = await join();
    w1.over('k', 'released');
    strike({ by: 'report', method: 'commit', fault: 'died-after' });
    await says(w1.ended('k'));
    await sweeps(2, w1, w2);
    expect([...startsAt('s2'), ...startsAt('s1').slice(1)], 'G6: nobody is sent the start').not.toEqual([]);
  },
  without() {
    const { decideReport } = reports;
    vi.spyOn(reports, 'decideReport').mockImplementation((snapshot, report, context) => {
      const decision = decideReport(snapshot, report, context);
      if (decision.next?.status !== 'pending') return decision;
      const next = transitions.assigned(decision.next, { worker: 'w2', session: 's2' }, 1, context.now);
      return { ...decision, next, effects: owed(next, context.now) };
    });
  },
  breaks: 'G6: nobody is sent the start',
});

because('effects come after the commit: what loses its race has sent nothing', {
  async plays() {
    const { request, strike } = await setup();
    strike({ by: 'request', method: 'commit', fault: 'conflict' });
    // Each start that is sent is held against the assignments that were committed.
    await request(start('d1'));
  },
  without() {
    carriedOut(({ before = [], effects = [], ...decision }) => ({ ...decision, before: [...before, ...effects] }));
  },
  breaks: 'G1 one owner',
});

because('an end is committed on the job record first, and settled then', {
  async plays() {
    const { plane, request, says, lose, join, strike, w1, dispatches, job, startsAt } = await setup();
    await request(start('d1'));
    const w2 = await join();
    await lose();
    w1.over('k', 'start-failed', { error: { code: 'boom', message: 'it broke', retryable: false } });
    // While its report is under way, the owner is found lost, and another one has the job up.
    strike({ by: 'report', method: 'commit', delayMs: 5_000 });
    plane.report(w1.ended('k'));
    await plane.advance(1_000);
    await request({ op: 'assign', key: 'k' });
    expect(startsAt('s2'), 'G6: what is said never to have started cannot be sent').not.toEqual([]);
    w2.up('k');
    await says(w2.started('k'));
    expect([job()?.status, dispatches.peek('d1')?.status]).toEqual(['running', 'started']);
  },
  without() {
    carriedOut(({ before = [], effects = [], ...decision }) => {
      const settlements = decision.next?.status === 'ended' ? effects.filter(({ type }) => type === 'settle') : [];
      return { ...decision, before: [...before, ...settlements], effects: effects.filter((effect) => !settlements.includes(effect)) };
    });
  },
  breaks: 'G6: what is said never to have started cannot be sent',
});

because('a waiting dispatch that a commit drops is settled before it: nothing names it after', {
  async plays() {
    const { request, runs, strike, sweeps, dispatches, w1 } = await setup();
    await runs();
    await request(start('d2', { ifBusy: 'next' }));
    strike({ by: 'request', method: 'commit', fault: 'died-after' });
    await request({ op: 'stop', key: 'k' });
    await sweeps(1, w1);
    expect(dispatches.peek('d2')?.status, 'G3: a dispatch never gets its outcome').toBe('never-started');
  },
  without() {
    carriedOut((decision) =>
      decision.rule.startsWith('stop') && decision.next
        ? { rule: decision.rule, next: decision.next, effects: [...(decision.before ?? []), ...(decision.effects ?? [])] }
        : decision,
    );
  },
  breaks: 'G3: a dispatch never gets its outcome',
});

because('a dispatch record knows the fence of each start before it is sent', {
  async plays() {
    const { runs, says, w1 } = await setup();
    await runs();
    w1.over('k', 'released');
    // Each start that is sent is held against the record.
    await says(w1.ended('k'));
  },
  without() {
    vi.spyOn(MemoryDispatches.prototype, 'raiseFence').mockResolvedValue();
  },
  breaks: 'G8 any order',
});

because('where no job record names the dispatch, an end of a lower fence changes nothing: a start of a higher one is out', {
  async plays() {
    const { runs, says, w1, job, jobs, dispatches } = await setup();
    await runs();
    w1.over('k', 'released');
    const released = w1.ended('k');
    await says(released);
    expect(job()).toMatchObject({ status: 'assigned' });
    // The record is lost, and the report comes a second time.
    jobs.delete('k');
    await says(released);
    expect(dispatches.peek('d1')?.status, 'G7: what is about to run has ended').toBe('started');
  },
  without() {
    const { settle } = dispatches;
    vi.spyOn(dispatches, 'settle').mockImplementation((record, { unnamed: _, ...by }, expiresAt) => settle(record, by, expiresAt));
    const canChange = MemoryDispatches.prototype.canChange;
    vi.spyOn(MemoryDispatches.prototype, 'canChange').mockImplementation(function (this: MemoryDispatches, next, expected) {
      return canChange.call(this, next, expected);
    });
  },
  breaks: 'G7: what is about to run has ended',
});

because('a move or a notification makes the job of a lost owner wait: come again, it would not send the start again', {
  async plays() {
    const { runs, request, join, lose, strike, sweeps, startsAt } = await setup();
    await runs();
    const w2 = await join();
    await lose();
    strike({ by: 'request', method: 'commit', fault: 'died-after' });
    await request({ op: 'notify', key: 'k', id: 'n1', payload: PAYLOAD });
    await sweeps(2, w2);
    expect(startsAt('s2'), 'G6: nobody is sent the start').not.toEqual([]);
  },
  without() {
    const { decideOwnerLost } = ownerLost;
    vi.spyOn(ownerLost, 'decideOwnerLost').mockImplementation((job, _, context) => decideOwnerLost(job, 'assign', context));
  },
  breaks: 'G6: nobody is sent the start',
});

because('the outcome says since when the dispatch first ran: a later owner does not make it another one', {
  async plays() {
    const { plane, runs, says, join, w1, job, dispatches } = await setup();
    await runs();
    const since = plane.now();
    await join();
    w1.over('k', 'released');
    await says(w1.ended('k'));
    await plane.advance(10_000);
    const owner = job();
    const next = owner?.status === 'assigned' && owner.owner.worker === 'w1' ? w1 : await join();
    next.up('k');
    await says(next.started('k'));
    const record = dispatches.peek('d1');
    const told = [job()?.startedAt, record?.status === 'started' ? record.outcome.at : undefined];
    expect(told, 'G3: two outcomes').toEqual([since, since]);
  },
  without() {
    const { running } = transitions;
    vi.spyOn(transitions, 'running').mockImplementation((job, startedAt) => ({ ...running(job, startedAt), startedAt }));
  },
  breaks: 'G3: two outcomes',
});

because('a stop that finds no job of a dispatch which runs is not swallowed: it fails, and comes again', {
  async plays() {
    const { plane, runs, request, says, jobs, w1, job } = await setup();
    await runs();
    jobs.delete('k');
    plane.request({ op: 'stop', key: 'k', dispatchId: 'd1' });
    await plane.advance(500);
    // What runs is asked to confirm, and its record is there again.
    plane.report(w1.started('k'));
    await plane.advance(100);
    await says({ ...w1.started('k'), type: 'confirmed', payload: PAYLOAD } as wire.Report);
    await request();
    expect(job()?.status, 'the stop is swallowed').toBe('stopping');
  },
  without() {
    const { decideRequest } = requests;
    vi.spyOn(requests, 'decideRequest').mockImplementation((...of) => {
      const decision = decideRequest(...of);
      return decision.rule === 'stop of a missing record' ? { rule: decision.rule } : decision;
    });
  },
  breaks: 'the stop is swallowed',
});

because('each send has a deduplication id of its own: the queue would swallow a stop that names a dispatch', {
  async plays() {
    const { runs, request, job } = await setup();
    await runs();
    await request({ op: 'stop', key: 'k', dispatchId: 'd1' });
    expect(job()?.status, 'the stop is swallowed').toBe('stopping');
  },
  without() {
    const send = MemoryQueue.prototype.send;
    vi.spyOn(MemoryQueue.prototype, 'send').mockImplementation(function (this: MemoryQueue, message) {
      const { dispatchId } = JSON.parse(message.body);
      send.call(
        this,
        message.deduplicationId === undefined ? message : { ...message, deduplicationId: dispatchId ?? message.deduplicationId },
      );
    });
  },
  breaks: 'the stop is swallowed',
});

because('each send of an assign has a deduplication id of its own: the second time that a job waits would be swallowed', {
  async plays() {
    const { runs, says, join, w1, startsAt } = await setup();
    await runs();
    for (let times = 1; times <= 2; times++) {
      w1.over('k', 'released');
      await says(w1.ended('k'));
      expect(startsAt('s1'), 'G6: nobody is sent the start').toHaveLength(1 + times);
      w1.up('k');
      await says(w1.started('k'));
    }
    await join();
  },
  without() {
    const send = MemoryQueue.prototype.send;
    vi.spyOn(MemoryQueue.prototype, 'send').mockImplementation(function (this: MemoryQueue, message) {
      const { op, key } = JSON.parse(message.body);
      send.call(this, op === 'assign' ? { ...message, deduplicationId: key } : message);
    });
  },
  breaks: 'G6: nobody is sent the start',
});

because('a dispatch is named by its producer, never by its message: that has another name after a redrive', {
  async plays() {
    const { plane, runs, says, w1, startsAt } = await setup();
    await runs();
    w1.over('k', 'finished');
    await says(w1.ended('k'));
    plane.services.deadRequests.send({ body: wire.encodeRequest(start('d1')), group: 'k' });
    plane.redrive();
    await plane.rest();
    expect(startsAt('s1'), 'G3: it runs again').toHaveLength(1);
  },
  without() {
    let messages = 0;
    const { parseRequest } = wire;
    vi.spyOn(wire, 'parseRequest').mockImplementation((body) => {
      const parsed = parseRequest(body);
      return parsed.ok && parsed.value.op === 'start'
        ? { ok: true, value: { ...parsed.value, dispatchId: `message ${++messages}` } }
        : parsed;
    });
  },
  breaks: 'G3: it runs again',
});

because('a message that failed is visible again at once, and not after the queue’s whole timeout, which would block its key', {
  async plays() {
    const { plane, request, strike, startsAt } = await setup();
    const from = plane.now();
    strike({ by: 'request', method: 'get', fault: 'throttled' });
    await request(start('d1'));
    expect(startsAt('s1')).toHaveLength(1);
    expect(plane.now() - from, 'its key is blocked').toBeLessThan(5_000);
  },
  without() {
    vi.spyOn(MemoryQueue.prototype, 'changeVisibility').mockReturnValue(true);
  },
  breaks: 'its key is blocked',
});
