import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeReport, fingerprintOf, type ResyncCommand, type StartCommand } from '../../lib/wire/index.ts';
import { Ends } from '../../lib/worker/fences.ts';
import { type AnswerPage, answerRound, type KeyView, Round } from '../../lib/worker/round.ts';
import { type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const payload = new TextEncoder().encode('{}');

function running(key: string, fence = 5): KeyView {
  const command: StartCommand = {
    op: 'start',
    session: 's',
    key,
    dispatchId: `d-${key}`,
    fingerprint: fingerprintOf(key, payload),
    payload,
    fence,
    attempt: 1,
  };
  return { key, life: { command, fence, startedAt: 1 }, ends: new Ends() };
}

function asks(round: string, page: number, pages: number, keys: readonly string[], beat = 1): ResyncCommand {
  return { op: 'resync', session: 's', round, beat, page, pages, jobs: keys.map((key) => ({ key, fence: 5, running: true })) };
}

function pagesOf(answer: readonly AnswerPage[] | 'older-round'): readonly number[] {
  return answer === 'older-round' ? [] : answer.map(({ page }) => page);
}

test('says of every key that runs here exactly one thing, asked or not, on pages that know how many there are', () => {
  const key = fc.integer({ min: 0, max: 400 }).map((n) => `k${n}`);
  fc.assert(
    fc.property(fc.uniqueArray(key), fc.uniqueArray(key), fc.integer({ min: 1, max: 100 }), (here, asked, perPage) => {
      const pages = Array.from({ length: Math.max(1, Math.ceil(asked.length / perPage)) }, (_, n) =>
        asked.slice(n * perPage, (n + 1) * perPage),
      );
      const answer = answerRound(
        'r',
        pages.map((keys) => keys.map((key) => ({ key, fence: 5, running: true }))),
        here.map((key) => running(key)),
      );
      expect(answer.map(({ page }) => page)).toEqual(answer.map((_, n) => n + 1));
      expect(new Set(answer.map(({ pages }) => pages))).toEqual(new Set([answer.length]));
      pages.forEach((keys, n) => {
        expect(answer[n]?.entries.map((entry) => entry.key)).toEqual(keys);
      });
      const entries = answer.flatMap(({ entries }) => entries);
      expect(entries.map((entry) => entry.key).toSorted()).toEqual([...new Set([...here, ...asked])].toSorted());
      for (const entry of entries) expect(entry.state).toBe(here.includes(entry.key) ? 'running' : 'unrecognized');
      expect(answer.every(({ entries }) => entries.length <= 100)).toBe(true);
    }),
  );
});

test('a page of a hundred results fits one message', () => {
  const keys = Array.from({ length: 100 }, (_, n) => `${'\u0001'.repeat(1_020)}${String(n).padStart(4, '0')}`);
  const views = keys.map((key): KeyView => {
    const ends = new Ends();
    const fact = {
      key,
      dispatchId: '\u0001'.repeat(128),
      fingerprint: 'f'.repeat(64),
      fence: 5,
      worker: 'w',
      session: 's',
      at: 1,
      startedAt: 1,
    };
    ends.record({ type: 'finished', ...fact, result: 'x'.repeat(1_022) });
    return { key, life: undefined, ends };
  });
  const [page] = answerRound('r', [keys.map((key) => ({ key, fence: 5, running: true }))], views);
  expect(() => encodeReport({ type: 'resync', worker: 'w', session: 's', at: 1, ...(page as AnswerPage) })).not.toThrow();
});

test('nothing is answered before every page is here, in whatever order they come, however often (F34)', () => {
  const round = new Round();
  const here = [running('a'), running('unasked')];
  expect(round.take(asks('r', 3, 3, ['c']), here)).toEqual([]);
  expect(round.take(asks('r', 3, 3, ['c']), here)).toEqual([]);
  expect(round.take(asks('r', 1, 3, ['a']), here)).toEqual([]);
  const answer = round.take(asks('r', 2, 3, ['b']), here);
  expect(pagesOf(answer)).toEqual([1, 2, 3, 4]);
  expect([...round.named].toSorted()).toEqual(['a', 'b', 'c']);
});

test('a page that is asked again is answered as before; the last one brings along what was not asked', () => {
  const round = new Round();
  const here = [running('a'), running('unasked')];
  round.take(asks('r', 1, 2, ['a']), here);
  const answer = round.take(asks('r', 2, 2, ['b']), here);
  expect(round.take(asks('r', 1, 2, ['a']), [])).toEqual([answer[0]]);
  expect(round.take(asks('r', 2, 2, ['b']), [])).toEqual([answer[1], answer[2]]);
});

test('a page of an older round than the last one is dropped, a newer round replaces the one before (F32)', () => {
  const round = new Round();
  expect(pagesOf(round.take(asks('r2', 1, 1, ['a'], 7), []))).toEqual([1]);
  expect(round.take(asks('r1', 1, 1, ['a'], 6), [])).toBe('older-round');
  expect(round.take(asks('r3', 1, 2, ['a'], 8), [])).toEqual([]);
  expect(pagesOf(round.take(asks('r3', 2, 2, ['b'], 8), []))).toEqual([1, 2]);
});

test('a round counts as answered once each of its pages was sent', () => {
  const round = new Round();
  const first = round.take(asks('r1', 1, 1, [], 1), []) as readonly AnswerPage[];
  for (const page of first) round.sent(page);
  expect(round.answered).toBe('r1');
  round.take(asks('r2', 1, 2, ['a'], 2), []);
  const second = round.take(asks('r2', 2, 2, ['b'], 2), []) as readonly AnswerPage[];
  round.sent(second[0] as AnswerPage);
  round.sent(second[0] as AnswerPage);
  expect(round.answered).toBe('r1');
  for (const page of first) round.sent(page);
  round.sent(second[1] as AnswerPage);
  expect(round.answered).toBe('r2');
});

test('the next heartbeat carries the round that was answered, and none before the report queue has all of it', async () => {
  const stage = await WorkerStage.registered();
  const ask: SentCommand = { op: 'resync', round: 'r1', beat: 0, page: 1, pages: 1, jobs: [] };
  stage.cutOff = new Set(['reports']);
  await stage.send(ask);
  await stage.advance(10_000);
  expect(stage.services.workers.peek('w1')?.answered).toBeUndefined();
  stage.cutOff = new Set();
  await stage.advance(30_000);
  expect(stage.services.workers.peek('w1')?.answered).toBe('r1');
  expect(stage.of('resync')).toMatchObject([{ round: 'r1', page: 1, pages: 1, entries: [] }]);
});

test('a round is answered while a handler hangs: it needs no lock', async () => {
  const stage = await WorkerStage.registered();
  stage.handler.way.start = 'hangs';
  await stage.send({ op: 'start', key: 'k', dispatchId: 'd1', fingerprint: fingerprintOf('k', payload), payload, fence: 5, attempt: 1 });
  await stage.send({ op: 'resync', round: 'r1', beat: 0, page: 1, pages: 1, jobs: [{ key: 'k', fence: 5, running: false }] });
  expect(stage.of('resync').map(({ entries }) => entries.map(({ state }) => state))).toEqual([['unrecognized'], ['starting']]);
});
