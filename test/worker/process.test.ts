import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, type TestContext, test } from 'vitest';

const main = new URL('../support/worker-child.ts', import.meta.url);

interface Told {
  readonly type: string;
}

/** A real process, ended with its test. */
class Child {
  readonly process: ChildProcess;
  readonly told: Told[] = [];
  readonly #exit: Promise<unknown[]>;
  log = '';
  errors = '';

  constructor({ onTestFinished }: TestContext, ...faults: string[]) {
    this.process = fork(main, faults, { execArgv: ['-C', 'holdfast-source'], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    this.process.on('message', (message) => this.told.push(message as Told));
    this.process.stdout?.on('data', (chunk) => {
      this.log += chunk;
    });
    this.process.stderr?.on('data', (chunk) => {
      this.errors += chunk;
    });
    this.#exit = once(this.process, 'exit');
    onTestFinished(() => void this.process.kill('SIGKILL'));
  }

  async hears(type: string): Promise<void> {
    while (!this.told.some((told) => told.type === type)) await once(this.process, 'message');
  }

  async exits(): Promise<unknown> {
    const [code, signal] = await this.#exit;
    return code ?? signal;
  }

  get types(): readonly string[] {
    return this.told.map(({ type }) => type);
  }
}

describe.concurrent('a worker that owns its process', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal}: jobs are handed back, the worker leaves, the promise resolves and the process ends by itself with 0`, async (context) => {
      const child = new Child(context);
      await child.hears('job-started');
      child.process.kill(signal);
      expect(await child.exits()).toBe(0);
      expect(child.types.filter((type) => type !== 'renewed')).toEqual([
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
    const child = new Child(context, 'stop hangs', 'short deadline');
    await child.hears('job-started');
    child.process.kill('SIGTERM');
    expect(await child.exits()).toBe(1);
    expect(child.told).toContainEqual({ workerId: 'w1', type: 'left', released: 0, abandoned: 1 });
  }, 20_000);

  test('a second signal ends the process at once, with 130', async (context) => {
    const child = new Child(context, 'stop hangs');
    await child.hears('job-started');
    child.process.kill('SIGTERM');
    await child.hears('draining');
    child.process.kill('SIGTERM');
    expect(await child.exits()).toBe(130);
    expect(child.types).not.toContain('left');
  }, 20_000);

  test('a job still alive when the lease ends: the process ends with 70, and says why', async (context) => {
    const child = new Child(context, 'stop hangs', 'no heartbeats');
    expect(await child.exits()).toBe(70);
    expect(child.types).toContain('lease-lost');
    expect(child.types.at(-1)).toBe('overrun');
    const lines = child.log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(lines).toContainEqual(expect.objectContaining({ level: 'error', message: 'overrun', keys: ['k'] }));
  }, 20_000);

  test('a worker that may not register ends with the error, not in silence', async (context) => {
    const child = new Child(context, 'not permitted');
    expect(await child.exits()).toBe(1);
    expect(child.errors).toContain('needs grantWork');
    expect(child.told).toEqual([]);
  }, 20_000);

  test('answers probes while it works, on the port that its log names', async (context) => {
    const child = new Child(context, 'health');
    await child.hears('job-started');
    const lines = child.log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { message: string; port?: number });
    const port = lines.find(({ message }) => message === 'health')?.port;
    const response = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect([response.status, await response.json()]).toMatchObject([200, { live: true, ready: true, jobs: 1 }]);
    child.process.kill('SIGTERM');
    expect(await child.exits()).toBe(0);
  }, 20_000);
});
