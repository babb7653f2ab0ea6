import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { defineHandler, type Handler, RetryableError } from '../../lib/worker/handler.ts';
import { LEASE_MS, type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const one = new TextEncoder().encode('one');
const two = new TextEncoder().encode('two');

function start(key: string, dispatchId: string, fence: number, payload = one): SentCommand {
  return { op: 'start', key, dispatchId, fingerprint: fingerprintOf(key, payload), payload, fence, attempt: 1 };
}

function ending(op: 'stop' | 'release', key: string, dispatchId: string, fence: number): SentCommand {
  return { op, key, dispatchId, fingerprint: fingerprintOf(key, one), fence, reason: op === 'stop' ? 'stop-requested' : 'moved' };
}

function notify(key: string, fence: number, id: string): SentCommand {
  return { op: 'notify', key, fence, id, payload: one };
}

test('P1: a start delivered ten times, at once and later, calls the handler once', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(...Array.from({ length: 5 }, () => start('k', 'd1', 5)));
  for (let n = 0; n < 5; n += 1) {
    await stage.advance(60_000);
    await stage.send(start('k', 'd1', 5));
  }
  expect(stage.story.filter((line) => line.startsWith('start'))).toEqual(['start d1 5']);
  expect(stage.of('started')).toHaveLength(10);
  expect(new Set(stage.of('started').map(({ startedAt }) => startedAt)).size).toBe(1);
});

test('P1: a start that comes again while the first one has not returned waits for it, and is answered', async () => {
  const stage = await WorkerStage.registered();
  stage.handler.way.start = 'hangs';
  await stage.send(start('k', 'd1', 5), start('k', 'd1', 5));
  expect(stage.handler.jobs).toHaveLength(1);
  stage.handler.settle('start');
  await stage.settle();
  expect(stage.handler.jobs).toHaveLength(1);
  expect(stage.of('started')).toHaveLength(2);
});

test('P2, P4: a start that the handler would refuse, a conflicting payload and another dispatch leave the running job untouched', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.start = 'throws';
  await stage.send(start('k', 'd1', 5), start('k', 'd1', 6, two), start('k', 'd2', 7), start('k', 'd2', 4));
  expect(stage.handler.jobs).toHaveLength(1);
  expect(stage.handler.stoppings).toEqual([]);
  expect(stage.handler.jobs[0]?.lost.aborted).toBe(false);
  expect(stage.of('refused').map(({ fence, reason }) => [fence, reason])).toEqual([
    [6, 'fingerprint-mismatch'],
    [7, 'key-busy'],
  ]);
  await stage.send(notify('k', 5, 'n1'));
  expect(stage.handler.notified).toEqual([{ key: 'k', id: 'n1', text: 'one' }]);
  expect(stage.worker.lives).toMatchObject([{ key: 'k', dispatchId: 'd1', fence: 5, phase: 'up' }]);
});

test('P10: start, notifications and stop of one key wait for each other; other keys do not wait', async () => {
  const stage = await WorkerStage.registered();
  stage.handler.way.start = 'hangs';
  await stage.send(start('k', 'd1', 5), notify('k', 5, 'n1'), notify('k', 5, 'n2'), ending('stop', 'k', 'd1', 5));
  stage.handler.way.start = 'works';
  await stage.send(start('other', 'd2', 5));
  expect(stage.of('started').map(({ key }) => key)).toEqual(['other']);
  stage.handler.settle('start');
  await stage.settle();
  const calls = stage.story.filter((line) => /^(start|notify|stop) /.test(line) && !line.includes('d2'));
  expect(calls).toEqual(['start d1 5', 'notify d1 n1', 'notify d1 n2', 'stop d1 5: stop-requested']);
});

test('P10: an own end that comes while a notification is handled is settled after it, with the time at which it came', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.notify = 'hangs';
  await stage.send(notify('k', 5, 'n1'));
  const at = stage.scheduler.now();
  stage.handler.finish('k', 'done');
  await stage.advance(3_000);
  expect(stage.of('finished')).toEqual([]);
  stage.handler.settle('notify');
  await stage.settle();
  expect(stage.of('finished')).toMatchObject([{ at, result: 'done' }]);
});

