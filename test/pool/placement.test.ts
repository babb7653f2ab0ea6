import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { placeKey } from '../../lib/pool/placement.ts';
import type { WorkerRow } from '../../lib/pool/worker.ts';
import { worker } from '../../protocol/cast.ts';

const GENERATION = 2;
const STATES = ['active', 'draining', 'revoked', 'lost', 'left'] as const;

const key = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const workerId = fc.oneof(fc.nat({ max: 12 }).map(String), fc.string({ minLength: 1, maxLength: 6 }));

/** Mostly eligible, each with its own session. */
const row: fc.Arbitrary<WorkerRow> = fc
  .record({
    workerId,
    state: fc.oneof({ weight: 4, arbitrary: fc.constant('active' as const) }, fc.constantFrom(...STATES)),
    generation: fc.oneof({ weight: 6, arbitrary: fc.constant(GENERATION) }, fc.constantFrom(1, 3, undefined)),
    capacity: fc.integer({ min: 1, max: 500 }),
    room: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.constantFrom(0, -1)),
  })
  .map(({ workerId: id, generation, room, ...rest }) => {
    const { generation: _, ...unstamped } = worker(id, `session of ${id}`, { ...rest, running: rest.capacity - room });
    return generation === undefined ? unstamped : { ...unstamped, generation };
  });
const rows = fc.uniqueArray(row, { maxLength: 8, selector: (each) => each.workerId });
const avoid = fc.option(workerId, { nil: undefined });

function place(name: string, workers: readonly WorkerRow[], avoided?: string) {
  return placeKey(name, workers, { generation: GENERATION, ...(avoided === undefined ? {} : { avoid: avoided }) });
}

function mayTake({ state, generation, running, capacity }: WorkerRow): boolean {
  return state === 'active' && generation === GENERATION && running < capacity;
}

function inAnyOrder(workers: readonly WorkerRow[]): fc.Arbitrary<WorkerRow[]> {
  return fc.shuffledSubarray([...workers], { minLength: workers.length });
}

describe('a key', () => {
  test('goes to a worker that may take it, and to none only where none may', () => {
    fc.assert(
      fc.property(key, rows, avoid, (name, workers, avoided) => {
        const owner = place(name, workers, avoided);
        const taker = workers.find((each) => each.workerId === owner?.worker);
        expect(owner !== undefined).toBe(workers.some(mayTake));
        if (!owner) return;
        expect(taker && mayTake(taker)).toBe(true);
        expect(owner.session).toBe(taker?.session);
      }),
    );
  });

  test.for([
    ['drains', { state: 'draining' }],
    ['was revoked', { state: 'revoked' }],
    ['is lost', { state: 'lost' }],
    ['left', { state: 'left' }],
    ['is of another generation', { generation: GENERATION - 1 }],
    ['is at its capacity', { running: 10 }],
    ['is over its capacity', { running: 11 }],
  ] as const)('never goes to a worker that %s, though it is the only one', ([, more]) => {
    const only = worker('w1', 's1', { generation: GENERATION, ...more });
    for (let i = 0; i < 100; i++) expect(place(`key ${i}`, [only])).toBeUndefined();
  });

  test('goes to the same worker in whatever order they are listed', () => {
    const listings = rows.chain((workers) => fc.tuple(fc.constant(workers), inAnyOrder(workers)));
    fc.assert(
      fc.property(key, listings, avoid, (name, [workers, listedOtherwise], avoided) => {
        expect(place(name, listedOtherwise, avoided)).toEqual(place(name, workers, avoided));
      }),
    );
  });

  test('goes where it went in every version', () => {
    const three = ['w1', 'w2', 'w3'].map((id) => worker(id, id, { generation: GENERATION }));
    const keys = ['a', 'tenant:17', '\u00e9', '\u{1f600}', ' ', '0'];
    expect(keys.map((name) => place(name, three)?.worker)).toEqual(['w1', 'w2', 'w3', 'w3', 'w2', 'w3']);
  });
});

