import type { Process } from '../../lib/testing/process.ts';
import type { Random } from '../../lib/testing/random.ts';
import { defineHandler, type Handler, type Job, type Raw, RetryableError } from '../../lib/worker/handler.ts';
import type { Scene } from './scene.ts';

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
    const way = cues.taken(job.key, 'start') ?? (isBad() ? random.below(5) : undefined);
    if (way !== undefined) {
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
      if (way === 0) resolve(random.chance(0.2) ? { fence: job.fence } : undefined);
      else reject(way === 1 ? new Error('job failed') : new RetryableError('job failed, try again', { retryAfterMs: 2_000 }));
    };
    cues.listen(job.key, () => {
      const way = isOver || process().state === 'dead' ? undefined : cues.taken(job.key, 'end');
      if (way !== undefined) process().after(1, () => end(way));
    });
    if (random.chance(0.8)) {
      const lifeMs = random.between(10, Math.round(leaseMs * random.pick(conditions.lives)));
      const way = isBad() ? random.below(3) : 0;
      process().after(lifeMs, () => end(way));
    }
    return {
      done,
      async stop() {
        if (random.chance(0.5)) await sleep(random.between(1, random.pick([500, 500, 5_000])));
        const way = cues.taken(job.key, 'stop') ?? (isBad() ? random.below(3) : undefined);
        if (way !== undefined) {
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
