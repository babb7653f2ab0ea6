import { execFile } from 'node:child_process';
import { appendFileSync, mkdtempSync, truncateSync, writeFileSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { follow, type Line, type Position } from '../../examples/follow/feed.ts';
import { Sink } from '../../examples/follow/sink.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

function setup() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-follow-'));
  folders.push(folder);
  const feed = join(folder, 'feed');
  writeFileSync(feed, '');
  return { folder, feed, database: join(folder, 'sink.db') };
}

const beginning: Position = { line: 0, offset: 0 };

/** All that a follower sees that is told to stop after its first `looks` chunks (0: before it looks at all). */
async function linesOf(path: string, from: Position, stop: AbortController, looks = 0): Promise<readonly Line[]> {
  const seen: Line[] = [];
  await using file = await open(path);
  if (looks === 0) stop.abort();
  for await (const lines of follow(file, from, stop.signal, 1)) {
    seen.push(...lines);
    looks -= 1;
    if (looks <= 0) stop.abort();
  }
  return seen;
}

function aLine(line: number, offset = line * 10): Line {
  return { line, offset, text: `line ${line}` };
}

describe('a feed', () => {
  test('gives no part of a line that is not complete yet', async () => {
    const { feed } = setup();
    appendFileSync(feed, 'one\ntw');
    expect(await linesOf(feed, beginning, new AbortController())).toEqual([{ line: 1, offset: 4, text: 'one' }]);
    appendFileSync(feed, 'o\n');
    expect(await linesOf(feed, { line: 1, offset: 4 }, new AbortController())).toEqual([{ line: 2, offset: 8, text: 'two' }]);
  });

  test('gives a line whole that was written in two pieces, cut inside a character, while it was followed', async () => {
    const { feed } = setup();
    const text = Buffer.from('grüße\n');
    await using file = await open(feed);
    const stop = new AbortController();
    const lines = follow(file, beginning, stop.signal, 1);
    appendFileSync(feed, text.subarray(0, 3));
    const next = lines.next();
    appendFileSync(feed, text.subarray(3));
    expect((await next).value).toEqual([{ line: 1, offset: text.length, text: 'grüße' }]);
    stop.abort();
    expect((await lines.next()).done).toBe(true);
  });

  test('takes along what was complete when it was told to stop', async () => {
    const { feed } = setup();
    await using file = await open(feed);
    const stop = new AbortController();
    const lines = follow(file, beginning, stop.signal, 60_000);
    const next = lines.next();
    appendFileSync(feed, 'last words\n');
    stop.abort();
    expect((await next).value).toEqual([{ line: 1, offset: 11, text: 'last words' }]);
    expect((await lines.next()).done).toBe(true);
  });

  test('that became shorter fails instead of going on in the middle of something else', async () => {
    const { feed } = setup();
    appendFileSync(feed, 'one\ntwo\n');
    truncateSync(feed, 4);
    await expect(linesOf(feed, { line: 2, offset: 8 }, new AbortController())).rejects.toThrow('has 4 bytes, but 8 had been read');
  });

  test('is read the same however it was cut into writes and wherever reading began anew', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '☃', '\r', '😀'), maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(fc.array(text, { maxLength: 12 }), fc.array(fc.nat(80), { maxLength: 4 }), async (texts, cuts) => {
        const { feed } = setup();
        const bytes = Buffer.from(texts.map((line) => `${line}\n`).join(''));
        const seen: Line[] = [];
        let written = 0;
        for (const cut of [...cuts, bytes.length]) {
          appendFileSync(feed, bytes.subarray(written, written + cut));
          written += cut;
          seen.push(...(await linesOf(feed, seen.at(-1) ?? beginning, new AbortController())));
        }
        expect(seen.map(({ text }) => text)).toEqual(texts);
        expect(seen.map(({ line }) => line)).toEqual(texts.map((_, index) => index + 1));
      }),
      { numRuns: 40 },
    );
  });

  test('may have lines longer than what is read at once', async () => {
    const { feed } = setup();
    const long = 'x'.repeat(200_000);
    appendFileSync(feed, `${long}\nshort\n${long}`);
    expect((await linesOf(feed, beginning, new AbortController())).map(({ text }) => text.length)).toEqual([200_000, 5]);
  });
});

