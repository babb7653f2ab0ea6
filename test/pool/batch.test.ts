import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Delivery, LAST_RECEIVE, processBatch, retryDelayMs } from '../../lib/pool/batch.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Telemetry } from '../../lib/pool/ports.ts';

type Fate = 'handled' | 'fails' | 'hopeless' | 'not permitted' | 'no pool';

interface How {
  readonly receiveCount?: number;
  /** By default the first letter of its id; null: it is of a standard queue. */
  readonly group?: string | null;
}

function deliveryOf(id: string, { receiveCount = 1, group = id.charAt(0) }: How = {}): Delivery {
  return { id, body: id, receiveCount, ...(group === null ? {} : { group }) };
}

function setup(fates: { readonly [id: string]: Fate } = {}) {
  const consumed: string[] = [];
  const retried = new Map<string, number>();
  const deadLettered = new Map<string, string>();
  const failed: string[] = [];
  const counts: string[] = [];
  const held = new Map<string, PromiseWithResolvers<void>>();
  const brokenPorts = new Set<'retryAfter' | 'deadLetter'>();

  async function consume({ id }: Delivery): Promise<void> {
    consumed.push(id);
    await held.get(id)?.promise;
    switch (fates[id]) {
      case 'fails':
        throw new PoolError('throttled', `${id} was throttled`, { retryable: true });
      case 'hopeless':
        throw new PoolError('invalid-request', `${id} is not JSON`, { retryable: false });
      case 'not permitted':
        throw new PoolError('not-permitted', `${id}: no grant`, { retryable: false });
      case 'no pool':
        throw new PoolError('no-such-pool', `${id}: no table`, { retryable: false });
      case 'handled':
      case undefined:
        return;
      default:
        return fates[id] satisfies never;
    }
  }
  const telemetry: Telemetry = {
    decided() {},
    count: (name) => counts.push(name),
    gauge() {},
    failed: ({ message }) => failed.push(message),
  };
  const source = {
    async retryAfter({ id }: Delivery, delayMs: number): Promise<void> {
      if (brokenPorts.has('retryAfter')) throw new PoolError('throttled', 'retryAfter', { retryable: true });
      retried.set(id, delayMs);
    },
    async deadLetter({ id }: Delivery, reason: string): Promise<void> {
      if (brokenPorts.has('deadLetter')) throw new PoolError('throttled', 'deadLetter', { retryable: true });
      deadLettered.set(id, reason);
    },
  };
  return {
    consumed,
    retried,
    deadLettered,
    failed,
    counts,
    brokenPorts,
    process: (...deliveries: readonly Delivery[]) => processBatch(deliveries, consume, source, telemetry),
    processWith: (other: typeof consume, ...deliveries: readonly Delivery[]) => processBatch(deliveries, other, source, telemetry),
    /** Its consumption does not end before it is let go. */
    hold(id: string): () => void {
      const gate = Promise.withResolvers<void>();
      held.set(id, gate);
      return gate.resolve;
    },
  };
}

