import type { Commit } from '../pool/ports.ts';
import type { AppliedPage, RoundStore } from '../resync/ports.ts';
import type { AskedPage, Round } from '../resync/round.ts';
import { frozen } from './frozen.ts';

/** Rounds and what they ask, as DynamoDB keeps them. */
export class MemoryRounds implements RoundStore {
  readonly #rounds = new Map<string, Round>();
  readonly #pages = new Map<string, AskedPage>();

  async get(token: string): Promise<Round | undefined> {
    return this.#rounds.get(token);
  }

  async open(round: Round): Promise<void> {
    this.#rounds.set(round.token, round);
  }

  async ask(pages: readonly AskedPage[]): Promise<void> {
    for (const page of pages) {
      const name = `${page.token} ${page.page}`;
      if (!this.#pages.has(name)) this.#pages.set(name, frozen(page));
    }
  }

  async page(token: string, page: number): Promise<AskedPage | undefined> {
    return this.#pages.get(`${token} ${page}`);
  }

  async arm(token: string, armed: Parameters<RoundStore['arm']>[1]): Promise<Commit<Round>> {
    const current = this.#rounds.get(token);
    if (!current || !isOpen(current)) return current ? { outcome: 'lost', current } : { outcome: 'lost' };
    this.#rounds.set(token, { ...current, ...armed, state: 'armed' });
    return { outcome: 'won' };
  }

  async apply(token: string, { page, pages, skipped, counts }: AppliedPage): ReturnType<RoundStore['apply']> {
    const round = this.#rounds.get(token);
    if (!round) return { outcome: 'lost' };
    if (round.state !== 'armed' || round.applied.has(page)) return { outcome: 'lost', current: round };
    const summed = { ...round.counts };
    for (const [rule, count] of Object.entries(counts)) summed[rule] = (summed[rule] ?? 0) + count;
    const current = { ...round, pages, applied: new Set([...round.applied, page]), skipped: round.skipped + skipped, counts: summed };
    this.#rounds.set(token, current);
    return { outcome: 'won', current };
  }

  async extend(token: string, deadline: number): Promise<void> {
    const round = this.#rounds.get(token);
    if (round && isOpen(round)) this.#rounds.set(token, { ...round, deadline });
  }

  async close(token: string, to: 'resolved' | 'closed'): ReturnType<RoundStore['close']> {
    const round = this.#rounds.get(token);
    if (!round) return { outcome: 'lost' };
    if (!isOpen(round)) return { outcome: 'lost', current: round };
    const current = { ...round, state: to };
    this.#rounds.set(token, current);
    return { outcome: 'won', current };
  }

  /** Rounds and pages as they are now; calling it puts them back as they were. */
  backup(): () => void {
    const [rounds, pages] = [new Map(this.#rounds), new Map(this.#pages)];
    return () => {
      for (const token of this.#rounds.keys()) this.#rounds.delete(token);
      for (const name of this.#pages.keys()) this.#pages.delete(name);
      for (const [token, round] of rounds) this.#rounds.set(token, round);
      for (const [name, page] of pages) this.#pages.set(name, page);
    };
  }

  /** Every round as it is. */
  all(): readonly Round[] {
    return [...this.#rounds.values()];
  }
}

function isOpen({ state }: Round): boolean {
  return state === 'open' || state === 'armed';
}
