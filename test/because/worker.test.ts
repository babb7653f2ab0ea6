import { expect, vi } from 'vitest';
import { fingerprintOf } from '../../lib/wire/index.ts';
import * as drains from '../../lib/worker/drain.ts';
import { type EndReport, Ends } from '../../lib/worker/fences.ts';
import * as lanes from '../../lib/worker/key-lane.ts';
import * as lease from '../../lib/worker/lease.ts';
import { Session } from '../../lib/worker/session.ts';
import { LEASE_MS, type SentCommand, WorkerStage } from '../support/worker-stage.ts';
import { because } from './because.ts';

/** What a worker may do, and for how long: the real runtime on a virtual clock, and a test that plays the control plane. */

const payload = new TextEncoder().encode('{}');
const named = (fence: number, dispatchId: string) => ({ key: 'k', dispatchId, fingerprint: fingerprintOf('k', payload), fence });
const start = (fence: number, dispatchId = 'd1'): SentCommand => ({ op: 'start', ...named(fence, dispatchId), payload, attempt: 1 });
const stop = (fence: number, dispatchId = 'd1'): SentCommand => ({ op: 'stop', ...named(fence, dispatchId), reason: 'stop-requested' });
const release = (fence: number, dispatchId = 'd1'): SentCommand => ({ op: 'release', ...named(fence, dispatchId), reason: 'moved' });

/** The worker of the test that runs, for what is to be taken away from it alone. */
let stage: WorkerStage;

async function working(...commands: readonly SentCommand[]): Promise<WorkerStage> {
  stage = await WorkerStage.registered();
  await stage.send(...commands);
  return stage;
}

const startsOf = ({ story }: WorkerStage) => story.filter((line) => line.startsWith('start'));

/** What ended is remembered, but what is not `kept` is not found again. */
function forgotten(isKept: (report: EndReport) => boolean): void {
  const { at } = Ends.prototype;
  vi.spyOn(Ends.prototype, 'at').mockImplementation(function (this: Ends, fence) {
    const report = at.call(this, fence);
    return report && isKept(report) ? report : undefined;
  });
}

because('a stop of a fence that never came ends it all the same: its start may be on its way', {
  async plays() {
    const { story } = await working(stop(5), start(5));
    expect(story, 'G2: what was stopped comes up').not.toContainEqual(expect.stringMatching(/^start/));
  },
  without() {
    forgotten(() => false);
    vi.spyOn(Ends.prototype, 'reach').mockReturnValue(false);
  },
  breaks: 'G2: what was stopped comes up',
});

because('a stop or a release of a fence ends every lower one: a start from before may be on its way', {
  async plays() {
    const worker = await working(release(7), start(5));
    expect(startsOf(worker), 'G2: what went elsewhere comes up').toEqual([]);
  },
  without: () => void vi.spyOn(Ends.prototype, 'reach').mockReturnValue(false),
  breaks: 'G2: what went elsewhere comes up',
});

because('a refusal ends exactly its fence: under a lower one, what it was refused for goes on', {
  async plays() {
    const { handler } = await working(start(5), start(6, 'd2'), stop(6, 'd2'));
    expect(handler.stoppings, 'G4: what runs is stopped by a stop of what was refused').toEqual([]);
  },
  without: () => forgotten(({ type }) => type !== 'refused'),
  breaks: 'G4: what runs is stopped by a stop of what was refused',
});

because('a fence that ended says so for ever: a job that finished is never answered for as released', {
  async plays() {
    const worker = await working(start(5));
    worker.handler.finish('k', { lines: 3 });
    await worker.settle();
    await worker.send(release(5));
    expect(worker.of('released'), 'G7: what has finished is placed again').toEqual([]);
    expect(worker.of('finished')).toHaveLength(2);
  },
  without() {
    forgotten(({ type }) => type !== 'finished');
    const { record } = Ends.prototype;
    vi.spyOn(Ends.prototype, 'record').mockImplementation(function (this: Ends, report) {
      const end = record.call(this, report);
      return end.report === report ? end : { report };
    });
  },
  breaks: 'G7: what has finished is placed again',
});

because('an end is not forgotten before a later round did not name it and the inbox can hold nothing older', {
  async plays() {
    const worker = await working(stop(5));
    await worker.advance(2 * LEASE_MS);
    await worker.send(start(5));
    expect(startsOf(worker), 'G2: what was stopped comes up').toEqual([]);
  },
  without() {
    const forgetful = new WeakSet<Ends>();
    const { at, reach } = Ends.prototype;
    vi.spyOn(Ends.prototype, 'forget').mockImplementation(function (this: Ends) {
      forgetful.add(this);
    });
    vi.spyOn(Ends.prototype, 'at').mockImplementation(function (this: Ends, fence) {
      return forgetful.has(this) ? undefined : at.call(this, fence);
    });
    vi.spyOn(Ends.prototype, 'reach').mockImplementation(function (this: Ends, fence) {
      return !forgetful.has(this) && reach.call(this, fence);
    });
  },
  breaks: 'G2: what was stopped comes up',
});

because('a lease counts from the moment at which its heartbeat was sent, and not from its answer', {
  async plays() {
    const worker = await working(start(5));
    worker.fate = ({ method }) => (method === 'heartbeat' ? { delayMs: 6_000 } : undefined);
    let lostAt: number | undefined;
    worker.handler.jobs[0]?.lost.addEventListener('abort', () => {
      lostAt = worker.scheduler.now();
    });
    const sent = () => worker.calls.filter(({ method }) => method === 'heartbeat').length;
    await worker.until(() => sent() === 3, 3 * LEASE_MS);
    const sentAt = worker.scheduler.now();
    await worker.advance(7_000);
    worker.cutOff = new Set(['registry']);
    await worker.until(() => lostAt !== undefined, 2 * LEASE_MS);
    expect((lostAt as number) - sentAt, 'G2: handlers outlive the lease').toBeLessThanOrEqual((2 / 3) * LEASE_MS);
  },
  without: () => void vi.spyOn(lease, 'renewed').mockImplementation((old) => ({ ...old, since: lease.momentOf(stage.process) })),
  breaks: 'G2: handlers outlive the lease',
});

