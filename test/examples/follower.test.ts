import { appendFileSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RetryableError, StoppingError, type StopReason } from 'holdfast/worker';
import { afterEach, expect, test } from 'vitest';
import { follower } from '../../examples/follow/follower.ts';
import { Sink } from '../../examples/follow/sink.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

function setup() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-follower-'));
  folders.push(folder);
  const file = join(folder, 'feed');
  writeFileSync(file, '');
  const database = join(folder, 'sink.db');
  const sink = new Sink(database);
  return { file, database, sink, [Symbol.dispose]: () => sink[Symbol.dispose]() };
}

/** A job as the runtime hands it to the handler. */
async function startJob(sink: Sink, file: string, fence: number) {
  const lost = new AbortController();
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const running = await follower(sink).start({
    ...{ key: 'k', dispatchId: 'd', fence, attempt: 1, log },
    payload: Buffer.from(JSON.stringify({ file })),
    lost: lost.signal,
    signal: new AbortController().signal,
  });
  const stopping = (reason: StopReason, mayWrite: boolean) => ({ reason, mayWrite, deadline: new AbortController().signal });
  return {
    done: running.done,
    stop: async () => running.stop(stopping('stop-requested', true)),
    lose: async () => {
      lost.abort(new StoppingError(stopping('lease-lost', false)));
      await running.stop(stopping('lease-lost', false));
    },
  };
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('it did not come true');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('a job that was lost writes nothing more, whatever its feed has by then', async () => {
  using t = setup();
  const job = await startJob(t.sink, t.file, 1);
  appendFileSync(t.file, 'one\n');
  await until(() => t.sink.lines('k').length === 1);
  appendFileSync(t.file, 'two\n');
  await job.lose();
  expect(t.sink.lines('k')).toHaveLength(1);
});

test('the next owner goes on where the last one stopped, and every line is there once', async () => {
  using t = setup();
  const first = await startJob(t.sink, t.file, 1);
  appendFileSync(t.file, 'one\ntw');
  await until(() => t.sink.lines('k').length === 1);
  await first.lose();
  appendFileSync(t.file, 'o\nthree\n');
  using elsewhere = new Sink(t.database);
  const second = await startJob(elsewhere, t.file, 2);
  await until(() => t.sink.lines('k').length === 3);
  await second.stop();
  expect(t.sink.lines('k').map(({ text }) => text)).toEqual(['one', 'two', 'three']);
  expect(t.sink.tally()).toEqual({ recorded: 3, duplicated: 0, fencedWrites: 0, handlerStarts: 2, overlaps: 0 });
});

test('an owner that was replaced without knowing it is refused by the sink, and fails (F36)', async () => {
  using t = setup();
  const stale = await startJob(t.sink, t.file, 1);
  using elsewhere = new Sink(t.database);
  await until(() => t.sink.tally().handlerStarts === 1);
  const current = await startJob(elsewhere, t.file, 2);
  await until(() => t.sink.tally().handlerStarts === 2);
  appendFileSync(t.file, 'one\n');
  await expect(stale.done).rejects.toThrow('a higher fence than 1 has been seen');
  await until(() => t.sink.lines('k').length === 1);
  await current.stop();
  expect(t.sink.tally()).toMatchObject({ recorded: 1, duplicated: 0, fencedWrites: 1, overlaps: 1 });
});

test('a stop takes along what the feed has by then', async () => {
  using t = setup();
  const job = await startJob(t.sink, t.file, 1);
  appendFileSync(t.file, 'one\ntwo\n');
  await job.stop();
  expect(t.sink.lines('k')).toHaveLength(2);
});

test('the job succeeds where its feed ends, and says how many lines it has', async () => {
  using t = setup();
  appendFileSync(t.file, 'one\ntwo\n.\n');
  expect(await (await startJob(t.sink, t.file, 1)).done).toEqual({ lines: 2 });
  expect(await (await startJob(t.sink, t.file, 2)).done).toEqual({ lines: 2 });
  expect(t.sink.tally()).toMatchObject({ recorded: 2, duplicated: 0 });
});

test('a feed that is not there yet is tried again', async () => {
  using t = setup();
  const job = await startJob(t.sink, `${t.file}-of-tomorrow`, 1);
  await expect(job.done).rejects.toBeInstanceOf(RetryableError);
});