test('P10: a job that ends by itself as its stop arrives is stopped or finished, never both', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5), start('j', 'd2', 5));
  stage.handler.finish('k', 'done');
  await stage.send(ending('stop', 'k', 'd1', 5));
  expect(stage.of('finished').length).toBeGreaterThan(0);
  expect(stage.of('stopped')).toEqual([]);
  expect(stage.handler.stoppings).toEqual([]);

  stage.handler.way.stop = 'hangs';
  await stage.send(ending('stop', 'j', 'd2', 5));
  stage.handler.finish('j', 'too late');
  stage.handler.settle('stop');
  await stage.settle();
  expect(stage.of('stopped')).toMatchObject([{ key: 'j' }]);
  expect(stage.of('finished').filter(({ key }) => key === 'j')).toEqual([]);
});

test('a job that would not stop, and ended by itself meanwhile, has finished', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.stop = 'hangs';
  await stage.send(ending('stop', 'k', 'd1', 5));
  stage.handler.finish('k', 'committed');
  await stage.settle();
  expect(stage.of('finished')).toEqual([]);
  stage.handler.settle('stop', new Error('in the middle of a commit'));
  await stage.settle();
  expect(stage.of('finished')).toMatchObject([{ key: 'k', result: 'committed' }]);
  expect(stage.of('stop-failed')).toEqual([]);
  expect(stage.worker.health.jobs).toBe(0);
});

test('P11: a command that got the lock is looked at anew: its session may be over by then', async () => {
  const stage = await WorkerStage.registered();
  stage.handler.way.start = 'hangs';
  await stage.send(start('k', 'd1', 5), start('k', 'd2', 6), { op: 'confirm', key: 'k', fence: 6 });
  stage.end('lost');
  await stage.advance(LEASE_MS / 3);
  stage.handler.settle('start', new Error('aborted'));
  await stage.advance(LEASE_MS);
  expect(stage.handler.jobs.map(({ fence }) => fence)).toEqual([5]);
  expect(stage.eventsOf('command-dropped').map(({ why, op }) => [why, op])).toEqual([
    ['other-session', 'start'],
    ['other-session', 'confirm'],
  ]);
});

test('P14: starts of one key that come at once call the handler once, and the highest fence that is not the same dispatch is refused', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5), start('k', 'd2', 6), start('k', 'd3', 7));
  expect(stage.handler.jobs.map(({ dispatchId }) => dispatchId)).toEqual(['d1']);
  expect(stage.of('refused').map(({ dispatchId, reason }) => [dispatchId, reason])).toEqual([
    ['d2', 'key-busy'],
    ['d3', 'key-busy'],
  ]);
});

test('a hung stop holds its key for its deadline only: a confirm behind it is answered then', async () => {
  const stage = await WorkerStage.registered({ stopDeadlineMs: 5_000 });
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.stop = 'hangs';
  await stage.send(ending('stop', 'k', 'd1', 5), { op: 'confirm', key: 'k', fence: 5 });
  await stage.advance(4_999);
  expect(stage.of('confirmed')).toEqual([]);
  await stage.advance(1);
  expect(stage.handler.stoppings[0]?.deadline.aborted).toBe(true);
  expect(stage.of('confirmed')).toHaveLength(1);
  expect(stage.of('stop-failed')).toMatchObject([{ error: { code: 'timeout' } }]);
});

test('a stop behind a notification that hangs reports at its deadline, and is carried out once it returns', async () => {
  const stage = await WorkerStage.registered({ stopDeadlineMs: 5_000 });
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.notify = 'hangs';
  await stage.send(notify('k', 5, 'n1'), ending('stop', 'k', 'd1', 5));
  await stage.advance(5_000);
  expect(stage.of('stop-failed')).toHaveLength(1);
  expect(stage.handler.stoppings).toEqual([]);
  stage.handler.settle('notify');
  await stage.settle();
  expect(stage.of('stopped')).toHaveLength(1);
});

test('a failed stop is tried again after 1 s, 2 s, 4 s and so on, each under a deadline of its own', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.stop = 'throws';
  const from = stage.scheduler.now();
  const at: number[] = [];
  await stage.send(ending('stop', 'k', 'd1', 5));
  for (let seen = 0; at.length < 9; await stage.advance(500)) {
    for (; seen < stage.handler.stoppings.length; seen += 1) at.push(stage.scheduler.now() - from);
  }
  expect(at).toEqual([0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000, 183_000]);
});

