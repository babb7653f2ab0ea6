import type { FileHandle } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';

/** A place in a feed, between two lines. */
export interface Position {
  /** Lines before it. */
  readonly line: number;
  /** Bytes before it. */
  readonly offset: number;
}

/** A line and the position behind it; `line` is its number, from 1. */
export interface Line extends Position {
  readonly text: string;
}

/** What a feed ends with: a line that belongs to nobody's data. */
export const endOfFeed = '.';

const lineFeed = 0x0a;
const leastRead = 64 * 1024;

/**
 * The lines of a file that grows, from `from` on, in chunks as they become complete. Ends once `signal` is aborted, after one more look: a
 * line that was complete by then is not left behind.
 *
 * Throws where the file becomes shorter than it was: what was read before is no longer its beginning.
 */
export async function* follow(file: FileHandle, from: Position, signal: AbortSignal, pollMs = 200): AsyncGenerator<readonly Line[], void> {
  let { line, offset } = from;
  let read = offset;
  let room = leastRead;
  for (;;) {
    const isLastLook = signal.aborted;
    const { size } = await file.stat();
    if (size < read) throw new Error(`the feed has ${size} bytes, but ${read} had been read: it was cut short`);
    while (read < size) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(room), 0, room, offset);
      if (bytesRead === 0) break; // Cut short since the look at its size: the next one tells.
      const lines: Line[] = [];
      let start = 0;
      // A line feed byte is a line feed in UTF-8, never a part of another character.
      for (let end = buffer.indexOf(lineFeed); end !== -1 && end < bytesRead; end = buffer.indexOf(lineFeed, start)) {
        line += 1;
        lines.push({ line, offset: offset + end + 1, text: buffer.toString('utf8', start, end) });
        start = end + 1;
      }
      read = bytesRead < room ? offset + bytesRead : offset + start;
      offset += start;
      if (lines.length > 0) yield lines;
      else if (bytesRead === room) room *= 2;
    }
    if (isLastLook) return;
    await wait(pollMs, undefined, { signal }).catch(() => undefined);
  }
}
