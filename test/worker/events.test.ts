import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, test } from 'vitest';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { channelName, type WorkerEvent } from '../../lib/worker/events.ts';
import { guarded, jsonLogger } from '../../lib/worker/logger.ts';
import { type SentCommand, WorkerStage } from '../support/worker-stage.ts';

const payload = new TextEncoder().encode('{}');
const start: SentCommand = {
  op: 'start',
  key: 'k',
  dispatchId: 'd1',
  fingerprint: fingerprintOf('k', payload),
  payload,
  fence: 5,
  attempt: 1,
};
const stop: SentCommand = { op: 'stop', key: 'k', dispatchId: 'd1', fingerprint: start.fingerprint, fence: 5, reason: 'replaced' };

test('a throw in onEvent is logged, and nothing else comes of it', async () => {
  const stage = await WorkerStage.registered({
    onEvent() {
      throw new Error('metrics are down');
    },
  });
  await stage.send(start, stop);
  expect(stage.of('stopped')).toHaveLength(1);
  expect(stage.log.filter(({ message }) => message === 'onEvent threw').length).toBeGreaterThanOrEqual(3);
});

test('a logger that throws takes nothing down', async () => {
  const broken = () => {
    throw new Error('disk full');
  };
  const logger = guarded({ debug: broken, info: broken, warn: broken, error: broken });
  expect(() => logger.error('x')).not.toThrow();
});

test('the same events go to the diagnostics channel', async () => {
  const heard: WorkerEvent[] = [];
  const hear = (event: unknown) => {
    if ((event as WorkerEvent).workerId === 'w-channel') heard.push(event as WorkerEvent);
  };
  subscribe(channelName, hear);
  try {
    const stage = await WorkerStage.registered({ workerId: 'w-channel' });
    expect(heard).toEqual(stage.events);
    expect(heard).toMatchObject([{ type: 'registered', workerId: 'w-channel', leaseMs: 30_000 }]);
  } finally {
    unsubscribe(channelName, hear);
  }
});

test('a job is told of by key, dispatch and fence', async () => {
  const stage = await WorkerStage.registered();
  await stage.send(start, stop);
  const of = { key: 'k', dispatchId: 'd1', fence: 5 };
  expect(stage.events.slice(1)).toEqual([
    { workerId: 'w1', type: 'job-started', ...of, attempt: 1 },
    { workerId: 'w1', type: 'job-stopped', ...of, reason: 'replaced' },
  ]);
});

test('a command that cannot be read is dropped, told with its fault and logged as an error; what comes after it is done', async () => {
  const stage = await WorkerStage.registered();
  for (const body of [
    'not json',
    '{}',
    '[]',
    'null',
    '{"v":99,"op":"start"}',
    '{"v":1,"op":"dance","session":"s"}',
    `{"v":1,"op":"start","session":"${stage.session}"}`,
  ]) {
    await stage.sendBody(body);
  }
  await stage.send(start);
  expect(stage.eventsOf('command-dropped').map(({ why, detail }) => [why, detail !== ''])).toEqual(Array(7).fill(['unreadable', true]));
  expect(stage.log.filter(({ level }) => level === 'error')).toHaveLength(7);
  expect(stage.of('started')).toHaveLength(1);
  expect(stage.worker.health).toMatchObject({ live: true, ready: true });
});

test('the default logger writes a line of JSON per message, errors with their causes, and never a line that is none', () => {
  const lines: string[] = [];
  const logger = jsonLogger(
    (line) => lines.push(line),
    () => 0,
    'info',
  );
  logger.debug('not shown');
  logger.info('started', { key: 'a\nb' });
  logger.error('failed', { error: new Error('outer', { cause: new TypeError('inner') }), big: 12n });
  expect(lines.map((line) => line.endsWith('\n'))).toEqual([true, true]);
  expect(JSON.parse(lines[0] as string)).toEqual({ time: '1970-01-01T00:00:00.000Z', level: 'info', message: 'started', key: 'a\nb' });
  expect(JSON.parse(lines[1] as string)).toMatchObject({
    level: 'error',
    big: '12',
    error: { message: 'outer', cause: { name: 'TypeError', message: 'inner' } },
  });
});
