import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { findPython } from '../../stack/python.ts';

const made: string[] = [];
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A PATH that holds these commands alone; each is a shell script. */
function setup(commands: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-python-test-'));
  made.push(folder);
  for (const [name, script] of Object.entries(commands)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return { PATH: folder };
}

it('says what to install when there is no Python', async () => {
  await expect(findPython(setup({}))).rejects.toThrow(
    /needs Python 3\.10 or later.*no python3 was found on the PATH\.\nInstall it .*AWS_ENDPOINT_URL/s,
  );
});

it('says what it found when every Python is too old', async () => {
  const path = setup({ python3: 'echo 3.9', python: 'echo 2.7' });
  await expect(findPython(path)).rejects.toThrow('python3 is 3.9, python is 2.7.\nInstall it');
});

it('says that the venv module is missing, and where it comes from', async () => {
  const path = setup({ python3: 'echo 3.12; exit 1' });
  await expect(findPython(path)).rejects.toThrow(/python3 is 3\.12 but has no venv module\.\n.*python3-venv/);
});

it('takes a newer Python that stands beside an old one', async () => {
  await expect(findPython(setup({ python3: 'echo 3.9', 'python3.12': 'echo 3.12' }))).resolves.toBe('python3.12');
});

it('passes over a command that is no Python', async () => {
  const path = setup({ python3: 'echo "python3: command not found" >&2; exit 127', python: 'echo 3.13' });
  await expect(findPython(path)).resolves.toBe('python');
});
