import { type ChildProcess, fork, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ChildOptions {
  /** Names it in errors, and its log. */
  readonly name: string;
  /** Its main file. */
  readonly script: URL;
  /** A file that is loaded before. */
  readonly preload?: URL;
  /** Its whole environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Where its log goes. */
  readonly folder: string;
}

const logTail = 2_000;

/**
 * A process that the demo started. It is in a group of its own, so that an interrupt typed at the terminal reaches the demo alone, which then
 * ends its processes in order; should the demo die, its end of the channel closes, and they end by themselves.
 */
export class Child {
  readonly name: string;
  readonly process: ChildProcess;
  /** The exit code, once all that it said has been heard. Never rejects. */
  readonly ended: Promise<number>;
  readonly #log: string;
  #mayEnd = false;
  #thaw: () => void = () => undefined;

  constructor({ name, script, preload, environment, folder }: ChildOptions) {
    this.name = name;
    this.#log = join(folder, `${name}.log`);
    const log = openSync(this.#log, 'a');
    this.process = fork(fileURLToPath(script), {
      // Not in the environment: it would reach the processes that this one starts.
      execArgv: ['--conditions', 'holdfast-source', ...(preload ? ['--import', preload.href] : [])],
      env: environment,
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    const isHeard = new Promise((resolve) => this.process.once('disconnect', resolve));
    this.ended = new Promise((resolve) => {
      this.process.once('error', () => resolve(127));
      this.process.once('exit', (code) => void isHeard.then(() => resolve(code ?? 137)));
    });
  }

  /** Whether it was told to end, or may for what was done to it. */
  get mayEnd(): boolean {
    return this.#mayEnd;
  }

  /** Rejects when it ends before it may. */
  async diesEarly(): Promise<never> {
    const code = await this.ended;
    if (this.mayEnd) return new Promise(() => undefined);
    throw this.failure(`ended by itself with exit code ${code}`);
  }

  /** Asks it to end; resolves to its exit code. It is killed at `graceMs`. */
  async end(graceMs: number): Promise<number> {
    this.#mayEnd = true;
    this.process.kill('SIGTERM');
    this.#thaw();
    const patience = setTimeout(() => this.process.kill('SIGKILL'), graceMs);
    return this.ended.finally(() => clearTimeout(patience));
  }

  /** Ends it in the middle of whatever it does. */
  kill(): Promise<number> {
    this.#mayEnd = true;
    this.process.kill('SIGKILL');
    return this.ended;
  }

  /** Stops it as it is. Should the demo die first, it goes on: it could not hear of that itself. */
  freeze(): void {
    const thaw = spawn('/bin/sh', ['-c', 'read -r _; kill -CONT "$0"', String(this.process.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.#thaw = () => void thaw.stdin.end();
    this.process.kill('SIGSTOP');
  }

  /** Lets it go on after `freeze`; resolves to its exit code, for it may end now. */
  thaw(): Promise<number> {
    this.#mayEnd = true;
    this.#thaw();
    return this.ended;
  }

  failure(fact: string): Error {
    return new Error(`${this.name} ${fact}; its log ends:\n${readFileSync(this.#log, 'utf8').slice(-logTail)}`);
  }
}
