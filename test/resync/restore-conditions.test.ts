import { describe, expect, test } from 'vitest';
import { isOwned, type Job } from '../../lib/pool/job.ts';
import { promptly } from '../../lib/testing/functions.ts';
import { MemoryRestores, RESTORE_CONDITIONS, type RestoreCondition } from '../../lib/testing/memory-restores.ts';
import type { ConfirmedReport } from '../../lib/wire/index.ts';
import { type DispatchName, dispatch, FENCE, fingerprint, KEY, OWNER, PAYLOAD } from '../../protocol/cast.ts';
import type { ControlPlane } from '../support/control-plane.ts';
import { type Scenario, stage } from '../support/scenario.ts';

// Between the decision and its transaction anything can happen. For each condition of the transaction one thing that does, and what comes of
// it where that condition is not looked at.

function confirmed(of: DispatchName, fence: number, by: { readonly worker: string; readonly session: string }): ConfirmedReport {
  const said = { key: KEY, dispatchId: of, fingerprint: fingerprint(of), fence, ...by, at: 400 };
  return { ...said, type: 'confirmed', startedAt: 150, payload: PAYLOAD[of] };
}

const assignedElsewhere: Job = {
  ...{ status: 'assigned', key: KEY, dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 2_000, attempt: 1, admittedAt: 10 },
  ...{ owner: { worker: 'w2', session: 's2' }, assignedAt: 2_000 },
};
const ended = (of: DispatchName) => ({ ...dispatch(of, 'ended'), fence: FENCE, expiresAt: Number.MAX_SAFE_INTEGER }) as never;

interface Race {
  readonly happens: (plane: ControlPlane) => unknown;
  /** What must not be. Where the checker sees it by itself, the run ends there. */
  readonly isWrong: (plane: ControlPlane) => boolean;
  readonly report?: ConfirmedReport;
  readonly stage?: Partial<Scenario>;
}

const here = (plane: ControlPlane) => ownerAt(plane)?.session === OWNER.session;
const whereAmI = { dispatches: { d1: 'started' } } as const;

const RACES: Readonly<Record<RestoreCondition, readonly [what: string, Race]>> = {
  job: [
    'somebody else is assigned the key, and keeps it (P8)',
    { happens: (plane) => plane.putJob(assignedElsewhere), isWrong: (plane) => ownerAt(plane)?.worker !== 'w2' },
  ],
  dispatch: [
    'the dispatch ends, and is not revived (G7)',
    { happens: ({ services }) => services.dispatches.change(ended('d1'), 'started'), isWrong: here },
  ],
  displaced: [
    'the dispatch in its place ends, and its end stands (G7)',
    {
      report: confirmed('d2', 110, { worker: 'w2', session: 's2' }),
      stage: { job: 'running', dispatches: { d2: 'started' } },
      happens: ({ services }) => services.dispatches.change(ended('d1'), 'started'),
      isWrong: ({ services }) => JSON.stringify(services.dispatches.peek('d1')).includes('lost-in-restore'),
    },
  ],
  session: [
    'the worker registers anew, and its old session gets nothing',
    { happens: (plane) => plane.addWorker('w1', 's9'), isWrong: here },
  ],
  state: [
    'the worker is declared lost, and a lost one gets nothing',
    { happens: ({ services }) => services.workers.change('w1', { session: 's1', states: ['active'] }, { state: 'lost' }), isWrong: here },
  ],
  'row generation': [
    'the worker’s row is written anew, and whoever was not seen yet gets nothing',
    {
      happens: ({ services }) =>
        services.workers.register({ workerId: 'w1', session: 's1', capacity: 10, leaseMs: 30_000, registeredAt: 1 }),
      isWrong: here,
    },
  ],
  'pool generation': [
    'the pool is opened anew, and a worker of the generation before gets nothing',
    { happens: ({ services }) => services.workers.setPool({ state: 'open', generation: 2 }), isWrong: here },
  ],
  'pool state': [
    'the pool is closed, and gets no job back',
    { happens: ({ services }) => services.workers.setPool({ state: 'closed', generation: 1 }), isWrong: here },
  ],
};

function ownerAt({ services }: ControlPlane) {
  const job = services.jobs.peek(KEY);
  return job && isOwned(job) ? job.owner : undefined;
}

/** Played to the end, or to the breach of a guarantee. */
async function play({ happens, isWrong, report = confirmed('d1', FENCE, OWNER), stage: more }: Race, without?: RestoreCondition) {
  let hasHappened = false;
  const network = {
    fate({ method }: { readonly method: string }) {
      if (method === 'restore' && !hasHappened) {
        hasHappened = true;
        void happens(plane);
      }
      return { delayMs: 0 };
    },
  };
  const scenario = { name: 'race', steps: [], leaves: '', ...whereAmI, ...more };
  const plane: ControlPlane = await stage(scenario, { network, invocations: promptly });
  plane.services.restores = new MemoryRestores({ ...plane.services, ...(without ? { without } : {}) });
  plane.report(report);
  const breach = await plane.rest().then(
    () => undefined,
    (error: Error) => error.message,
  );
  expect(hasHappened).toBe(true);
  return { plane, breach, isWrong: breach !== undefined || isWrong(plane) };
}

describe.for(RESTORE_CONDITIONS.map((condition) => [condition, ...RACES[condition]] as const))(
  'the transaction looks at the %s (P7)',
  ([condition, what, race]) => {
    test(what, async () => {
      const { isWrong, breach } = await play(race);
      expect(breach).toBeUndefined();
      expect(isWrong).toBe(false);
    });

    test('and where it does not, that goes wrong', async () => {
      expect((await play(race, condition)).isWrong).toBe(true);
    });
  },
);

describe('a confirmation that came too early', () => {
  test.for(['row generation', 'pool generation'] as const)(
    'comes again until the worker was seen in this generation, and then restores: %s (P9)',
    async (condition) => {
      const { plane } = await play(RACES[condition][1]);
      const { generation } = plane.services.workers.peekPool();
      expect(plane.services.deadReports.size).toBe(1);
      expect(plane.sent).toEqual([]);
      await plane.services.workers.change('w1', { session: 's1', states: ['active'] }, { generation });
      plane.redrive();
      await plane.rest();
      expect(ownerAt(plane)).toEqual(OWNER);
    },
  );
});

describe('what lost the race', () => {
  test('is told to stop where it must not run there any more', async () => {
    for (const condition of ['job', 'dispatch', 'pool state'] as const) {
      const { plane } = await play(RACES[condition][1]);
      expect(plane.sent, condition).toMatchObject([{ op: 'stop', session: 's1', key: KEY, dispatchId: 'd1', fence: FENCE }]);
    }
  });

  test('is told nothing where its session is over', async () => {
    for (const condition of ['session', 'state'] as const) expect((await play(RACES[condition][1])).plane.sent, condition).toEqual([]);
  });
});
