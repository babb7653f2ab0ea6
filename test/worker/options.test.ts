import { afterEach, expect, test, vi } from 'vitest';
import { defineHandler } from '../../lib/worker/handler.ts';
import { runWorker, startWorker, type WorkerOptions } from '../../lib/worker/index.ts';
import { WorkerStage } from '../support/worker-stage.ts';

const handler = defineHandler({ start: () => ({ stop() {} }) });

afterEach(() => {
  vi.unstubAllEnvs();
});

/** What both ways of starting say; nothing may have been reached for by then. */
async function refusalOf(options: object): Promise<string> {
  const all = { handler, ...options } as WorkerOptions;
  const errors = await Promise.all([startWorker(all), runWorker(all)].map((start) => start.catch((error: unknown) => error)));
  expect(errors[0]).toMatchObject({ name: 'PoolError', code: 'invalid-request', retryable: false });
  expect((errors[1] as Error).message).toBe((errors[0] as Error).message);
  return (errors[0] as Error).message;
}

const limits = {
  capacity: 'a whole number from 1 to 10000 jobs',
  drainDeadlineMs: 'a whole number from 1 to 86400000 ms',
  stopDeadlineMs: 'a whole number from 1 to 86400000 ms',
};
const notNumbers = [
  [0, '0'],
  [-1, '-1'],
  [null, 'null'],
  ['', '""'],
  ['20', '"20"'],
  [Number.NaN, 'NaN'],
  [1e12, '1000000000000'],
  [Number.POSITIVE_INFINITY, 'Infinity'],
  [1.5, '1.5'],
  [true, 'true'],
  [[5], 'an object'],
] as const;

for (const [option, limit] of Object.entries(limits)) {
  for (const [value, shown] of notNumbers) {
    test(`${option} ${shown} is refused, with the option, the value and the limits (F37)`, async () => {
      expect(await refusalOf({ [option]: value })).toBe(`option "${option}" is ${shown}; allowed: ${limit}`);
    });
  }
}

test('a deadline of a drain is refused likewise, and the worker goes on', async () => {
  const stage = await WorkerStage.registered();
  for (const [value, shown] of notNumbers) {
    await expect(stage.worker.drain({ deadlineMs: value as number })).rejects.toThrow(
      `option "deadlineMs" is ${shown}; allowed: a whole number from 1 to 86400000 ms`,
    );
  }
  expect(stage.worker.state).toBe('active');
});

test('undefined is the default everywhere', async () => {
  vi.stubEnv('HOLDFAST_POOL', '');
  vi.stubEnv('HOLDFAST_POOL_CONFIG', '');
  const unset = {
    capacity: undefined,
    workerId: undefined,
    drainDeadlineMs: undefined,
    stopDeadlineMs: undefined,
    health: undefined,
    logger: undefined,
  };
  await expect(startWorker({ handler, ...unset, onEvent: undefined, pool: undefined })).rejects.toMatchObject({ code: 'no-such-pool' });
});

test('what is no option of its kind is refused by name', async () => {
  for (const workerId of ['', null, 7, '\ud800', 'é'.repeat(65)]) {
    expect(await refusalOf({ workerId })).toMatch(/^option "workerId" is .*; allowed: 1 to 128 bytes of UTF-8, without lone surrogates$/);
  }
  expect(await refusalOf({ pool: '' })).toMatch(/^option "pool" is ""; allowed: a name/);
  expect(await refusalOf({ handler: { run() {} } })).toBe('option "handler" is an object; allowed: what defineHandler returns');
  expect(await refusalOf({ handler: undefined })).toBe('option "handler" is undefined; allowed: what defineHandler returns');
  expect(await refusalOf({ onEvent: 'log' })).toBe('option "onEvent" is "log"; allowed: a function');
  expect(await refusalOf({ logger: { info() {} } })).toMatch(/^option "logger" is an object; allowed: an object with functions/);
});

test('the health port is a port, 0 for any, or off', async () => {
  for (const [health, message] of [
    [{ port: -1 }, 'option "health.port" is -1; allowed: a whole number from 0 to 65535'],
    [{ port: 65_536 }, 'option "health.port" is 65536; allowed: a whole number from 0 to 65535'],
    [{ port: '8080' }, 'option "health.port" is "8080"; allowed: a whole number from 0 to 65535'],
    [{}, 'option "health.port" is undefined; allowed: a whole number from 0 to 65535'],
    [8_080, 'option "health" is 8080; allowed: { port }, or "off"'],
    [null, 'option "health" is null; allowed: { port }, or "off"'],
  ] as const) {
    await expect(runWorker({ handler, health } as WorkerOptions)).rejects.toThrow(message);
  }
});

test('numbers from the environment keep the same limits; an empty variable is none', async () => {
  for (const text of ['0', '-1', 'NaN', '1e12', '1000000000000', 'many', ' 5', '1.5']) {
    vi.stubEnv('HOLDFAST_CAPACITY', text);
    expect(await refusalOf({})).toBe(`HOLDFAST_CAPACITY is "${text}"; allowed: a whole number from 1 to 10000 jobs`);
  }
  vi.stubEnv('HOLDFAST_CAPACITY', '');
  vi.stubEnv('HOLDFAST_HEALTH_PORT', '80801');
  await expect(runWorker({ handler })).rejects.toThrow('HOLDFAST_HEALTH_PORT is "80801"; allowed: a whole number from 0 to 65535');
  vi.stubEnv('HOLDFAST_HEALTH_PORT', '');
  vi.stubEnv('HOLDFAST_LOG_LEVEL', 'loud');
  await expect(runWorker({ handler })).rejects.toThrow('HOLDFAST_LOG_LEVEL is "loud"; allowed: debug, info, warn, error');
});
