/**
 * Where followers record lines, each line once: one SQLite file that several worker processes share.
 *
 * The file is the authority on how far each feed was recorded and on who may go on with it. A write is one transaction: it compares the
 * fence with the highest one seen for that key, inserts the lines, and moves the position behind them. So
 *
 * - a crash leaves all of a write or nothing, and whoever follows the feed next goes on behind the last recorded line;
 * - an owner that was replaced and does not know it yet (its process was suspended, say) has a lower fence than its successor. Its write
 *   changes nothing and is counted.
 *
 * Nothing here relies on a feed having one handler at a time. Should there ever be two, it shows: a line that is recorded again is counted as
 * a copy, and the table of handlers has their starts and ends in the one order in which this file saw them. A process that was killed writes
 * no end, and one that is suspended runs nothing: whoever sees to the processes says so by `silence`.
 */
import { hostname } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import type { Line, Position } from './feed.ts';

/** What a sink has seen, all keys together. */
export interface Tally {
  /** Lines, each counted once. */
  readonly recorded: number;
  /** How often a line was recorded that was there already. */
  readonly duplicated: number;
  /** Writes refused because a higher fence had been seen. */
  readonly fencedWrites: number;
  readonly handlerStarts: number;
  /** Starts of a handler while another one of the same key was live. */
  readonly overlaps: number;
}

const schema = `
  CREATE TABLE IF NOT EXISTS feeds (
    key    TEXT PRIMARY KEY,
    fence  INTEGER NOT NULL,            -- the highest one seen
    line   INTEGER NOT NULL DEFAULT 0,  -- lines recorded
    offset INTEGER NOT NULL DEFAULT 0,  -- byte of the feed behind the last of them
    fenced INTEGER NOT NULL DEFAULT 0   -- writes refused
  ) STRICT;
  CREATE TABLE IF NOT EXISTS lines (
    key    TEXT NOT NULL,
    number INTEGER NOT NULL,
    text   TEXT NOT NULL,
    fence  INTEGER NOT NULL,
    copies INTEGER NOT NULL DEFAULT 0,  -- how often it came again
    PRIMARY KEY (key, number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS handlers (
    id     INTEGER PRIMARY KEY,
    key    TEXT NOT NULL,
    fence  INTEGER NOT NULL,
    what   TEXT NOT NULL CHECK (what IN ('start', 'end')),
    worker TEXT NOT NULL,
    at     INTEGER NOT NULL             -- epoch ms, for people: the order is that of the ids
  ) STRICT;
`;

/** Only what has started and not ended yet ends: a process that was silenced may still say so of itself. */
function endsOf(whose: string): string {
  return `INSERT INTO handlers (key, fence, what, worker, at) SELECT key, MAX(fence), 'end', worker, ? FROM handlers
    WHERE ${whose} GROUP BY key HAVING SUM(IIF(what = 'start', 1, -1)) > 0`;
}

export class Sink implements Disposable {
  readonly #database: DatabaseSync;
  readonly #worker: string;
  readonly #sql;

  /** Opens the file, or creates it. `worker` names this process in the table of handlers; default: host and process id. */
  constructor(file: string, worker = `${hostname()}:${process.pid}`) {
    this.#worker = worker;
    this.#database = new DatabaseSync(file, { timeout: 5_000 });
    this.#database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${schema}`);
    const prepare = (sql: string) => this.#database.prepare(sql);
    this.#sql = {
      // Answers with the position, unless a higher fence has been seen.
      claim: prepare(`INSERT INTO feeds (key, fence) VALUES (?, ?)
        ON CONFLICT (key) DO UPDATE SET fence = excluded.fence WHERE excluded.fence >= fence RETURNING line, offset`),
      countFenced: prepare('UPDATE feeds SET fenced = fenced + 1 WHERE key = ?'),
      insertLine: prepare(`INSERT INTO lines (key, number, text, fence) VALUES (?, ?, ?, ?)
        ON CONFLICT (key, number) DO UPDATE SET copies = copies + 1`),
      move: prepare('UPDATE feeds SET line = ?, offset = ? WHERE key = ?'),
      start: prepare(`INSERT INTO handlers (key, fence, what, worker, at) VALUES (?, ?, 'start', ?, ?)`),
      end: prepare(endsOf('worker = ? AND key = ?')),
      endAll: prepare(endsOf('worker = ?')),
      starts: prepare(`SELECT COUNT(*) AS starts FROM handlers WHERE key = ? AND what = 'start'`),
      lines: prepare('SELECT number, text FROM lines WHERE key = ? ORDER BY number'),
      tally: prepare(`SELECT
        (SELECT COUNT(*) FROM lines) AS recorded,
        (SELECT COALESCE(SUM(copies), 0) FROM lines) AS duplicated,
        (SELECT COALESCE(SUM(fenced), 0) FROM feeds) AS fencedWrites,
        (SELECT COUNT(*) FROM handlers WHERE what = 'start') AS handlerStarts,
        (SELECT COUNT(*) FROM (
          SELECT what, SUM(IIF(what = 'start', 1, -1)) OVER (PARTITION BY key ORDER BY id) AS live FROM handlers
        ) WHERE what = 'start' AND live > 1) AS overlaps`),
    };
  }

  /** A handler of `key` starts: answers where to go on, and refuses every lower fence from now on. */
  begin(key: string, fence: number): Position | 'fenced' {
    return this.#transaction(() => {
      this.#sql.start.run(key, fence, this.#worker, Date.now());
      return this.#claim(key, fence);
    });
  }

  /** Records lines that follow one another, and the position behind the last one. */
  record(key: string, fence: number, lines: readonly Line[]): 'recorded' | 'fenced' {
    return this.#transaction(() => {
      if (this.#claim(key, fence) === 'fenced') return 'fenced';
      for (const { line, text } of lines) this.#sql.insertLine.run(key, line, text, fence);
      const last = lines.at(-1);
      if (last) this.#sql.move.run(last.line, last.offset, key);
      return 'recorded';
    });
  }

  /** The handler is gone; it does nothing after this. */
  end(key: string): void {
    this.#sql.end.run(Date.now(), this.#worker, key);
  }

  /**
   * All handlers of a worker's process are gone: it was killed, or `suspend` is what stops it. That is called here, so that it never stops in
   * the middle of a write, and everybody else with it.
   */
  silence(worker: string, suspend: () => void = () => undefined): void {
    this.#transaction(() => {
      suspend();
      this.#sql.endAll.run(Date.now(), worker);
    });
  }

  /** How often a handler of a key has started. */
  starts(key: string): number {
    return Number(this.#sql.starts.get(key)?.starts);
  }

  /** The recorded lines of a key, in order. */
  lines(key: string): readonly { readonly number: number; readonly text: string }[] {
    return this.#sql.lines.all(key) as unknown as readonly { readonly number: number; readonly text: string }[];
  }

  tally(): Tally {
    return { ...this.#sql.tally.get() } as unknown as Tally;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  #claim(key: string, fence: number): Position | 'fenced' {
    const position = this.#sql.claim.get(key, fence) as Position | undefined;
    if (position) return position;
    this.#sql.countFenced.run(key);
    return 'fenced';
  }

  #transaction<T>(write: () => T): T {
    // Immediate: two writers wait for one another here, instead of both reading and one of them failing.
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const result = write();
      this.#database.exec('COMMIT');
      return result;
    } catch (error) {
      this.#database.exec('ROLLBACK');
      throw error;
    }
  }
}
