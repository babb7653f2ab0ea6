import { armRound, executionName, openRound } from '../../lib/resync/run-round.ts';
import type { FactReport, ResyncEntry } from '../../lib/wire/index.ts';
import type { EndReport } from '../../lib/worker/fences.ts';
import { JOBS, JOBS_WITH_NEXT, KEY, NOW, PAYLOAD } from '../../protocol/cast.ts';
import { type EntryRow, entryTable } from '../../protocol/entries.ts';
import { expand } from '../../protocol/table.ts';
import { type ControlPlane, LEASE_MS } from '../support/control-plane.ts';
import type { Played } from '../support/crash-points.ts';
import { PlayedWorker } from '../support/played-worker.ts';
import { type Deed, sweepOnceDue } from '../support/scenario.ts';

/** The workers of a run, by session: what they do is as long remembered as the run is. */
const casts = new WeakMap<ControlPlane, Map<string, PlayedWorker>>();

export function played(plane: ControlPlane, worker: string, session: string): PlayedWorker {
  const cast = casts.get(plane) ?? new Map<string, PlayedWorker>();
  casts.set(plane, cast);
  const known = cast.get(session) ?? new PlayedWorker(plane, worker, session);
  cast.set(session, known);
  return known;
}

/** A page of an answer at a key, and what its worker says in a round that takes the place of the first one. */
export interface EntryScenario extends Played {
  /** Puts another round in the place of the one that the page answers, once. */
  readonly supersede: (plane: ControlPlane) => Promise<void>;
  readonly nextRound: Deed;
}

/**
 * Every cell of table 5 that writes or sends anything, where its page counts. But for what a session takes over that a previous one was
 * given: no worker can say that, and it gives one fence two sessions.
 */
export function entryScenarios(): readonly EntryScenario[] {
  return entryTable.rows
    .filter(({ row, entry, by }) => isPresent(row) && !(entry.state === 'running' && by.session === 's9'))
    .flatMap(scenariosOf);
}

function isPresent(row: EntryRow['row']): boolean {
  return row === undefined || row.state === 'active';
}

function scenariosOf(row: EntryRow): readonly EntryScenario[] {
  const doing = [...expand(row)].filter(([, decision]) => decision !== 'nothing' && !/^count [\w-]+$/.test(decision));
  const cells = new Map(doing.map(([column, decision]) => [decision, column]));
  return [...cells.values()].map((column) => scenarioOf(row, column));
}

function scenarioOf({ when, entry, asked, by, dispatch }: EntryRow, column: string): EntryScenario {
  const { worker, session } = by;
  const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
  const isSuperseded = new WeakSet<ControlPlane>();
  const supersede = async (plane: ControlPlane) => {
    if (isSuperseded.has(plane)) return;
    isSuperseded.add(plane);
    await plane.services.rounds.close('R1', 'closed');
    const step = await openRound(plane.services.poolPorts(), plane.resync, by, { rounds: 1 });
    if (step.next !== 'arm') throw new Error(`next is ${step.next}`);
    const question = plane.services.poolPorts();
    const commands: typeof question.commands = {
      send: async (command) => {
        plane.sent.push(command);
        return 'sent';
      },
    };
    await armRound({ ...question, commands }, plane.resync, step.token);
  };
  return {
    name: `${when}, ${column}`,
    ...(column === 'no record' ? {} : { job: column }),
    ...(dispatch && !(job && dispatch.dispatchId === job.dispatchId) ? { dispatches: { [dispatch.dispatchId]: dispatch.status } } : {}),
    async stands(plane) {
      const { workers, rounds } = plane.services;
      if (workers.all().every((row) => row.session !== session)) await plane.addWorker(worker, session);
      await rounds.open({
        ...{ token: 'R1', worker, session, state: 'open', beat: 0, openedAt: NOW, deadline: NOW + LEASE_MS },
        ...{ asked: 0, applied: new Set(), skipped: 0, counts: {} },
      });
      await rounds.ask([{ token: 'R1', page: 1, jobs: asked ? [asked] : [] }]);
      await rounds.arm('R1', { asked: 1, deadline: NOW + LEASE_MS, taskToken: 'T1' });
      await workers.change(worker, { session, states: ['active'] }, { round: 'R1' });
      knows(played(plane, worker, session), entry);
    },
    steps: [(plane) => plane.report({ type: 'resync', ...by, at: plane.now(), round: 'R1', page: 1, pages: 1, entries: [entry] })],
    supersede,
    async nextRound(plane) {
      await supersede(plane);
      plane.report(...played(plane, worker, session).answer());
    },
  };
}

