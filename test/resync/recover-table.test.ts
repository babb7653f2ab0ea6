import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PoolState, WorkerRow } from '../../lib/pool/worker.ts';
import { decideRecover, isConclusive, type Looked, REPORTS, REQUESTS, type RecoverStep } from '../../lib/resync/decide-recover.ts';
import { Recovery } from '../../lib/resync/recover.ts';
import type { Round } from '../../lib/resync/round.ts';

// Every step of a recovery, each from the look that calls for it and nothing less.

const LEASE_MS = 30_000;
/** The longest of what has to pass where no lease is longer: a cache, a function's life, a margin. */
const SETTLED_MS = 30_000;
const CACHE_MS = 5_000;

function aRow(workerId: string, state: WorkerRow['state'] = 'active', more: Partial<WorkerRow> = {}): WorkerRow {
  const row = {
    workerId,
    session: `s-${workerId}`,
    state,
    beat: 1,
    leaseMs: LEASE_MS,
    capacity: 10,
    running: 0,
    registeredAt: 1,
    generation: 2,
  };
  return { ...row, ...more };
}

const recovering: PoolState = { state: 'recovering', generation: 2 };
const rows = [aRow('w1'), aRow('w2', 'draining')];
const INBOXES = rows.map(({ session }) => session);

/** Everything was done, and the pool is to be opened. */
const DONE: Looked = {
  ...{ pool: recovering, rows, leaseMs: LEASE_MS, generation: 2, sinceMs: SETTLED_MS, isPutBack: true, above: 0 },
  ...{ empty: new Set([REQUESTS, REPORTS, ...INBOXES]), isReassigned: true, answered: new Set(INBOXES), isResumed: false },
};
const opened: PoolState = { state: 'open', generation: 2 };

interface Row {
  readonly when: string;
  readonly looked: Partial<Looked>;
  readonly step: RecoverStep;
}
const begin = (generation: number): RecoverStep => ({ step: 'begin', pool: { state: 'recovering', generation } });

const begins: readonly Row[] = [
  {
    when: 'nobody wrote a record of the pool yet',
    looked: { generation: undefined, pool: { state: 'open', generation: 1 }, rows: [] },
    step: begin(2),
  },
  { when: 'the pool is open', looked: { generation: undefined, pool: { state: 'open', generation: 7 } }, step: begin(8) },
  { when: 'the pool is closed', looked: { generation: undefined, pool: { state: 'closed', generation: 7 } }, step: begin(8) },
  {
    when: 'the record of the pool was put back too, and its workers were seen in a later generation',
    looked: { generation: undefined, pool: { state: 'open', generation: 1 }, rows: [aRow('w1', 'left', { generation: 5 }), aRow('w2')] },
    step: begin(6),
  },
  { when: 'somebody who died began', looked: { generation: undefined }, step: begin(2) },
  {
    when: 'somebody who died began, and the rows are of later generations',
    looked: { generation: undefined, rows: [aRow('w1', 'active', { generation: 3 })] },
    step: begin(4),
  },
  { when: 'somebody else began anew meanwhile', looked: { pool: { state: 'recovering', generation: 3 } }, step: begin(3) },
  { when: 'it was closed meanwhile', looked: { pool: { state: 'closed', generation: 2 } }, step: begin(3) },
  { when: 'it was closed and opened meanwhile', looked: { pool: { state: 'open', generation: 3 } }, step: begin(4) },
  { when: 'the record of the pool was put back meanwhile', looked: { pool: { state: 'open', generation: 1 } }, step: begin(3) },
  { when: 'somebody else opened it before the table was put back', looked: { pool: opened, isPutBack: false }, step: begin(3) },
  { when: 'the table was put back just now', looked: { generation: undefined, above: 2 }, step: begin(3) },
  {
    when: 'the table was put back just now, and somebody else has begun after that',
    looked: { generation: undefined, above: 2, pool: { state: 'recovering', generation: 3 } },
    step: begin(3),
  },
];

const settles: readonly Row[] = [
  { when: 'it began this moment', looked: { sinceMs: 0 }, step: { step: 'settle', forMs: SETTLED_MS, revoked: [] } },
  { when: 'a moment is left', looked: { sinceMs: SETTLED_MS - 1 }, step: { step: 'settle', forMs: 1, revoked: [] } },
  {
    when: 'the lease is so short that functions live longer',
    looked: { leaseMs: 3_000, rows: [], sinceMs: SETTLED_MS - 1 },
    step: { step: 'settle', forMs: 1, revoked: [] },
  },
  {
    when: 'the lease is long: a worker whose row is gone has it to find that out',
    looked: { leaseMs: 90_000, rows: [] },
    step: { step: 'settle', forMs: 60_000, revoked: [] },
  },
  {
    when: 'a worker registered with a longer lease than the pool has now',
    looked: { rows: [aRow('w1', 'lost', { leaseMs: 90_000 })] },
    step: { step: 'settle', forMs: 60_000, revoked: [] },
  },
  {
    when: 'a worker was evicted, and its lease is not known to be over',
    looked: { rows: [...rows, aRow('w3', 'revoked')] },
    step: { step: 'settle', forMs: 0, revoked: ['w3'] },
  },
];

