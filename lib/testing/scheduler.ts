import type { EpochMs } from '../pool/job.ts';
import type { Clock, Timer } from '../pool/ports.ts';

/**
 * Virtual time, and the order of everything that happens in it.
 *
 * Whatever would take time or go over a network is put here to run at a moment; one step runs one of them, then everything
 * that follows from it without waiting. Between two steps nothing is going on, so a run is the sequence of its steps: with the
 * same `order`, the same one. Time stands still but for stepping; no real timer is involved.
 */
export class Scheduler implements Clock, Timer {
  #now: EpochMs;
  #sequence = 0;
  readonly #order: () => number;
  readonly #heap: Item[] = [];

  /** `order` draws lots between what is due at the same moment; by default the first put is the first run. */
  constructor({ startsAt = 1_900_000_000_000, order = () => 0 }: { readonly startsAt?: EpochMs; readonly order?: () => number } = {}) {
    this.#now = startsAt;
    this.#order = order;
  }

  now(): EpochMs {
    return this.#now;
  }

  after(delayMs: number, run: () => void): () => void {
    const item: Item = { at: this.#now + Math.max(0, delayMs), lot: this.#order(), sequence: ++this.#sequence, run };
    push(this.#heap, item);
    return () => {
      item.run = undefined;
    };
  }

  /** When the next thing is to happen; undefined: nothing ever. */
  get nextAt(): EpochMs | undefined {
    while (this.#heap[0] && !this.#heap[0].run) pop(this.#heap);
    return this.#heap[0]?.at;
  }

  /** Runs the next thing, where one is due by `until`; the clock goes on to its moment. */
  async step(until = Number.POSITIVE_INFINITY): Promise<boolean> {
    const at = this.nextAt;
    if (at === undefined || at > until) return false;
    const item = pop(this.#heap) as Item;
    this.#now = Math.max(this.#now, at);
    const { run } = item;
    item.run = undefined;
    run?.();
    await drained();
    return true;
  }

  /** Until nothing is due now. */
  async settle(): Promise<void> {
    await this.advance(0);
  }

  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await drained();
    while (await this.step(until));
    this.#now = until;
  }

  /** Moves the clock without running anything. */
  skipTo(at: EpochMs): void {
    this.#now = Math.max(this.#now, at);
  }
}

// Taken at load, so that a test's fake timers do not reach it.
const immediately = setImmediate;

/** Once every promise that can go on without waiting has done so. */
export function drained(): Promise<void> {
  return new Promise((resolve) => {
    immediately(resolve);
  });
}

interface Item {
  readonly at: EpochMs;
  readonly lot: number;
  readonly sequence: number;
  run: (() => void) | undefined;
}

function isBefore(one: Item, other: Item): boolean {
  if (one.at !== other.at) return one.at < other.at;
  return one.lot === other.lot ? one.sequence < other.sequence : one.lot < other.lot;
}

// A binary heap: the least item stands first, each at `i` before those at `2i + 1` and `2i + 2`.

function push(heap: Item[], item: Item): void {
  let at = heap.push(item) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!isBefore(item, heap[parent] as Item)) break;
    heap[at] = heap[parent] as Item;
    at = parent;
  }
  heap[at] = item;
}

function pop(heap: Item[]): Item | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (!first || !last || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    if (left >= heap.length) break;
    const right = left + 1;
    const child = right < heap.length && isBefore(heap[right] as Item, heap[left] as Item) ? right : left;
    if (!isBefore(heap[child] as Item, last)) break;
    heap[at] = heap[child] as Item;
    at = child;
  }
  heap[at] = last;
  return first;
}
