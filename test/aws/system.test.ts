import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { cached } from '../../lib/aws/cached.ts';
import { systemTimer } from '../../lib/aws/system.ts';

describe('the timer', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it.each([0, 1, 2 ** 31 - 1, 2 ** 31, 1e12])('waits %d ms and no less (F37)', (delayMs) => {
    const run = vi.fn();
    systemTimer.after(delayMs, run);
    if (delayMs > 0) vi.advanceTimersByTime(delayMs - 1);
    expect(run).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(run).toHaveBeenCalledOnce();
  });

  it.each([1_000, 1e12])('can be stopped at any time, of %d ms', (delayMs) => {
    const run = vi.fn();
    const stop = systemTimer.after(delayMs, run);
    vi.advanceTimersByTime(delayMs * 0.9);
    stop();
    vi.advanceTimersByTime(delayMs);
    expect(run).not.toHaveBeenCalled();
  });
});

describe('what is cached', () => {
  function setup() {
    const clock = { time: 1_000_000, now: () => clock.time };
    const load = vi.fn(async () => clock.time);
    return { clock, load, read: cached(clock, 5_000, load) };
  }

  it('is loaded once for all who ask meanwhile', async () => {
    const { clock, load, read } = setup();
    expect(await Promise.all([read(), read()])).toEqual([1_000_000, 1_000_000]);
    clock.time += 4_999;
    expect(await read()).toBe(1_000_000);
    expect(load).toHaveBeenCalledOnce();
  });

  it('is loaded anew once it is too old, or the clock went back', async () => {
    const { clock, read } = setup();
    await read();
    clock.time += 5_000;
    expect(await read()).toBe(1_005_000);
    clock.time -= 3_600_000;
    expect(await read()).toBe(1_005_000 - 3_600_000);
  });

  it('is not a failure', async () => {
    const { load, read } = setup();
    load.mockRejectedValueOnce(new Error('throttled'));
    await expect(read()).rejects.toThrow('throttled');
    expect(await read()).toBe(1_000_000);
  });
});