/** Whatever can go on without being let go has done so. */
function drained(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe('a failure', () => {
  test('stops the rest of its own key and nothing else (F15)', async () => {
    const batch = setup({ k1: 'fails' });
    const kept = await batch.process(deliveryOf('k1'), deliveryOf('k2'), deliveryOf('m1'));
    expect(kept).toEqual(['k1', 'k2']);
    expect(batch.consumed).toEqual(['k1', 'm1']);
  });

  test('of a later message leaves the earlier ones of its key handled', async () => {
    const batch = setup({ k2: 'fails' });
    expect(await batch.process(deliveryOf('k1'), deliveryOf('k2'), deliveryOf('k3'))).toEqual(['k2', 'k3']);
    expect(batch.consumed).toEqual(['k1', 'k2']);
  });

  test('on a standard queue keeps that message alone', async () => {
    const batch = setup({ k1: 'fails' });
    const alone = { group: null };
    expect(await batch.process(deliveryOf('k1', alone), deliveryOf('k2', alone))).toEqual(['k1']);
    expect(batch.consumed).toEqual(['k1', 'k2']);
  });

  test('lets those behind it wait no longer than it waits itself (F15)', async () => {
    const batch = setup({ k1: 'fails' });
    await batch.process(deliveryOf('k1', { receiveCount: 3 }), deliveryOf('k2', { receiveCount: 9 }));
    expect([...batch.retried]).toEqual([
      ['k1', 4_000],
      ['k2', 4_000],
    ]);
  });

  test('that cannot even be put off keeps its message all the same', async () => {
    const batch = setup({ k1: 'fails' });
    batch.brokenPorts.add('retryAfter');
    expect(await batch.process(deliveryOf('k1'), deliveryOf('m1'))).toEqual(['k1']);
  });

  test('of a kind that nobody foresaw is tried again', async () => {
    for (const thrown of [new TypeError('x is not a function'), 'a string', undefined]) {
      const batch = setup();
      const kept = await batch.processWith(() => Promise.reject(thrown), deliveryOf('k1'));
      expect(kept).toEqual(['k1']);
      expect(batch.deadLettered.size).toBe(0);
    }
  });

  test('is told once, with the receive it was', async () => {
    const batch = setup({ k1: 'fails', m1: 'hopeless' });
    await batch.process(deliveryOf('k1'), deliveryOf('k2'), deliveryOf('m1'));
    expect(batch.failed).toEqual(['k1', 'm1']);
  });
});

test('a message waits 1 s × 2^k for its next try, and never more than a minute', () => {
  const seconds = Array.from({ length: LAST_RECEIVE }, (_, index) => retryDelayMs(index + 1) / 1_000);
  expect(seconds.slice(0, 8)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  expect(seconds.slice(8).every((delay) => delay === 60)).toBe(true);
});

describe('order', () => {
  test('within a key is kept, while other keys go on beside it', async () => {
    const batch = setup();
    const letGo = batch.hold('a1');
    const done = batch.process(...['a1', 'b1', 'a2', 'b2'].map((id) => deliveryOf(id)));
    await drained();
    expect(batch.consumed).toEqual(['a1', 'b1', 'b2']);
    letGo();
    expect(await done).toEqual([]);
    expect(batch.consumed).toEqual(['a1', 'b1', 'b2', 'a2']);
  });

  test("on a standard queue is nobody's: all go on side by side", async () => {
    const batch = setup();
    const letGo = batch.hold('a1');
    const done = batch.process(...['a1', 'a2', 'a3'].map((id) => deliveryOf(id, { group: null })));
    await drained();
    expect(batch.consumed).toEqual(['a1', 'a2', 'a3']);
    letGo();
    await done;
  });
});

describe('a message that no retry can mend', () => {
  test('is dead-lettered at once with its reason, and those behind it are handled', async () => {
    const batch = setup({ k1: 'hopeless' });
    expect(await batch.process(deliveryOf('k1'), deliveryOf('k2'))).toEqual([]);
    expect([...batch.deadLettered]).toEqual([['k1', 'k1 is not JSON']]);
    expect(batch.consumed).toEqual(['k1', 'k2']);
    expect(batch.counts).toEqual(['dead-lettered']);
  });

  test('stays on its queue where the dead-letter queue does not take it, and those behind it stay too', async () => {
    const batch = setup({ k1: 'hopeless' });
    batch.brokenPorts.add('deadLetter');
    expect(await batch.process(deliveryOf('k1'), deliveryOf('k2'), deliveryOf('m1'))).toEqual(['k1', 'k2']);
    expect(batch.consumed).toEqual(['k1', 'm1']);
    expect(batch.counts).toEqual([]);
  });
});

describe('a message that fails', () => {
  test('is dead-lettered by the function at its last receive, so that it takes no healthy neighbour along', async () => {
    const batch = setup({ k1: 'fails' });
    const kept = await batch.process(deliveryOf('k1', { receiveCount: LAST_RECEIVE }), deliveryOf('k2', { receiveCount: LAST_RECEIVE }));
    expect(kept).toEqual([]);
    expect([...batch.deadLettered]).toEqual([['k1', 'k1 was throttled']]);
    expect(batch.consumed).toEqual(['k1', 'k2']);
  });

  test('is tried again at the receive before', async () => {
    const batch = setup({ k1: 'fails' });
    expect(await batch.process(deliveryOf('k1', { receiveCount: LAST_RECEIVE - 1 }))).toEqual(['k1']);
    expect(batch.deadLettered.size).toBe(0);
  });

  test('past its last receive, for the dead-letter queue was away then, is dead-lettered now', async () => {
    const batch = setup({ k1: 'fails' });
    expect(await batch.process(deliveryOf('k1', { receiveCount: LAST_RECEIVE + 1 }))).toEqual([]);
    expect(batch.deadLettered.has('k1')).toBe(true);
  });
});

describe('where the function is not permitted to do its work', () => {
  test.each([
    ['not permitted', 'not-permitted'],
    ['no pool', 'no-such-pool'],
  ] as const)('the batch fails whole, and no message is blamed for it: %s', async (fate, code) => {
    const batch = setup({ k1: fate });
    const process = batch.process(deliveryOf('k1', { receiveCount: LAST_RECEIVE }), deliveryOf('m1'));
    await expect(process).rejects.toMatchObject({ code });
    expect(batch.deadLettered.size).toBe(0);
    expect(batch.retried.size).toBe(0);
  });

  test('it fails only once every key came to rest, for what still writes would be frozen in the middle of it', async () => {
    const batch = setup({ k1: 'not permitted' });
    const letGo = batch.hold('m1');
    let isOver = false;
    const process = batch.process(deliveryOf('k1'), deliveryOf('k2'), deliveryOf('m1'), deliveryOf('m2')).catch((error: PoolError) => {
      isOver = true;
      return error.code;
    });
    await drained();
    expect(isOver).toBe(false);
    letGo();
    expect(await process).toBe('not-permitted');
    expect(batch.consumed).toEqual(['k1', 'm1', 'm2']);
  });
});

test('any batch: each key is handled in order up to the first message that has to stay', async () => {
  const messages = fc.array(
    fc.record({
      group: fc.constantFrom('a', 'b', 'c', null),
      fate: fc.constantFrom<Fate>('handled', 'handled', 'handled', 'fails', 'hopeless'),
      receiveCount: fc.constantFrom(1, 2, LAST_RECEIVE - 1, LAST_RECEIVE, LAST_RECEIVE + 1),
    }),
    { maxLength: 10 },
  );
  await fc.assert(
    fc.asyncProperty(messages, fc.boolean(), async (all, deadLetterWorks) => {
      const deliveries = all.map(({ group, receiveCount }, index) => deliveryOf(`m${index}`, { group, receiveCount }));
      const batch = setup(Object.fromEntries(all.map(({ fate }, index) => [`m${index}`, fate])));
      if (!deadLetterWorks) batch.brokenPorts.add('deadLetter');
      const kept = await batch.process(...deliveries);

      const isGivenUp = ({ fate, receiveCount }: (typeof all)[number]) =>
        fate === 'hopeless' || (fate === 'fails' && receiveCount >= LAST_RECEIVE);
      const stays = all.map((each) => each.fate !== 'handled' && !(deadLetterWorks && isGivenUp(each)));
      const firstToStay = (group: string) => all.findIndex((each, index) => each.group === group && stays[index]);
      const isKept = all.map(({ group }, index) => {
        if (group === null) return stays[index] === true;
        return firstToStay(group) >= 0 && index >= firstToStay(group);
      });
      const isTried = all.map(({ group }, index) => group === null || firstToStay(group) < 0 || index <= firstToStay(group));
      const ids = (which: readonly boolean[]) => deliveries.filter((_, index) => which[index]).map(({ id }) => id);

      expect(kept).toEqual(ids(isKept));
      expect([...batch.retried.keys()].sort()).toEqual([...kept].sort());
      expect([...batch.consumed].sort()).toEqual(ids(isTried).sort());
      expect([...batch.deadLettered.keys()].sort()).toEqual(
        ids(all.map((each, index) => isTried[index] === true && deadLetterWorks && isGivenUp(each))).sort(),
      );
      for (const group of ['a', 'b', 'c']) {
        const inOrder = deliveries.filter((each) => each.group === group && batch.consumed.includes(each.id)).map(({ id }) => id);
        expect(batch.consumed.filter((id) => inOrder.includes(id))).toEqual(inOrder);
      }
    }),
  );
});
