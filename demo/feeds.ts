import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { endOfFeed } from '../examples/follow/feed.ts';
import type { Random } from '../lib/testing/random.ts';
import type { Feed } from './scenario.ts';

const tickMs = 50;

/** Whoever the feeds come from: appends lines to files until each is finished, and now and then tears a line in two writes. */
export class Feeds implements Disposable {
  readonly #random: Random;
  readonly #timer: NodeJS.Timeout;
  /** What is open: lines begun, and the bytes of the last one that are still to come. */
  readonly #open = new Map<Feed, { begun: number; rest?: Buffer }>();

  constructor(feeds: readonly Feed[], linesPerSecond: number, random: Random) {
    this.#random = random;
    for (const feed of feeds) {
      mkdirSync(dirname(feed.file), { recursive: true });
      writeFileSync(feed.file, '');
      this.#open.set(feed, { begun: 0 });
    }
    const perTick = Math.max(1, Math.round((linesPerSecond * tickMs) / 1_000));
    this.#timer = setInterval(() => this.#writeLines(perTick), tickMs);
  }

  /** Completes the last line of a feed and writes to it no more; with `endOfFeed`, says that it is over. */
  finish(feed: Feed, how: 'is-over' | 'falls-silent'): void {
    const state = this.#open.get(feed);
    if (!state) return;
    this.#open.delete(feed);
    appendFileSync(feed.file, state.rest ?? '');
    if (how === 'is-over') appendFileSync(feed.file, `${endOfFeed}\n`);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #writeLines(count: number): void {
    const open = [...this.#open.keys()];
    for (let i = 0; i < count && open.length > 0; i += 1) this.#append(this.#random.pick(open));
  }

  #append(feed: Feed): void {
    const state = this.#open.get(feed);
    if (!state) return;
    if (state.rest) {
      appendFileSync(feed.file, state.rest);
      state.rest = undefined;
      return;
    }
    state.begun += 1;
    const bytes = Buffer.from(`${feed.key} ${state.begun} ☃${'.'.repeat(this.#random.below(60))}\n`);
    // Anywhere, in the middle of a character too.
    const cut = this.#random.chance(0.1) ? this.#random.between(1, bytes.length - 1) : bytes.length;
    appendFileSync(feed.file, bytes.subarray(0, cut));
    if (cut < bytes.length) state.rest = bytes.subarray(cut);
  }
}

/** The lines that a feed has, without the one that ends it. */
export function linesIn(feed: Feed): readonly string[] {
  const lines = readFileSync(feed.file, 'utf8').split('\n').slice(0, -1);
  return lines.at(-1) === endOfFeed ? lines.slice(0, -1) : lines;
}