test('the room that a job takes is there again once nothing of it is left, and not before', async () => {
  const stage = await WorkerStage.registered({ capacity: 1 });
  stage.handler.way.start = 'hangs';
  await stage.send(start('a', 'd1', 5), start('b', 'd2', 5));
  expect(stage.of('refused')).toMatchObject([{ key: 'b', reason: 'at-capacity' }]);
  stage.handler.settle('start', new RetryableError('not now'));
  await stage.settle();
  stage.handler.way.start = 'works';
  await stage.send(start('c', 'd3', 5));
  stage.handler.way.stop = 'hangs';
  await stage.send(ending('stop', 'c', 'd3', 5), start('d', 'd4', 5));
  expect(stage.of('refused').map(({ key }) => key)).toEqual(['b', 'd']);
  stage.handler.settle('stop');
  await stage.settle();
  await stage.send(start('e', 'd5', 5));
  expect(stage.of('started').map(({ key }) => key)).toEqual(['c', 'e']);
});

test('F8: a stop that is there before its start was begun: the handler is not called, also in one batch', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start('k', 'd1', 5));
  stage.handler.way.notify = 'hangs';
  await stage.send(notify('k', 5, 'n1'), ending('stop', 'k', 'd1', 5), start('k', 'd2', 6), ending('stop', 'k', 'd2', 6));
  stage.handler.settle('notify');
  await stage.settle();
  expect(stage.handler.jobs.map(({ dispatchId }) => dispatchId)).toEqual(['d1']);
  expect(stage.of('stopped').map(({ dispatchId, startedAt }) => [dispatchId, startedAt !== undefined])).toEqual([
    ['d1', true],
    ['d2', false],
    ['d2', false],
  ]);
  await stage.send(start('k', 'd2', 6));
  expect(stage.handler.jobs).toHaveLength(1);
});

// P18: what the docstring of defineHandler promises, under whatever may come.

type Act =
  | { readonly act: 'start'; readonly key: string; readonly dispatch: number; readonly fence: number }
  | { readonly act: 'stop' | 'release'; readonly key: string; readonly dispatch: number; readonly fence: number }
  | { readonly act: 'notify' | 'confirm'; readonly key: string; readonly fence: number }
  | { readonly act: 'ways'; readonly start: Way; readonly stop: Way; readonly notify: Way; readonly takesMs: number }
  | { readonly act: 'pass'; readonly ms: number }
  | { readonly act: 'end'; readonly state: 'revoked' | 'lost' }
  | { readonly act: 'outage' | 'recovery' }
  | { readonly act: 'freeze'; readonly ms: number; readonly suspended: boolean };
type Way = 'works' | 'throws' | 'retryable' | 'takes time';

const key = fc.constantFrom('a', 'b');
const fence = fc.integer({ min: 1, max: 8 });
const dispatch = fc.integer({ min: 1, max: 3 });
const way = fc.constantFrom<Way>('works', 'works', 'throws', 'retryable', 'takes time');
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ act: fc.constant('start' as const), key, dispatch, fence }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constantFrom('stop' as const, 'release' as const), key, dispatch, fence }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constantFrom('notify' as const, 'confirm' as const), key, fence }) },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('ways' as const),
      start: way,
      stop: way,
      notify: way,
      takesMs: fc.integer({ min: 1, max: 9_000 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 12_000 }) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('end' as const), state: fc.constantFrom('revoked' as const, 'lost' as const) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constantFrom('outage' as const, 'recovery' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('freeze' as const), ms: fc.integer({ min: 1, max: 60_000 }), suspended: fc.boolean() }),
  },
);

test('P18: whatever comes, calls of a key never overlap, a fence is started once, nothing that was ended runs again, and at the end all is stopped', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 30 }), async (acts) => {
      const watch = new Watch();
      const stage = await WorkerStage.registered({
        handler: watch.handler((ms) => watch.pause(stage, ms)),
        drainDeadlineMs: 120_000,
        stopDeadlineMs: 2_000,
      });
      let seen = 0;
      for (const each of acts) {
        await perform(stage, watch, each);
        for (; seen < stage.reports.length; seen += 1) watch.hear(stage.reports[seen]);
      }
      watch.ways = { start: 'works', stop: 'works', notify: 'works', takesMs: 0 };
      await perform(stage, watch, { act: 'recovery' });
      await stage.advance(2 * LEASE_MS + 60_000);
      void stage.worker.drain();
      await stage.advance(130_000);
      expect(watch.breaches).toEqual([]);
      expect(stage.worker.state).toBe('left');
      expect(stage.worker.lives).toEqual([]);
      expect(watch.live).toEqual(new Map());
      for (const handled of watch.handled) expect(stage.reports, handled).toContainEqual(expect.objectContaining(answerTo(handled)));
    }),
    { numRuns: 300 },
  );
}, 60_000);

