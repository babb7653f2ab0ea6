import { describe, expect, type TestContext, test } from 'vitest';
import { WorkerProcess } from '../support/worker-process.ts';

const main = new URL('../support/worker-child.ts', import.meta.url);

function child(context: TestContext, ...faults: string[]): WorkerProcess {
  return new WorkerProcess(context, main, faults);
}

describe.concurrent('a worker that owns its process', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal}: jobs are handed back, the worker leaves, the promise resolves and the process ends by itself with 0`, async (context) => {
      const worker = child(context);
      await worker.hears('job-started');
      worker.process.kill(signal);
      expect(await worker.exits()).toBe(0);
      expect(worker.types.filter((type) => type !== 'renewed' && type !== 'begun')).toEqual([
        'registered',
        'job-started',
        'draining',
        'job-released',
        'left',
        'resolved',
      ]);
    }, 20_000);
  }

  test('a handler that will not stop by the deadline: exit code 1', async (context) => {
    const worker = child(context, 'stop hangs', 'short deadline');
    await worker.hears('job-started');
    worker.process.kill('SIGTERM');
    expect(await worker.exits()).toBe(1);
    expect(worker.told).toContainEqual({ workerId: 'w1', type: 'left', released: 0, abandoned: 1 });
  }, 20_000);

  test('a second signal ends the process at once, with 130', async (context) => {
    const worker = child(context, 'stop hangs');
    await worker.hears('job-started');
    worker.process.kill('SIGTERM');
    await worker.hears('draining');
    worker.process.kill('SIGTERM');
    expect(await worker.exits()).toBe(130);
    expect(worker.types).not.toContain('left');
  }, 20_000);

  test('a job still alive when the lease ends: the process ends with 70, and says why', async (context) => {
    const worker = child(context, 'stop hangs', 'no heartbeats');
    expect(await worker.exits()).toBe(70);
    expect(worker.types).toContain('lease-lost');
    expect(worker.types.at(-1)).toBe('overrun');
    const lines = worker.log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(lines).toContainEqual(expect.objectContaining({ level: 'error', message: 'overrun', keys: ['k'] }));
  }, 20_000);

  test('a worker that may not register ends with the error, not in silence', async (context) => {
    const worker = child(context, 'not permitted');
    expect(await worker.exits()).toBe(1);
    expect(worker.errors).toContain('needs grantWork');
    expect(worker.types).toEqual(['begun']);
  }, 20_000);

  test('a signal that comes before there is a worker ends the process, with 0: nothing is left behind', async (context) => {
    const worker = child(context, 'slow to begin');
    await worker.hears('begun');
    worker.process.kill('SIGTERM');
    expect(await worker.exits()).toBe(0);
  }, 20_000);

  test('answers probes while it works, on the port that its log names', async (context) => {
    const worker = child(context, 'health');
    await worker.hears('job-started');
    const lines = worker.log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { message: string; port?: number });
    const port = lines.find(({ message }) => message === 'health')?.port;
    const response = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect([response.status, await response.json()]).toMatchObject([200, { live: true, ready: true, jobs: 1 }]);
    worker.process.kill('SIGTERM');
    expect(await worker.exits()).toBe(0);
  }, 20_000);
});