because('elapsed time is the larger of both clocks’: the monotonic one stands still in suspend', {
  async plays() {
    const worker = await working(start(5));
    worker.fate = ({ method }) => (method === 'receive' ? { delayMs: 1_000_000 } : undefined);
    await worker.advance(5_500);
    worker.process.freeze({ suspended: true });
    await worker.advance(5 * LEASE_MS);
    worker.process.resume();
    await worker.advance(1_000);
    expect(worker.handler.jobs[0]?.lost.aborted, 'G2: handlers outlive the lease').toBe(true);
  },
  without() {
    const { momentOf } = lease;
    vi.spyOn(lease, 'momentOf').mockImplementation((clock) => ({ ...momentOf(clock), wall: momentOf(clock).monotonic }));
  },
  breaks: 'G2: handlers outlive the lease',
});

because('elapsed time is the larger of both clocks’: the wall clock may be set back', {
  async plays() {
    const worker = await working(start(5));
    worker.process.setClock(-86_400_000);
    worker.cutOff = new Set(['registry']);
    await worker.advance(LEASE_MS);
    expect(worker.handler.jobs[0]?.lost.aborted, 'G2: handlers outlive the lease').toBe(true);
  },
  without() {
    const { momentOf } = lease;
    vi.spyOn(lease, 'momentOf').mockImplementation((clock) => ({ ...momentOf(clock), monotonic: momentOf(clock).wall }));
  },
  breaks: 'G2: handlers outlive the lease',
});

because('stopping begins at two thirds of the lease: handlers need time to stop', {
  async plays() {
    const worker = await working(start(5));
    worker.handler.way.stop = 'hangs';
    worker.cutOff = new Set(['registry']);
    await worker.until(() => worker.handler.stoppings.length > 0, 2 * LEASE_MS);
    await worker.advance(5_000);
    worker.handler.settle('stop');
    await worker.settle();
    expect(worker.eventsOf('overrun'), 'G2: a handler outlives the lease').toEqual([]);
  },
  without: () => void vi.spyOn(lease, 'heldForMs').mockImplementation(lease.leftMs),
  breaks: 'G2: a handler outlives the lease',
});

because('the lease is looked at before each call of a handler: a process that stood still does not know that it did', {
  async plays() {
    const worker = await working();
    worker.process.freeze();
    await worker.advance(3 * LEASE_MS);
    await worker.send(start(5));
    worker.process.resume();
    await worker.settle();
    expect(startsOf(worker), 'G2: it starts what went elsewhere').toEqual([]);
  },
  without: () =>
    void vi.spyOn(Session.prototype, 'holdsLease').mockImplementation(function (this: Session) {
      return !this.isOver;
    }),
  breaks: 'G2: it starts what went elsewhere',
});

because('a worker registers anew only when every handler of its last session has stopped', {
  async plays() {
    const worker = await working(start(5));
    worker.handler.way.stop = 'hangs';
    const { session } = worker;
    worker.end('revoked');
    await worker.advance(LEASE_MS / 2);
    // Whoever finds the session replaced takes the job for lost.
    expect(worker.session, 'G2: what still runs is given away').toBe(session);
  },
  without() {
    const { KeyLane } = lanes;
    vi.spyOn(lanes, 'KeyLane').mockImplementation(
      class extends KeyLane {
        readonly #lives: Set<unknown>;
        constructor(...of: ConstructorParameters<typeof KeyLane>) {
          super(...of);
          this.#lives = of[1].lives;
        }
        override loseSession(...of: Parameters<(typeof KeyLane)['prototype']['loseSession']>): void {
          super.loseSession(...of);
          this.#lives.delete(this.life);
        }
      },
    );
  },
  breaks: 'G2: what still runs is given away',
});

because('a worker says that it left only when no handler of it is alive: its keys are then given away without asking', {
  async plays() {
    const worker = await working(start(5));
    worker.handler.way.stop = 'hangs';
    void worker.worker.drain({ deadlineMs: 5_000 });
    await worker.advance(10_000);
    expect(worker.services.workers.peek('w1')?.state, 'G2: its keys are given away').toBe('draining');
  },
  without() {
    const { drain } = drains;
    vi.spyOn(drains, 'drain').mockImplementation((host, deadline) =>
      drain(Object.create(host, { running: { value: 0 }, stopped: { value: async () => {} } }), deadline),
    );
  },
  breaks: 'G2: its keys are given away',
});

because('a job that runs is not started by the start that comes again: it keeps the higher fence', {
  async plays() {
    const worker = await working(start(5), start(5), start(7));
    expect(startsOf(worker), 'G4: a running job is started again').toHaveLength(1);
    expect(worker.of('started').map(({ fence }) => fence)).toEqual([5, 5, 7]);
  },
  without() {
    const { accept } = lanes.KeyLane.prototype;
    // Nothing up is known to be up.
    vi.spyOn(lanes.KeyLane.prototype, 'accept').mockImplementation(function (this: lanes.KeyLane, command) {
      if (this.life) this.life.startedAt = undefined as never;
      accept.call(this, command);
    });
  },
  breaks: 'G4: a running job is started again',
});