describe('a sink', () => {
  test('refuses the write of an owner that was replaced, and counts it (F36)', () => {
    const { database } = setup();
    using first = new Sink(database, 'first');
    using second = new Sink(database, 'second');
    first.begin('k', 5);
    expect(first.record('k', 5, [aLine(1)])).toBe('recorded');
    expect(second.begin('k', 7)).toEqual({ line: 1, offset: 10 });
    expect(first.record('k', 5, [aLine(2)])).toBe('fenced');
    expect(second.record('k', 7, [aLine(2)])).toBe('recorded');
    expect(second.lines('k').map(({ text }) => text)).toEqual(['line 1', 'line 2']);
    expect(second.tally()).toMatchObject({ recorded: 2, duplicated: 0, fencedWrites: 1 });
  });

  test('refuses to begin below the highest fence, though that one has recorded nothing', () => {
    const { database } = setup();
    using sink = new Sink(database);
    sink.begin('k', 7);
    expect(sink.begin('k', 5)).toBe('fenced');
    expect(sink.begin('other', 5)).toEqual(beginning);
  });

  test('counts a line that is recorded again, and keeps the first', () => {
    const { database } = setup();
    using sink = new Sink(database);
    sink.begin('k', 1);
    sink.record('k', 1, [aLine(1), aLine(2)]);
    sink.record('k', 1, [{ ...aLine(2), text: 'other' }, aLine(3)]);
    expect(sink.lines('k').map(({ text }) => text)).toEqual(['line 1', 'line 2', 'line 3']);
    expect(sink.tally()).toMatchObject({ recorded: 3, duplicated: 1 });
  });

  test('keeps of a write that breaks off neither lines nor position', () => {
    const { database } = setup();
    using sink = new Sink(database);
    sink.begin('k', 1);
    const broken = { ...aLine(2), text: undefined as unknown as string };
    expect(() => sink.record('k', 1, [aLine(1), broken])).toThrow();
    expect(sink.lines('k')).toEqual([]);
    expect(sink.begin('k', 2)).toEqual(beginning);
  });

  test('sees two live handlers of a key, and only those', () => {
    const { database } = setup();
    using a = new Sink(database, 'a');
    using b = new Sink(database, 'b');
    a.begin('k', 1);
    b.begin('other', 1);
    a.end('k');
    b.begin('k', 2);
    expect(a.tally()).toMatchObject({ handlerStarts: 3, overlaps: 0 });
    a.begin('k', 3);
    b.end('k');
    a.end('k');
    b.begin('k', 4);
    expect(a.tally()).toMatchObject({ handlerStarts: 5, overlaps: 1 });
    expect([a.starts('k'), a.starts('other'), a.starts('none')]).toEqual([4, 1, 0]);
  });

  test('counts the handlers of a process that was killed or suspended as gone, once, and those of others as live', () => {
    const { database } = setup();
    using frozen = new Sink(database, 'frozen');
    using other = new Sink(database, 'other');
    using supervisor = new Sink(database);
    for (const key of ['k', 'l', 'over']) frozen.begin(key, 1);
    frozen.end('over');
    other.begin('m', 1);
    using writer = new DatabaseSync(database, { timeout: 0 });
    const suspend = vi.fn(() => expect(() => writer.exec('BEGIN IMMEDIATE')).toThrow('locked'));
    supervisor.silence('frozen', suspend);
    expect(suspend).toHaveBeenCalledOnce();
    other.begin('k', 2);
    frozen.end('k');
    expect(supervisor.tally()).toMatchObject({ handlerStarts: 5, overlaps: 0 });
    frozen.begin('k', 3);
    frozen.begin('m', 2);
    expect(supervisor.tally()).toMatchObject({ handlerStarts: 7, overlaps: 2 });
  });

  test('that several processes share loses nothing of theirs, and only the highest fence goes on', async () => {
    const { database } = setup();
    const sink = new URL('../../examples/follow/sink.ts', import.meta.url).href;
    const script = `
      const [database, name, fence] = process.argv.slice(1);
      const { Sink } = await import(${JSON.stringify(sink)});
      using sink = new Sink(database, name);
      sink.begin(name, 1);
      sink.begin('shared', Number(fence));
      for (let line = 1; line <= 100; line += 1) {
        sink.record(name, 1, [{ line, offset: line, text: name }]);
        const position = sink.begin('shared', Number(fence));
        if (position !== 'fenced') sink.record('shared', Number(fence), [{ line: position.line + 1, offset: position.offset + 1, text: fence }]);
      }`;
    const processes = [1, 2, 3].map((fence) =>
      promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, database, `p${fence}`, String(fence)]),
    );
    await Promise.all(processes);
    using seen = new Sink(database);
    for (const name of ['p1', 'p2', 'p3']) expect(seen.lines(name)).toHaveLength(100);
    const fences = seen.lines('shared').map(({ text }) => Number(text));
    expect(fences).toEqual(fences.toSorted());
    expect(fences.filter((fence) => fence === 3)).toHaveLength(100);
    expect(seen.tally().duplicated).toBe(0);
  });
});
