import type { StopReason } from '../wire/index.ts';
import { defineHandler, type Handler, type Job, type Raw } from '../worker/handler.ts';

/** A handler that does nothing and tells all: for tests of what a pool does with jobs. */
export type RecordingHandler = Handler & {
  /** Every job that was ever started, by whichever worker, in order. */
  readonly starts: readonly Job<Raw>[];
  /** The job that is up at each key. One of a crashed worker stays until its key is started again. */
  readonly live: ReadonlyMap<string, Job<Raw>>;
  readonly stops: readonly { readonly key: string; readonly reason: StopReason }[];
  /** Every notification, in order. */
  readonly notifications: readonly { readonly key: string; readonly id: string; readonly text: string }[];
  /** Ends the job that is up at `key` as succeeded, with this result. Throws where none is. */
  finish(key: string, result?: unknown): void;
  /** Ends it as failed; a `RetryableError` has it tried again. */
  fail(key: string, error: unknown): void;
};

/** One handler may serve any number of workers. */
export function recordingHandler(): RecordingHandler {
  const starts: Job<Raw>[] = [];
  const stops: { readonly key: string; readonly reason: StopReason }[] = [];
  const notifications: { readonly key: string; readonly id: string; readonly text: string }[] = [];
  const live = new Map<string, Job<Raw>>();
  const ends = new Map<string, PromiseWithResolvers<unknown>>();

  function endOf(key: string): PromiseWithResolvers<unknown> {
    const end = ends.get(key);
    if (!end) throw new Error(`no job is up at "${key}"; up are: ${[...live.keys()].map((each) => `"${each}"`).join(', ') || 'none'}`);
    ends.delete(key);
    live.delete(key);
    return end;
  }

  const handler = defineHandler({
    start(job) {
      const end = Promise.withResolvers<unknown>();
      starts.push(job);
      live.set(job.key, job);
      ends.set(job.key, end);
      return {
        done: end.promise,
        stop({ reason }) {
          stops.push({ key: job.key, reason });
          if (live.get(job.key) !== job) return;
          live.delete(job.key);
          ends.delete(job.key);
        },
        notify({ bytes }, id) {
          notifications.push({ key: job.key, id, text: new TextDecoder().decode(bytes) });
        },
      };
    },
  });
  return {
    ...handler,
    starts,
    live,
    stops,
    notifications,
    finish: (key, result) => endOf(key).resolve(result),
    fail: (key, error) => endOf(key).reject(error),
  };
}