/** Somewhere it was said what became of a fence that the handler was called for. */
function answerTo(handled: string): object {
  const [key, fence] = handled.split('@');
  return { key, fence: Number(fence) };
}

async function perform(stage: WorkerStage, watch: Watch, each: Act): Promise<void> {
  switch (each.act) {
    case 'start':
      return stage.send(start(each.key, `d${each.dispatch}`, each.fence));
    case 'stop':
    case 'release':
      return stage.send(ending(each.act, each.key, `d${each.dispatch}`, each.fence));
    case 'notify':
      return stage.send(notify(each.key, each.fence, 'n'));
    case 'confirm':
      return stage.send({ op: 'confirm', key: each.key, fence: each.fence });
    case 'ways':
      watch.ways = each;
      return;
    case 'pass':
      return stage.advance(each.ms);
    case 'end':
      return stage.end(each.state);
    case 'outage':
      stage.cutOff = new Set(['registry', 'reports']);
      return;
    case 'recovery':
      stage.cutOff = new Set();
      return;
    case 'freeze':
      stage.process.freeze({ suspended: each.suspended });
      await stage.advance(each.ms);
      stage.process.resume();
      return stage.settle();
    default:
      each satisfies never;
  }
}

/** A handler that looks at how it is called. */
class Watch {
  ways: { start: Way; stop: Way; notify: Way; takesMs: number } = { start: 'works', stop: 'works', notify: 'works', takesMs: 0 };
  readonly breaches: string[] = [];
  readonly live = new Map<string, number>();
  readonly handled: string[] = [];
  readonly #busy = new Map<string, string>();
  readonly #started = new Set<string>();
  /** By key, the highest fence up to which everything was reported as stopped or released. */
  readonly #ended = new Map<string, number>();

  handler(pause: (ms: number) => Promise<void>): Handler {
    return defineHandler({
      start: async (job) => {
        const { key, fence } = job;
        if (this.#started.has(`${key}@${fence}`)) this.breaches.push(`${key}@${fence} started twice`);
        if (fence <= (this.#ended.get(key) ?? 0)) this.breaches.push(`${key}@${fence} started after ${this.#ended.get(key)} had ended`);
        if (this.live.has(key)) this.breaches.push(`${key}@${fence} started beside ${this.live.get(key)}`);
        if (job.lost.aborted) this.breaches.push(`${key}@${fence} started though lost`);
        this.#started.add(`${key}@${fence}`);
        this.handled.push(`${key}@${fence}`);
        this.live.set(key, fence);
        try {
          await this.#call(key, 'start', pause);
        } catch (error) {
          this.live.delete(key);
          throw error;
        }
        return {
          stop: async ({ mayWrite }) => {
            if (mayWrite && job.lost.aborted) this.breaches.push(`${key}@${fence} may write though lost`);
            await this.#call(key, 'stop', pause);
            this.live.delete(key);
          },
          notify: async () => {
            if (job.lost.aborted) this.breaches.push(`${key}@${fence} notified though lost`);
            await this.#call(key, 'notify', pause);
          },
        };
      },
    });
  }

  hear(report: WorkerStage['reports'][number] | undefined): void {
    if (report?.type !== 'stopped' && report?.type !== 'released') return;
    this.#ended.set(report.key, Math.max(this.#ended.get(report.key) ?? 0, report.fence));
  }

  pause(stage: WorkerStage, ms: number): Promise<void> {
    return new Promise((resolve) => {
      stage.process.after(ms, resolve);
    });
  }

  async #call(key: string, what: 'start' | 'stop' | 'notify', pause: (ms: number) => Promise<void>): Promise<void> {
    const busy = this.#busy.get(key);
    if (busy) this.breaches.push(`${key}: ${what} during ${busy}`);
    this.#busy.set(key, what);
    try {
      const way = this.ways[what];
      if (way === 'takes time') await pause(this.ways.takesMs);
      if (way === 'throws') throw new Error(what);
      if (way === 'retryable') throw new RetryableError(what);
    } finally {
      this.#busy.delete(key);
    }
  }
}