const without = (...queues: readonly string[]) => new Set([...DONE.empty].filter((queue) => !queues.includes(queue)));
const goesOn: readonly Row[] = [
  ...settles,
  { when: 'the table is to be put back', looked: { isPutBack: false, empty: new Set(), answered: new Set() }, step: { step: 'put back' } },
  { when: 'no inbox was seen empty', looked: { empty: without(...INBOXES) }, step: { step: 'empty', queues: INBOXES } },
  { when: 'jobs may name a worker without a row', looked: { isReassigned: false }, step: { step: 'reassign' } },
  { when: 'no worker answered', looked: { answered: new Set() }, step: { step: 'ask', rows } },
  { when: 'one worker answered', looked: { answered: new Set(['s-w1']) }, step: { step: 'ask', rows: rows.slice(1) } },
  {
    when: 'a worker registered meanwhile: its inbox first',
    looked: { rows: [...rows, aRow('w3')] },
    step: { step: 'empty', queues: ['s-w3'] },
  },
  {
    when: 'a worker registered meanwhile, under an id that answered before',
    looked: { rows: [aRow('w1', 'active', { session: 'later' })], empty: new Set([...DONE.empty, 'later']) },
    step: { step: 'ask', rows: [aRow('w1', 'active', { session: 'later' })] },
  },
  {
    when: 'what was answered may still be on the report queue',
    looked: { empty: without(REPORTS) },
    step: { step: 'empty', queues: [REPORTS] },
  },
  {
    when: 'what came of it may still be on the request queue',
    looked: { empty: without(REQUESTS) },
    step: { step: 'empty', queues: [REQUESTS] },
  },
  {
    when: 'a request may be waiting for the record of what a worker was not asked about yet',
    looked: { empty: without(REQUESTS, REPORTS), answered: new Set() },
    step: { step: 'ask', rows },
  },
  { when: 'all of it was done', looked: {}, step: { step: 'open', pool: opened } },
  { when: 'there is no worker', looked: { rows: [] }, step: { step: 'open', pool: opened } },
  { when: 'it is open, and not everybody knows', looked: { pool: opened, sinceMs: 0 }, step: { step: 'tell', forMs: CACHE_MS } },
  { when: 'everybody knows', looked: { pool: opened, sinceMs: CACHE_MS }, step: { step: 'resume' } },
  { when: 'starts that were out were sent again', looked: { pool: opened, sinceMs: CACHE_MS, isResumed: true }, step: { step: 'done' } },
];

describe('what comes next in a recovery', () => {
  test.for([...begins, ...goesOn])('$when: $step.step', ({ looked, step }) => {
    expect(decideRecover({ ...DONE, ...looked })).toEqual(step);
  });

  const asked: Readonly<Record<WorkerRow['state'], RecoverStep['step']>> = {
    ...{ active: 'ask', draining: 'ask', revoked: 'settle', lost: 'open', left: 'open' },
  };
  test.for(Object.entries(asked))('a worker whose row is %s: %s', ([state, step]) => {
    const row = aRow('w3', state as WorkerRow['state']);
    expect(decideRecover({ ...DONE, rows: [row], empty: new Set([...DONE.empty, row.session]) }).step).toBe(step);
  });

  test.for<[Readonly<Record<string, number>>, boolean]>([
    [{}, true],
    [{ 'entry agrees': 3 }, true],
    [{ 'still open': 0, 'entry agrees': 3 }, true],
    [{ 'still open': 1, 'entry agrees': 3 }, false],
  ])('an answer with %j leaves nothing open: %s', ([counts, conclusive]) => {
    expect(isConclusive({ counts })).toBe(conclusive);
  });
});

