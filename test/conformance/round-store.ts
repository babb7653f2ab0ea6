import { expect, test } from 'vitest';
import type { RoundStore } from '../../lib/resync/ports.ts';
import type { Round } from '../../lib/resync/round.ts';
import { aKey, aName, at } from './samples.ts';

export interface RoundStoreSetup {
  readonly rounds: RoundStore;
  /** Fresh round tokens. */
  readonly token: () => string;
}

/** What the steps of a round rely on, of any `RoundStore`. `setup` may give every test the same store. */
export function roundStoreConformance(name: string, setup: () => RoundStoreSetup | Promise<RoundStoreSetup>): void {
  async function opened() {
    const { rounds, token } = await setup();
    const round: Round = {
      token: token(),
      worker: aName('w'),
      session: aName('s'),
      state: 'open',
      beat: 7,
      openedAt: at,
      deadline: at + 30_000,
      asked: 0,
      applied: new Set(),
      skipped: 0,
      counts: {},
    };
    await rounds.open(round);
    return { rounds, round, token: round.token };
  }

  async function armed() {
    const given = await opened();
    const question = { asked: 2, deadline: at + 60_000, taskToken: aName('task') };
    await given.rounds.arm(given.token, question);
    return { ...given, question, round: { ...given.round, ...question, state: 'armed' } as const };
  }

  const aPage = (page: number) => ({ page, pages: 3, skipped: 0, counts: {} });

  test(`${name}: knows a round as it was opened, at once, and no other`, async () => {
    const { rounds, round, token } = await opened();
    expect(await rounds.get(token)).toStrictEqual(round);
    expect(await rounds.get(aName('r'))).toBeUndefined();
  });

  test(`${name}: arms a round twice as it does once, and keeps what was applied meanwhile`, async () => {
    const { rounds, round, token, question } = await armed();
    expect(await rounds.get(token)).toStrictEqual(round);
    await rounds.apply(token, aPage(1));
    const again = { ...question, deadline: at + 90_000 };
    expect((await rounds.arm(token, again)).outcome).toBe('won');
    expect(await rounds.get(token)).toStrictEqual({ ...round, ...again, pages: 3, applied: new Set([1]) });
  });

  test(`${name}: arms no round that is over, nor one that is not there (R2)`, async () => {
    const { rounds, token, question } = await armed();
    await rounds.close(token, 'closed');
    const current = await rounds.get(token);
    expect(await rounds.arm(token, question)).toEqual({ outcome: 'lost', current });
    expect(await rounds.arm(aName('r'), question)).toEqual({ outcome: 'lost' });
    expect(await rounds.get(token)).toEqual(current);
  });

  test(`${name}: adds up the pages of an answer, each once, in any order and at the same time (F34, F39)`, async () => {
    const { rounds, round, token } = await armed();
    const pages = [3, 1, 2].map((page) => ({ ...aPage(page), skipped: page, counts: { cleared: page, 'start-again': 1 } }));
    const applied = await Promise.all([...pages, ...pages].map((page) => rounds.apply(token, page)));
    expect(applied.map(({ outcome }) => outcome).sort()).toEqual(['lost', 'lost', 'lost', 'won', 'won', 'won']);
    const counts = { cleared: 6, 'start-again': 3 };
    const current = { ...round, pages: 3, applied: new Set([1, 2, 3]), skipped: 6, counts };
    expect(await rounds.get(token)).toEqual(current);
    expect(await rounds.apply(token, aPage(2))).toEqual({ outcome: 'lost', current });
  });

  test(`${name}: applies a page to no round that was not armed or is over (R11)`, async () => {
    const { rounds, round, token } = await opened();
    expect(await rounds.apply(token, aPage(1))).toEqual({ outcome: 'lost', current: round });
    expect(await rounds.apply(aName('r'), aPage(1))).toEqual({ outcome: 'lost' });
    const over = await armed();
    await over.rounds.close(over.token, 'resolved');
    expect(await over.rounds.apply(over.token, aPage(1))).toEqual({ outcome: 'lost', current: { ...over.round, state: 'resolved' } });
  });

  test(`${name}: closes a round once, and says with what token somebody waits for it`, async () => {
    const { rounds, round, token } = await armed();
    const current = { ...round, state: 'resolved' } as const;
    expect(await rounds.close(token, 'resolved')).toEqual({ outcome: 'won', current });
    expect(await rounds.close(token, 'closed')).toEqual({ outcome: 'lost', current });
    expect(await rounds.get(token)).toEqual(current);
    expect(await rounds.close(aName('r'), 'closed')).toEqual({ outcome: 'lost' });
  });

  test(`${name}: gives time to a round that is not over`, async () => {
    const { rounds, round, token } = await armed();
    await rounds.extend(token, at + 120_000);
    expect(await rounds.get(token)).toEqual({ ...round, deadline: at + 120_000 });
    await rounds.close(token, 'closed');
    await rounds.extend(token, at + 240_000);
    expect((await rounds.get(token))?.deadline).toBe(at + 120_000);
    await rounds.extend(aName('r'), at);
  });

  test(`${name}: keeps what a round asks, page by page, as it was asked first (R1)`, async () => {
    const { rounds, token } = await opened();
    const jobs = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ key: aKey(), fence: at + index, running: index % 2 > 0 }));
    const pages = [100, 3, 0].map((count, index) => ({ token, page: index + 1, jobs: jobs(count) }));
    await rounds.ask(pages);
    await rounds.ask(pages.map(({ jobs, ...page }) => ({ ...page, jobs: jobs.slice(1).map((job) => ({ ...job, running: true })) })));
    for (const page of pages) expect(await rounds.page(token, page.page)).toStrictEqual(page);
    expect(await rounds.page(token, 4)).toBeUndefined();
    expect(await rounds.page(aName('r'), 1)).toBeUndefined();
  });
}
