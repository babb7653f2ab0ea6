import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Environment, redact } from './environment.ts';
import { StackError } from './errors.ts';

const leash = fileURLToPath(new URL('./leash.ts', import.meta.url));
const tailLength = 4_000;

export interface LeashOptions {
  readonly cwd: string;
  /** The command's whole environment. */
  readonly environment: Environment;
  /** Removed when the command is ended before its own time: by `end`, or because this process is gone. */
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
  /** Ends the command and everything it started, and removes its folder. */
  end(): Promise<void>;
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
  const keep = (chunk: Buffer): void => {
    tail = (tail + chunk.toString()).slice(-tailLength);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  // Closing the pipe of a leash that has just ended by itself is not an error.
  child.stdin?.on('error', () => undefined);
  const ended = new Promise<Ended>((resolve) => {
    child.on('error', (error) => resolve({ code: 127, output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 137, output: tail }));
  });
  return {
    ended,
    async end() {
      child.stdin?.end();
      await ended;
      await rm(options.folder, { recursive: true, force: true });
    },
  };
}

/** Runs a command to its end. Throws `StackError` when it fails, and the signal's reason when aborted. */
export async function run(
  what: string,
  command: string,
  args: readonly string[],
  options: LeashOptions & { readonly signal?: AbortSignal | undefined },
) {
  const { signal } = options;
  signal?.throwIfAborted();
  const leashed = startLeashed(command, args, options);
  const onAbort = (): void => void leashed.end();
  signal?.addEventListener('abort', onAbort, { once: true });
  const { code, output } = await leashed.ended;
  signal?.removeEventListener('abort', onAbort);
  signal?.throwIfAborted();
  if (code !== 0) throw new StackError(`${what} failed (exit code ${code}):\n${redact(output.trim(), options.environment)}`);
}