const generation = fc.integer({ min: 1, max: 4 });
const aLook: fc.Arbitrary<Looked> = fc
  .record({
    pool: fc.record({ state: fc.constantFrom('open', 'closed', 'recovering'), generation }),
    rows: fc.uniqueArray(
      fc
        .tuple(fc.constantFrom('w1', 'w2', 'w3'), fc.constantFrom('active', 'draining', 'revoked', 'lost', 'left'), generation)
        .map(([id, state, of]) => aRow(id, state as WorkerRow['state'], { generation: of })),
      { selector: ({ workerId }) => workerId },
    ),
    generation: fc.option(generation, { nil: undefined }),
    sinceMs: fc.constantFrom(0, CACHE_MS, SETTLED_MS),
    isPutBack: fc.boolean(),
    above: fc.constantFrom(0, 1, 2, 3),
    empty: fc.subarray([REQUESTS, REPORTS, 's-w1', 's-w2', 's-w3']).map((queues) => new Set(queues)),
    isReassigned: fc.boolean(),
    answered: fc.subarray(['s-w1', 's-w2', 's-w3']).map((sessions) => new Set(sessions)),
    isResumed: fc.boolean(),
  })
  .map((look): Looked => ({ ...look, leaseMs: LEASE_MS, pool: look.pool as PoolState }));

describe('whatever is looked at', () => {
  test('the pool is opened only in its own recovery, with nothing left to take, put back, ask or handle', () => {
    fc.assert(
      fc.property(aLook, (look) => {
        const next = decideRecover(look);
        if (next.step !== 'open') return;
        const present = look.rows.filter(({ state }) => state === 'active' || state === 'draining');
        expect(look.pool).toEqual({ state: 'recovering', generation: look.generation });
        expect(next.pool).toEqual({ state: 'open', generation: look.generation });
        expect(look).toMatchObject({ isPutBack: true, isReassigned: true, sinceMs: SETTLED_MS });
        expect(look.rows.some(({ state }) => state === 'revoked')).toBe(false);
        for (const queue of [REQUESTS, REPORTS, ...present.map(({ session }) => session)]) expect(look.empty).toContain(queue);
        for (const { session } of present) expect(look.answered).toContain(session);
      }),
    );
  });

  test('it is begun in no generation below one that was seen, nor in one in which the table was not put back yet', () => {
    fc.assert(
      fc.property(aLook, (look) => {
        const next = decideRecover(look);
        if (next.step !== 'begin') return;
        for (const seen of [look.pool.generation, ...look.rows.map(({ generation: of = 0 }) => of)]) {
          expect(next.pool.generation).toBeGreaterThanOrEqual(seen);
        }
        if (look.pool.state !== 'recovering') expect(next.pool.generation).toBeGreaterThan(look.pool.generation);
        expect(next.pool.generation).toBeGreaterThan(look.above);
        // Whoever finds it written goes on from there.
        const then = decideRecover({ ...look, pool: next.pool, generation: next.pool.generation });
        expect(then.step).not.toBe('begin');
      }),
    );
  });
});

describe('the jobs of a worker that is gone', () => {
  /** A recovery in which all queues are empty and each round is answered at once, up to the step. */
  async function recovers(from: readonly WorkerRow[]) {
    let pool: PoolState = { state: 'open', generation: 1 };
    let now = 0;
    let rows = from;
    const assigned: string[] = [];
    const empty = async () => ({ waiting: 0, taken: 0 });
    const resolved = { state: 'resolved', skipped: 0, counts: {} } as Round;
    const recovery = new Recovery(
      {
        pool: {
          get: async () => pool,
          async change(_, next) {
            pool = next;
            return true;
          },
        },
        gauges: { requests: empty, reports: empty, inbox: empty },
        workers: { change: async () => undefined },
        rows: async () => rows,
        owned: async () => ({ items: [...from, aRow('before')].map(({ workerId }) => ({ key: `of ${workerId}`, worker: workerId })) }),
        pendingKeys: async () => ({ items: [] }),
        jobs: async () => new Map(),
        rounds: { get: async (token) => ({ ...resolved, token }) },
        machine: {
          async start(token, { worker }) {
            rows = rows.map((row) => (row.workerId === worker ? { ...row, round: token } : row));
          },
        },
        requests: {
          async send(requests) {
            assigned.push(...requests.map(({ key }) => key));
          },
        },
        clock: { now: () => (now += 1_000) },
      },
      { leaseMs: LEASE_MS },
    );
    return {
      assigned,
      goes: (workerId: string) => {
        rows = rows.map((row) => (row.workerId === workerId ? { ...row, state: 'left' } : row));
      },
      async until(step: RecoverStep['step']): Promise<void> {
        while (recovery.progress?.step.step !== step) await recovery.pass();
      },
    };
  }

  test('are reassigned before the pool is opened, though it went after those of the others were (G5)', async () => {
    const { assigned, goes, until } = await recovers([aRow('w1'), aRow('w2')]);
    await until('ask');
    expect(assigned).toEqual(['of before']);
    goes('w1');
    await until('open');
    expect(assigned).toEqual(['of before', 'of w1', 'of before']);
  });

  test('are looked at once, where nobody goes meanwhile', async () => {
    const { assigned, until } = await recovers([aRow('w1'), aRow('w2')]);
    await until('open');
    expect(assigned).toEqual(['of before']);
  });
});
