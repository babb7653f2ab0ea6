/**
 * Runs a command that must not outlive whoever asked for it: `node leash.ts <folder> <command> [argument...]`.
 *
 * The asker holds the other end of this process's standard input and never writes to it. When that end closes (the asker let go, or it
 * died, by SIGKILL too: the kernel closes the pipe) the command's whole process group gets SIGTERM, then SIGKILL, and the folder, which
 * holds nothing that the command alone needed, is removed. A command that ends by itself leaves the folder to the asker and gives its
 * exit code on. The asker starts the leash detached, so an interrupt typed at a terminal, or a kill of the asker's group, does not reach
 * it before it has cleaned up.
 *
 * Crash points: asker dies → this cleans up. This is killed → the asker sees it end and removes the folder, but the command may live on;
 * nothing here kills it, so nobody should aim at a leash.
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';

const graceMs = 5_000;

const [folder, command, ...args] = process.argv.slice(2);
if (folder === undefined || command === undefined) throw new Error('usage: leash.ts <folder> <command> [argument...]');

const child = spawn(command, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
let released = false;

function signalGroup(signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // The group is gone, which is what was wanted.
  }
}

function release(): void {
  if (released) return;
  released = true;
  signalGroup('SIGTERM');
  setTimeout(() => signalGroup('SIGKILL'), graceMs).unref();
}

process.stdin.on('end', release).on('error', release).resume();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, release);

child.on('error', (error) => {
  process.stderr.write(`${command}: ${error.message}\n`);
  process.exit(127);
});
child.on('exit', (code, signal) => {
  // What the command started and did not wait for.
  signalGroup('SIGKILL');
  if (released) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.exit(code ?? (signal === 'SIGKILL' ? 137 : 143));
});