/** What must be true of the worker for it to say this. */
function knows(worker: PlayedWorker, entry: ResyncEntry): void {
  if (entry.state === 'unrecognized' || entry.state === 'starting') return;
  const { key, dispatchId, fingerprint, fence } = entry;
  if (entry.state === 'running') {
    worker.up(key, entry.startedAt, { dispatchId, fingerprint, fence });
    return;
  }
  const { state, ...facts } = entry;
  const at = 'finishedAt' in entry ? entry.finishedAt : 500;
  const type: EndReport['type'] = state === 'succeeded' || state === 'failed' ? 'finished' : state;
  worker.remembers({ ...facts, type, worker: worker.worker, session: worker.session, at } as FactReport as EndReport);
}

/** Everybody who is there does what it was sent, and what waits is seen to, until nobody is sent anything more. */
export const settle: Deed = async (plane) => {
  for (let sent = -1; sent < plane.sent.length || isWaiting(plane); await plane.rest()) {
    sent = plane.sent.length;
    if (isWaiting(plane)) await sweepOnceDue(plane);
    for (const { workerId, session, state } of plane.services.workers.all())
      if (state === 'active' || state === 'draining') played(plane, workerId, session).obey();
  }
};

function isWaiting({ services }: ControlPlane): boolean {
  return services.jobs.all().some((job) => job.status === 'pending' || (job.status === 'ended' && job.next !== undefined));
}

// Who plays in the rounds.

const w1 = (plane: ControlPlane) => played(plane, 'w1', 's1');
const w2 = (plane: ControlPlane) => played(plane, 'w2', 's2');

/** An execution for the worker, as the sweep starts it. */
const execution: Deed = async (plane) => {
  const row = plane.services.workers.peek('w1');
  if (row) await plane.services.machine.start(executionName(row, plane.now()), { worker: 'w1', session: row.session });
};
/** And its question has come. */
const asked: Deed = async (plane) => {
  await execution(plane);
  for (let seconds = 0; seconds < 20 && w1(plane).question().length === 0; seconds++) await plane.advance(1_000);
};

/** Time goes by, in which what failed is tried again. */
const passes =
  (ms: number): Deed =>
  (plane) =>
    plane.advance(ms);

/** Its handler is up, as the record says. */
const holds: Deed = (plane) => {
  const job = plane.services.jobs.peek(KEY);
  if (job && 'owner' in job) w1(plane).holds(KEY, 'd1', PAYLOAD.d1, job.fence, 160);
};
const lives =
  (how: Parameters<PlayedWorker['lives']>[0] = {}): Deed =>
  (plane) =>
    w1(plane).lives(how);

/** A run of the sweep after the other, each with as few passes as see a beat stand still for half a lease; in each `w2` beats. */
function sweeps(minutes: number): Deed {
  return async (plane) => {
    for (let minute = 0; minute < minutes; minute++) {
      const until = plane.now() + 60_000;
      const sweep = plane.newSweep();
      while (plane.now() < until - LEASE_MS / 2) {
        await w2(plane).beat();
        await sweep.pass();
        await plane.advance(LEASE_MS / 2);
      }
      await plane.advance(Math.max(0, until - plane.now()));
    }
  };
}

