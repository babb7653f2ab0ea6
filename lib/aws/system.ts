import { ulid } from 'ulid';
import type { Ids, Timer } from '../pool/ports.ts';
import type { WorkerClock } from '../worker/ports.ts';

/** The machine's clocks. */
export const systemClock: WorkerClock = { now: () => Date.now(), monotonic: () => performance.now() };

/** What Node's timers can wait; longer ones would fire at once. */
const maxDelayMs = 2 ** 31 - 1;

export const systemTimer: Timer = {
  after(delayMs, run) {
    let pending: NodeJS.Timeout;
    function wait(leftMs: number): void {
      pending = leftMs > maxDelayMs ? setTimeout(() => wait(leftMs - maxDelayMs), maxDelayMs) : setTimeout(run, leftMs);
    }
    wait(delayMs);
    return () => clearTimeout(pending);
  },
};

export const systemIds: Ids = { next: () => ulid() };