describe('a change of the workers', () => {
  test('one more moves only keys that land on it', () => {
    fc.assert(
      fc.property(key, rows, row, avoid, (name, workers, added, avoided) => {
        fc.pre(workers.every((each) => each.workerId !== added.workerId));
        const [before, after] = [place(name, workers, avoided), place(name, [...workers, added], avoided)];
        if (after?.worker !== added.workerId) expect(after).toEqual(before);
      }),
    );
  });

  test('one less moves only its own keys', () => {
    fc.assert(
      fc.property(key, rows, fc.nat(), avoid, (name, workers, pick, avoided) => {
        const gone = workers[pick % workers.length];
        const before = place(name, workers, avoided);
        fc.pre(before?.worker !== gone?.workerId);
        const without = workers.filter((each) => each !== gone);
        expect(place(name, without, avoided)).toEqual(before);
      }),
    );
  });

  test('one that may take no more gives away only its own keys', () => {
    const closing = fc.constantFrom<Partial<WorkerRow>>({ state: 'draining' }, { running: 500 }, { generation: 1 });
    fc.assert(
      fc.property(key, rows, fc.nat(), closing, (name, workers, pick, more) => {
        const full = workers[pick % workers.length];
        const before = place(name, workers);
        fc.pre(before?.worker !== full?.workerId);
        const changed = workers.map((each) => (each === full ? { ...each, ...more } : each));
        expect(place(name, changed)).toEqual(before);
      }),
    );
  });

  test('a larger capacity draws keys to that worker and moves no others', () => {
    fc.assert(
      fc.property(key, rows, fc.nat(), fc.integer({ min: 1, max: 500 }), (name, workers, pick, more) => {
        const grown = workers[pick % workers.length];
        fc.pre(grown !== undefined);
        const changed = workers.map((each) =>
          each === grown ? { ...each, capacity: each.capacity + more, running: each.running + more } : each,
        );
        const [before, after] = [place(name, workers), place(name, changed)];
        if (before?.worker === grown.workerId || after?.worker !== grown.workerId) expect(after).toEqual(before);
      }),
    );
  });
});

test('each worker gets a share of the keys in proportion to its capacity', () => {
  const capacities = [1, 2, 4, 8, 16];
  const whole = capacities.reduce((sum, capacity) => sum + capacity);
  const workers = capacities.map((capacity, index) => worker(`worker-${index}`, `s${index}`, { capacity, generation: GENERATION }));
  const keys = 20_000;
  const taken = new Map<string | undefined, number>();
  for (let i = 0; i < keys; i++) {
    const owner = place(`tenant:${i}`, workers)?.worker;
    taken.set(owner, (taken.get(owner) ?? 0) + 1);
  }
  for (const { workerId: id, capacity } of workers) {
    const share = capacity / whole;
    const deviation = Math.sqrt(keys * share * (1 - share));
    expect(Math.abs((taken.get(id) ?? 0) - keys * share)).toBeLessThan(5 * deviation);
  }
});

describe('the worker that just failed a job', () => {
  test('gets it again only where no other may take it', () => {
    fc.assert(
      fc.property(key, rows, workerId, (name, workers, avoided) => {
        const owner = place(name, workers, avoided);
        const others = workers.filter((each) => each.workerId !== avoided);
        if (others.some(mayTake)) expect(owner).toEqual(place(name, others));
        else expect(owner).toEqual(place(name, workers));
      }),
    );
  });
});

describe('a job that may go to one worker session only', () => {
  const gone = fc.constantFrom('lost', 'left', 'of another session', 'without a row');
  const bound = (workers: readonly WorkerRow[], pick: number) => workers[pick % workers.length];

  test('goes there or nowhere while that session may still be alive', () => {
    fc.assert(
      fc.property(key, rows, fc.nat(), avoid, (name, workers, pick, avoided) => {
        const holder = bound(workers, pick);
        fc.pre(holder !== undefined && holder.state !== 'lost' && holder.state !== 'left');
        const only = { worker: holder.workerId, session: holder.session };
        const rules = { generation: GENERATION, only, ...(avoided === undefined ? {} : { avoid: avoided }) };
        expect(placeKey(name, workers, rules)).toEqual(mayTake(holder) ? only : undefined);
      }),
    );
  });

  test('goes anywhere once that session is lost, left, replaced or without a row', () => {
    fc.assert(
      fc.property(key, rows, fc.nat(), gone, (name, workers, pick, how) => {
        const holder = bound(workers, pick);
        fc.pre(holder !== undefined);
        const only = { worker: holder.workerId, session: how === 'of another session' ? 'an older one' : holder.session };
        const seen = workers.flatMap((each) => {
          if (each !== holder || how === 'of another session') return [each];
          return how === 'without a row' ? [] : [{ ...each, state: how as 'lost' | 'left' }];
        });
        expect(placeKey(name, seen, { generation: GENERATION, only })).toEqual(place(name, seen));
      }),
    );
  });
});
