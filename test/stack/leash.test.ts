import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { StackError } from '../../stack/errors.ts';
import { run, startLeashed } from '../../stack/leashed.ts';

const made: string[] = [];
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A folder for the command and, beside it, the file where a process that the command starts says its pid. */
function setup() {
  const base = mkdtempSync(join(tmpdir(), 'holdfast-leash-test-'));
  made.push(base);
  const folder = join(base, 'folder');
  mkdirSync(folder);
  const pidFile = join(base, 'pid');
  const lingering = `sleep 600 & echo $! > ${pidFile}; wait`;
  const environment = { PATH: process.env.PATH ?? '' };
  return { base, folder, pidFile, lingering, options: { cwd: base, environment, folder } };
}

async function pidIn(file: string): Promise<number> {
  return vi.waitFor(() => {
    const pid = Number(readFileSync(file, 'utf8'));
    expect(pid).toBeGreaterThan(0);
    return pid;
  }, 4_000);
}

function isAlive(pid: number): boolean {
  try {
    // A process that ended and was not yet waited for by its new parent still takes signals.
    return (
      process.kill(pid, 0) && !/^State:\s+Z/m.test(existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : '')
    );
  } catch {
    return false;
  }
}

it('ends a command, what it started and its folder when its starter is killed', async () => {
  const { base, folder, pidFile, lingering, options } = setup();
  const starter = join(base, 'starter.ts');
  const module = new URL('../../stack/leashed.ts', import.meta.url).href;
  writeFileSync(
    starter,
    `import { startLeashed } from ${JSON.stringify(module)};
     startLeashed('sh', ['-c', ${JSON.stringify(lingering)}], ${JSON.stringify(options)});`,
  );
  const running = spawn(process.execPath, [starter], { stdio: 'ignore' });
  const pid = await pidIn(pidFile);
  running.kill('SIGKILL');
  await vi.waitFor(() => expect([isAlive(pid), existsSync(folder)]).toEqual([false, false]), 4_000);
});

it('ends a command, what it started and its folder when released', async () => {
  const { folder, pidFile, lingering, options } = setup();
  const leashed = startLeashed('sh', ['-c', lingering], options);
  const pid = await pidIn(pidFile);
  leashed.release();
  await leashed.ended;
  expect(existsSync(folder)).toBe(false);
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 4_000);
});

it('ends what a command left running, and keeps the folder, when the command ends by itself', async () => {
  const { folder, pidFile, options } = setup();
  await run('leaving', 'sh', ['-c', `sleep 600 > /dev/null 2>&1 & echo $! > ${pidFile}`], options);
  const pid = await pidIn(pidFile);
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 4_000);
  expect(existsSync(folder)).toBe(true);
});

it('fails with the exit code and the end of the output, without secrets', async () => {
  const { options } = setup();
  const environment = { ...options.environment, AWS_SECRET_ACCESS_KEY: 'a-secret-of-this-test' };
  const script = 'echo "no such stack: $AWS_SECRET_ACCESS_KEY" >&2; exit 3';
  const failed = run('cdk deploy', 'sh', ['-c', script], { ...options, environment });
  await expect(failed).rejects.toThrow(new StackError('cdk deploy failed (exit code 3):\nno such stack: ***'));
});

it('names a command that cannot be started', async () => {
  const { options } = setup();
  await expect(run('Installing', 'no-such-command', [], options)).rejects.toThrow(
    /^Installing failed \(exit code 127\):\nno-such-command: .*ENOENT/,
  );
});

it('ends a run that is aborted, with the reason it was aborted for', async () => {
  const { pidFile, lingering, options } = setup();
  const abort = new AbortController();
  const running = run('lingering', 'sh', ['-c', lingering], { ...options, signal: abort.signal });
  const pid = await pidIn(pidFile);
  abort.abort(new Error('changed my mind'));
  await expect(running).rejects.toThrow('changed my mind');
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 4_000);
});
