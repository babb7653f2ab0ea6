import { describe, expect, test } from 'vitest';
import { MemoryQueue, type QueueOptions } from '../../lib/testing/memory-queue.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';

function setup(options: Partial<QueueOptions> = {}) {
  const time = new Scheduler();
  const deadLetters = new MemoryQueue({ name: 'dead', type: options.type ?? 'fifo', clock: time, visibilityMs: 30_000 });
  const queue = new MemoryQueue({ name: 'queue', type: 'fifo', clock: time, visibilityMs: 30_000, deadLetters, ...options });
  let sent = 0;
  return {
    time,
    queue,
    deadLetters,
    send: (body: string, group = 'a', deduplicationId = `send-${++sent}`) => queue.send({ body, group, deduplicationId }),
    receive: (max?: number) => queue.receive(max).map(({ body }) => body),
  };
}

describe('a FIFO queue', () => {
  test('gives nothing of a group of which a message is out, though it has others', () => {
    const { queue, send, receive } = setup();
    for (const body of ['1', '2', '3']) send(body);
    expect(receive(2)).toEqual(['1', '2']);
    expect(receive()).toEqual([]);
    send('other', 'b');
    expect(receive()).toEqual(['other']);
    expect(queue.size).toBe(4);
  });

  test('keeps a failed message in front of those behind it, however soon these are visible again', async () => {
    const { time, queue, send, receive } = setup();
    send('1');
    send('2');
    const [first, second] = queue.receive();
    queue.changeVisibility(first?.receipt ?? '', 2_000);
    queue.changeVisibility(second?.receipt ?? '', 1_000);
    await time.advance(1_500);
    expect(receive()).toEqual([]);
    await time.advance(500);
    expect(receive()).toEqual(['1', '2']);
  });

  test('swallows a repeated deduplication id for five minutes, also after its first was deleted', async () => {
    const { time, queue, send, receive } = setup();
    send('1', 'a', 'same');
    queue.delete(queue.receive()[0]?.receipt ?? '');
    send('1', 'a', 'same');
    expect(receive()).toEqual([]);
    await time.advance(5 * 60_000);
    send('1', 'a', 'same');
    expect(receive()).toEqual(['1']);
  });

  test('takes no receipt whose visibility timeout has passed', async () => {
    const { time, queue, send, receive } = setup();
    send('1');
    const [stale] = queue.receive();
    await time.advance(30_000);
    expect(queue.delete(stale?.receipt ?? '')).toBe(false);
    expect(receive()).toEqual(['1']);
    expect(queue.delete(stale?.receipt ?? '')).toBe(false);
  });

  test('dead-letters what was received too often, and lets go on those behind it', async () => {
    const { time, deadLetters, send, receive } = setup({ maxReceives: 2 });
    send('1');
    send('2');
    for (let i = 0; i < 2; i++) {
      expect(receive(1)).toEqual(['1']);
      await time.advance(30_000);
    }
    expect(receive()).toEqual(['2']);
    expect(deadLetters.messages().map(({ body }) => body)).toEqual(['1']);
  });

  test('forgets a message after its retention', async () => {
    const { time, queue, send, receive } = setup({ retentionMs: 60_000 });
    send('1');
    await time.advance(60_001);
    expect(receive()).toEqual([]);
    expect(queue.size).toBe(0);
  });
});

describe('a standard queue', () => {
  const standard = { type: 'standard' } as const;

  test('gives messages in any order', () => {
    const { queue } = setup({ ...standard, disturbance: { pick: (count) => count - 1 } });
    for (const body of ['1', '2', '3']) queue.send({ body });
    expect(queue.receive().map(({ body }) => body)).toEqual(['3', '2', '1']);
  });

  test('gives a message again that was deleted, where it is so disturbed', async () => {
    let times = 1;
    const { time, queue } = setup({ ...standard, disturbance: { again: () => (times-- > 0 ? 500 : undefined) } });
    queue.send({ body: '1' });
    queue.delete(queue.receive()[0]?.receipt ?? '');
    expect(queue.receivableAt()).toBe(time.now() + 500);
    await time.advance(500);
    const again = queue.receive();
    expect(again.map(({ receiveCount }) => receiveCount)).toEqual([2]);
    queue.delete(again[0]?.receipt ?? '');
    expect(queue.size).toBe(0);
  });
});

test('a waiting receiver goes on as soon as something is there, and otherwise when its time is over', async () => {
  const { time, queue, send } = setup();
  const waits: string[] = [];
  void queue.receivable(5_000, time).then(() => waits.push(`message at ${time.now()}`));
  const began = time.now();
  await time.advance(1_000);
  send('1');
  await time.settle();
  expect(waits).toEqual([`message at ${began + 1_000}`]);
  queue.receive();
  void queue.receivable(5_000, time).then(() => waits.push(`nothing at ${time.now()}`));
  await time.advance(6_000);
  expect(waits).toEqual([`message at ${began + 1_000}`, `nothing at ${began + 6_000}`]);
});