/** The life of a round, by the machine that times it and by the sweep that begins it. `leaves` as everywhere: job, dispatches, commands. */
export const roundScenarios: readonly (Played & { readonly leaves: string })[] = [
  {
    name: 'a silent worker is lost, and its job goes elsewhere',
    job: 'running',
    steps: [execution, passes(90_000), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a silent worker is lost while it stops',
    job: 'stopping, ran',
    steps: [execution, passes(90_000), settle],
    leaves: 'd1 ended (stopped) | d1 stopped | nothing sent',
  },
  {
    name: 'a silent worker is lost before its start was confirmed, and somebody waits',
    job: 'assigned, next',
    steps: [execution, passes(90_000), settle],
    leaves: 'd1 running, next d3 | d1 started, d3 admitted | s2 start d1',
  },
  {
    name: 'a silent worker has a longer lease than a round',
    job: 'running',
    stands: (plane) => plane.addWorker('w1', 's1', { leaseMs: 75_000 }),
    steps: [execution, passes(150_000), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a worker answers',
    job: 'running',
    steps: [execution, holds, lives(), passes(150_000)],
    leaves: 'd1 running | d1 started | nothing sent',
  },
  {
    name: 'a worker answers that its job is over',
    job: 'running',
    steps: [execution, holds, (plane) => w1(plane).over(KEY, 'finished', { at: 400 }), lives(), passes(150_000)],
    leaves: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  },
  {
    name: 'a worker answers that it knows nothing of its job',
    job: 'running',
    steps: [execution, lives(), passes(150_000), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a worker beats and never answers, is evicted, then lost',
    job: 'running',
    steps: [execution, lives({ answers: false }), passes(240_000), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a worker answers, and its pages are late',
    job: 'running',
    steps: [execution, holds, lives({ lateMs: 40_000 }), passes(200_000)],
    leaves: 'd1 running | d1 started | nothing sent',
  },
  {
    name: 'a worker answers, and its pages are lost for good; the next ones come',
    job: 'running',
    steps: [execution, holds, lives({ loses: 1 }), passes(240_000)],
    leaves: 'd1 running | d1 started | nothing sent',
  },
  {
    name: 'a worker registers anew while it is asked',
    job: 'running',
    steps: [
      asked,
      async (plane) => {
        await plane.addWorker('w1', 's1 again');
        played(plane, 'w1', 's1 again').lives();
        plane.report({ type: 'registered', worker: 'w1', session: 's1 again', at: 500 });
      },
      passes(200_000),
      settle,
    ],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a worker is evicted',
    job: 'running',
    steps: [
      async (plane) => void (await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { state: 'revoked' })),
      execution,
      passes(90_000),
      settle,
    ],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a worker is evicted while it is asked',
    job: 'running',
    steps: [
      asked,
      async (plane) => void (await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { state: 'revoked' })),
      passes(120_000),
      settle,
    ],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'a round takes the place of one that nobody times any more',
    job: 'running',
    stands: async (plane) => {
      const ports = plane.services.poolPorts();
      const step = await openRound(ports, plane.resync, { worker: 'w1', session: 's1' }, { rounds: 0 });
      if (step.next === 'arm') await armRound(ports, plane.resync, step.token, 'nobody waits');
      await plane.advance(1.5 * LEASE_MS + 1);
    },
    steps: [execution, holds, lives(), passes(150_000)],
    leaves: 'd1 running | d1 started | nothing sent',
  },
  {
    name: 'the sweep finds a silent worker',
    job: 'running',
    steps: [sweeps(3), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'the sweep finds a revoked worker that nobody waits for',
    job: 'running',
    stands: async (plane) => void (await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { state: 'revoked' })),
    steps: [sweeps(3), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
  {
    name: 'the sweep finds a lost worker that nobody saw to',
    job: 'running',
    stands: async (plane) => void (await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' })),
    steps: [sweeps(3), settle],
    leaves: 'd1 running | d1 started | s2 start d1',
  },
];
