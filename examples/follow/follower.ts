import { open } from 'node:fs/promises';
import { defineHandler, RetryableError } from 'holdfast/worker';
import { z } from 'zod';
import { endOfFeed, follow } from './feed.ts';
import type { Sink } from './sink.ts';

/**
 * Follows one feed (a file that somebody appends to) and records each of its lines once.
 *
 * The pool sees to it that a feed has one handler; the fence makes sure of it where it counts, in the sink. A stop takes along what the feed
 * has by then; when the job is lost, nothing more is written, for its next owner may be at work already.
 */
export function follower(sink: Sink) {
  return defineHandler({
    payload: z.object({ file: z.string() }),
    async run(job) {
      await using file = await open(job.payload.file).catch((cause) => {
        throw new RetryableError(`${job.payload.file} cannot be opened`, { cause });
      });
      const position = sink.begin(job.key, job.fence);
      try {
        if (position === 'fenced') throw fenced(job.fence);
        for await (const lines of follow(file, position, job.signal)) {
          if (job.lost.aborted) break;
          const last = lines.at(-1);
          const isOver = last?.text === endOfFeed;
          // Nothing awaits between the look at `lost` and this.
          if (sink.record(job.key, job.fence, isOver ? lines.slice(0, -1) : lines) === 'fenced') throw fenced(job.fence);
          if (isOver) return { lines: last.line - 1 };
        }
        return undefined;
      } finally {
        sink.end(job.key);
      }
    },
  });
}

function fenced(fence: number): Error {
  return new Error(`a higher fence than ${fence} has been seen: the feed has another owner`);
}
