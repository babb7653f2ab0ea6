import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Environment, redact } from './environment.ts';
import { StackError } from './errors.ts';

const leash = fileURLToPath(new URL('./leash.ts', import.meta.url));
const tailLength = 4_000;

/** Removes a folder, whoever may still be writing into it. */
export function removeFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

export interface LeashOptions {
  readonly cwd: string;
  /** The command's whole environment. */
  readonly environment: Environment;
  /** Removed when the command is ended before its own time: by `release`, or because this process is gone. */
  readonly folder: string;
  /** A file descriptor that takes the command's output. Default: kept in memory, see `Ended.output`. */
  readonly log?: number;
}

/** How a command ended, and the last of what it printed (empty where a log took it). */
export interface Ended {
  readonly code: number;
  readonly output: string;
}

export interface Leashed {
  /** Settles when the command has ended, by itself or not. Never rejects. */
  readonly ended: Promise<Ended>;
  /** Ends the command and everything it started, and removes its folder; `ended` says when. */
  release(): void;
}

/** Starts a command that does not outlive this process, however this process ends. */
export function startLeashed(command: string, args: readonly string[], options: LeashOptions): Leashed {
  const output = options.log ?? 'pipe';
  const child = spawn(process.execPath, [leash, options.folder, command, ...args], {
    cwd: options.cwd,
    env: options.environment,
    detached: true,
    stdio: ['pipe', output, output],
  });
  let tail = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      tail = (tail + text).slice(-tailLength);
    });
  }
  // Closing the pipe of a leash that has just ended by itself is not an error.
  child.stdin?.on('error', () => undefined);
  const ended = new Promise<Ended>((resolve) => {
    child.on('error', (error) => resolve({ code: 127, output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 137, output: tail }));
  });
  return { ended, release: () => void child.stdin?.end() };
}

export interface RunOptions extends LeashOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Runs a command to its end; `what` names it in errors. Throws `StackError` when it fails, and the signal's reason when aborted. */
export async function run(what: string, command: string, args: readonly string[], options: RunOptions): Promise<void> {
  const { signal } = options;
  signal?.throwIfAborted();
  const leashed = startLeashed(command, args, options);
  signal?.addEventListener('abort', leashed.release, { once: true });
  const { code, output } = await leashed.ended;
  signal?.removeEventListener('abort', leashed.release);
  signal?.throwIfAborted();
  if (code !== 0) throw new StackError(`${what} failed (exit code ${code}):\n${redact(output.trim(), options.environment)}`);
}
