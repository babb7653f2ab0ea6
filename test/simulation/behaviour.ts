import type { Process } from '../../lib/testing/process.ts';
import type { Random } from '../../lib/testing/random.ts';
import { defineHandler, type Handler, type Job, type Raw, RetryableError } from '../../lib/worker/handler.ts';
import type { Scene } from './scene.ts';

/** What the handler of a key is told to do: to come to its end now, or how its next start or stop goes. */
export type Cue =
  | 'ends'
  | 'fails'
  | 'fails for now'
  | 'start throws'
  | 'start is to be tried again'
  | 'start is slow'
  | 'stop throws'
  | 'stop is slow';

export class Cues {
  readonly #given = new Map<string, Cue>();
  readonly #up = new Map<string, (cue: Cue) => void>();

  give(key: string, cue: Cue): void {
    if (cue.startsWith('start') || cue.startsWith('stop')) this.#given.set(key, cue);
    else this.#up.get(key)?.(cue);
  }

  /** The cue for this, if one was given; it is heard once. */
  taken(key: string, what: 'start' | 'stop'): Cue | undefined {
    const cue = this.#given.get(key);
    if (!cue?.startsWith(what)) return undefined;
    this.#given.delete(key);
    return cue;
  }

  /** From here on a handler of the key can be told to end. */
  hears(key: string, end: (cue: Cue) => void): void {
    this.#up.set(key, end);
  }
}

/** What handlers have of their world, with lots of their own. */
export interface Surroundings extends Pick<Scene, 'checker' | 'conditions' | 'cues' | 'isCalm' | 'whenCalm' | 'leaseMs' | 'tell'> {
  readonly random: Random;
  readonly resource: Resource;
}

/** What the jobs are for: it takes no write under a fence below the highest it has seen. */
export class Resource {
  readonly #fences = new Map<string, number>();

  /** False where it refused. */
  write(key: string, fence: number): boolean {
    const highest = this.#fences.get(key) ?? 0;
    if (fence < highest) return false;
    this.#fences.set(key, fence);
    return true;
  }
}

/** A handler of `process` that is now quick, now slow, fails, throws, hangs, ends by itself or not. */
export function moodyHandler(
  process: () => Process,
  { random, checker, conditions, cues, isCalm, whenCalm, resource, leaseMs, tell }: Surroundings,
): Handler {
  const sleep = (ms: number) => new Promise<void>((resolve) => process().after(ms, resolve));
  const isBad = () => random.chance(isCalm() ? 0 : conditions.badHandler);
  /** Mostly not for ever: what hangs keeps its key from all else. */
  const hang = () =>
    new Promise<void>((resolve) => {
      if (random.chance(0.7)) process().after(random.between(1_000, 40_000), resolve);
      whenCalm(() => process().deliver(resolve));
    });

  function write(job: Job<Raw>): void {
    if (!job.lost.aborted && !resource.write(job.key, job.fence)) checker.refusedWrite(process(), job.key, job.fence);
  }

  async function start(job: Job<Raw>) {
    checker.payload(job.dispatchId, job.key, job.payload.bytes);
    if (random.chance(0.5)) await sleep(random.between(1, 200));
    const cued = ['start throws', 'start is to be tried again', 'start is slow'].indexOf(cues.taken(job.key, 'start') ?? '');
    if (isBad() || cued >= 0) {
      const way = cued >= 0 && !isCalm() ? cued : random.below(5);
      tell(
        process().name,
        () => `start of "${job.key}" will ${['throw', 'ask for another try', 'be slow', 'hang until stopped', 'hang'][way]}`,
      );
      if (way === 0) throw new Error('start failed');
      if (way === 1)
        throw new RetryableError('start failed, try again', random.chance(0.5) ? { retryAfterMs: random.between(0, 5_000) } : {});
      if (way === 2) await sleep(random.between(500, 20_000));
      if (way === 3)
        await Promise.race([hang(), new Promise((_, reject) => job.signal.addEventListener('abort', () => reject(job.signal.reason)))]);
      if (way === 4) await hang();
    }
    write(job);
    return running(job);
  }

  function running(job: Job<Raw>) {
    const { promise: done, resolve, reject } = Promise.withResolvers<unknown>();
    let isOver = false;
    const end = (way: number) => {
      if (isOver) return;
      isOver = true;
      write(job);
      if (way === 0) resolve(random.chance(0.2) ? { lifeMs: 1 } : undefined);
      else reject(way === 1 ? new Error('job failed') : new RetryableError('job failed, try again', { retryAfterMs: 2_000 }));
    };
    cues.hears(job.key, (cue) => process().deliver(() => end(['ends', 'fails', 'fails for now'].indexOf(cue))));
    if (random.chance(0.8)) {
      const lifeMs = random.between(10, Math.round(leaseMs * random.pick(conditions.lives)));
      const way = isBad() ? random.below(3) : 0;
      process().after(lifeMs, () => end(way));
    }
    return {
      done,
      async stop() {
        if (random.chance(0.5)) await sleep(random.between(1, random.pick([500, 500, 5_000])));
        const cued = ['stop throws', 'stop is slow'].indexOf(cues.taken(job.key, 'stop') ?? '');
        if (isBad() || cued >= 0) {
          const way = cued >= 0 && !isCalm() ? cued : random.below(3);
          tell(process().name, () => `stop of "${job.key}" will ${['throw', 'be slow', 'hang'][way]}`);
          if (way === 0) throw new Error('stop failed');
          if (way === 1) await sleep(random.between(500, 40_000));
          if (way === 2) await hang();
        }
        isOver = true;
      },
      async notify() {
        if (isBad()) throw new Error('notify failed');
      },
    };
  }

  return defineHandler({ start });
}
