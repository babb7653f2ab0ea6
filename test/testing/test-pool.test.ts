import { describe, expect, test, vi } from 'vitest';
import { createTestPool, recordingHandler } from '../../lib/testing/index.ts';
import { defineHandler } from '../../lib/worker/handler.ts';

describe('the examples of the manual', () => {
  test('my follower stops when its lease is lost', async () => {
    vi.useFakeTimers();
    try {
      const written: string[] = [];
      const follower = defineHandler({
        async run(job) {
          while (!job.signal.aborted) {
            written.push(`${job.key} ${job.fence}`);
            await new Promise((resolve) => setTimeout(resolve, 1_000));
          }
        },
      });
      await using pool = await createTestPool({ handler: follower, workers: 1, timers: vi });
      await (await pool.client.start('tenant:17', { url: 'https://feeds.example/17' })).outcome();
      const first = pool.ownerOf('tenant:17');
      first?.disconnect();
      await pool.advance(pool.lease);
      expect(first?.jobs).toEqual([]);
      const second = await pool.addWorker();
      await pool.until(() => pool.ownerOf('tenant:17') === second, { withinMs: 3 * pool.lease });
      expect(written.length).toBeGreaterThan(10);
    } finally {
      vi.useRealTimers();
    }
  });

  test("a crashed worker's job starts again under a higher fence", async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    await (await pool.client.start('k', 'p')).outcome();
    pool.ownerOf('k')?.crash();
    await pool.until(() => handler.starts.length === 2, { withinMs: 3 * pool.lease });
    expect(handler.starts[1]?.fence).toBeGreaterThan(handler.starts[0]?.fence ?? Number.NaN);
  });

  test('a start delivered twice runs once', async () => {
    const handler = recordingHandler();
    await using pool = await createTestPool({ handler, workers: 2 });
    pool.deliver.twice({ op: 'start' });
    await pool.client.start('k', 'p', { dispatchId: 'd1' });
    await pool.settle();
    expect(handler.starts).toHaveLength(1);
  });
});
