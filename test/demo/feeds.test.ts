import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { Feeds, linesIn } from '../../demo/feeds.ts';
import type { Feed } from '../../demo/scenario.ts';
import { Random } from '../../lib/testing/random.ts';

const folders: string[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

function setup() {
  vi.useFakeTimers();
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-feeds-'));
  folders.push(folder);
  const feeds = ['a', 'b', 'c'].map((key): Feed => ({ key, file: join(folder, 'feeds', key) }));
  return { feeds, writer: new Feeds(feeds, 2_000, new Random(1)) };
}

test('a finished feed has every line that was begun, whole, in order, and gets no more', () => {
  const { feeds, writer } = setup();
  vi.advanceTimersByTime(2_000);
  const [a, b, c] = feeds as [Feed, Feed, Feed];
  writer.finish(a, 'is-over');
  writer.finish(b, 'falls-silent');
  const before = [a, b].map(linesIn);
  vi.advanceTimersByTime(2_000);
  writer[Symbol.dispose]();
  expect([a, b].map(linesIn)).toEqual(before);
  for (const { key, lines } of [a, b].map((feed) => ({ key: feed.key, lines: linesIn(feed) }))) {
    expect(lines.length).toBeGreaterThan(100);
    for (const [index, line] of lines.entries()) expect(line).toMatch(new RegExp(`^${key} ${index + 1} ☃\\.*$`));
  }
  expect(readFileSync(a.file, 'utf8')).toMatch(/\n\.\n$/);
  expect(readFileSync(b.file, 'utf8')).not.toMatch(/\n\.\n$/);
  expect(linesIn(c).length).toBeGreaterThan(lines(before));
});

test('lines are torn now and then, so that a follower meets parts of them', () => {
  const { feeds, writer } = setup();
  let torn = 0;
  for (let i = 0; i < 60; i += 1) {
    vi.advanceTimersByTime(50);
    torn += feeds.filter(({ file }) => !/(^|\n)$/.test(readFileSync(file, 'utf8'))).length;
  }
  writer[Symbol.dispose]();
  expect(torn).toBeGreaterThan(3);
});

function lines(of: readonly (readonly string[])[]): number {
  return Math.max(...of.map(({ length }) => length));
}
