import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'vitest';

/** What a worker tells its parent: its events, and more of its own. */
interface Told {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A real process, ended with its test. */
export class WorkerProcess {
  readonly process: ChildProcess;
  readonly told: Told[] = [];
  readonly #exit: Promise<unknown[]>;
  log = '';
  errors = '';

  constructor(
    { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
    main: URL,
    faults: readonly string[],
    env: NodeJS.ProcessEnv = process.env,
  ) {
    this.process = fork(main, faults, { env, execArgv: ['-C', 'holdfast-source'], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
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
