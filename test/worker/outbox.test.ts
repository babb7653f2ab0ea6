import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drained, Scheduler } from '../../lib/testing/scheduler.ts';
import type { Report } from '../../lib/wire/index.ts';
import type { EventDetail } from '../../lib/worker/events.ts';
import { Outbox } from '../../lib/worker/outbox.ts';

function report(n: number): Report {
  return { type: 'registered', worker: `w${n}`, session: 's', at: n };
}

function setup(send: (reports: readonly Report[]) => void | Promise<void>) {
  const timer = new Scheduler();
  const events: EventDetail[] = [];
  const outbox = new Outbox({ timer, reports: { send: async (reports) => send(reports) } }, (event) => events.push(event));
  return { timer, outbox, events };
}

test('loses nothing, whichever calls fail, and says of each report that it was accepted, once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 60 }), fc.array(fc.boolean(), { maxLength: 80 }), async (count, fails) => {
      const got = new Set<string>();
      const accepted: number[] = [];
      let call = 0;
      const { outbox, timer } = setup((reports) => {
        if (fails[call++]) throw new Error('throttled');
        for (const { worker } of reports) got.add(worker);
      });
      for (let n = 0; n < count; n += 1) outbox.add(report(n), () => accepted.push(n));
      const empty = outbox.empty();
      await timer.advance(60 * 60_000);
      await empty;
      expect(got.size).toBe(count);
      expect(accepted.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, n) => n));
      expect(outbox.size).toBe(0);
    }),
  );
});

test('a report that can never be sent takes no others along', async () => {
  const got: string[] = [];
  const { outbox, timer, events } = setup((reports) => {
    if (reports.some(({ worker }) => worker === 'w3')) throw new Error('no');
    got.push(...reports.map(({ worker }) => worker));
  });
  for (let n = 0; n < 10; n += 1) outbox.add(report(n));
  await timer.advance(60_000);
  expect(got.toSorted()).toEqual(['w0', 'w1', 'w2', 'w4', 'w5', 'w6', 'w7', 'w8', 'w9']);
  expect(outbox.size).toBe(1);
  expect(events).toContainEqual(expect.objectContaining({ type: 'report-retried', reports: 1 }));
});

test('what arises together travels together, ten at a time', async () => {
  const batches: number[] = [];
  const { outbox } = setup((reports) => {
    batches.push(reports.length);
  });
  for (let n = 0; n < 25; n += 1) outbox.add(report(n));
  await drained();
  expect(batches).toEqual([10, 10, 5]);
});

test('tries again after half a second, then rarer, up to every twenty seconds, for ever', async () => {
  const at: number[] = [];
  const { outbox, timer } = setup(() => {
    at.push(timer.now());
    throw new Error('down');
  });
  const from = timer.now();
  outbox.add(report(1));
  await timer.advance(10 * 60_000);
  expect(at.slice(0, 8).map((time) => time - from)).toEqual([0, 500, 1_500, 3_500, 7_500, 15_500, 31_500, 51_500]);
  expect(at.length).toBeGreaterThan(30);
});

test('a call that hangs holds back what comes after it, and loses none of it', async () => {
  const hung = Promise.withResolvers<void>();
  let call = 0;
  const got: string[] = [];
  const { outbox } = setup(async (reports) => {
    if (call++ === 0) await hung.promise;
    got.push(...reports.map(({ worker }) => worker));
  });
  outbox.add(report(1));
  await drained();
  outbox.add(report(2));
  await drained();
  expect(got).toEqual([]);
  hung.resolve();
  await drained();
  expect(got).toEqual(['w1', 'w2']);
});

test('once closed it tries nothing again, so that a worker that has gone keeps no process alive', async () => {
  let calls = 0;
  const { outbox, timer } = setup(() => {
    calls += 1;
    throw new Error('unreachable');
  });
  outbox.add(report(1));
  await drained();
  outbox.close();
  outbox.add(report(2));
  await timer.advance(60_000);
  expect(calls).toBe(2);
});
