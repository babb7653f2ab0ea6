import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from './environment.ts';
import { StackError } from './errors.ts';
import { removeFolder, run } from './leashed.ts';
import { findPython } from './python.ts';

const requirements = fileURLToPath(new URL('./requirements.txt', import.meta.url));
const installations = fileURLToPath(new URL('../.stack/', import.meta.url));

/**
 * Installs MiniStack into a folder of the project, once per set of requirements, and returns the Python that runs it.
 *
 * Two processes may install at once: each builds a folder of its own, the first to finish renames it into place and the others take
 * that one. An installation counts only when it answers (a Python that was upgraded or removed below it leaves one that does not).
 */
export async function installMiniStack(log: (line: string) => void, signal?: AbortSignal): Promise<string> {
  const wanted = await readFile(requirements, 'utf8');
  const version = /^ministack==(\S+)$/m.exec(wanted)?.[1];
  if (version === undefined) throw new StackError(`${requirements} names no version of ministack`);
  const installation = join(installations, `ministack-${version}-${createHash('sha256').update(wanted).digest('hex').slice(0, 8)}`);
  const python = pythonOf(installation);
  if ((await installedVersion(python)) === version) return python;

  const systemPython = await findPython();
  log(`installing MiniStack ${version}, once`);
  await mkdir(installations, { recursive: true });
  const folder = await mkdtemp(join(installations, 'installing-'));
  try {
    const made = join(folder, 'made');
    const options = { cwd: folder, environment: childEnvironment({}), folder, signal };
    await run('Making a virtual environment for MiniStack', systemPython, ['-I', '-m', 'venv', made], options);
    const pip = ['-I', '-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check', '--requirement', requirements];
    await run(`Installing MiniStack ${version}`, pythonOf(made), pip, options);
    await putInPlace(made, installation, join(folder, 'broken'), version);
  } finally {
    await removeFolder(folder);
  }
  return python;
}

async function putInPlace(made: string, installation: string, aside: string, version: string): Promise<void> {
  if ((await installedVersion(pythonOf(installation))) === version) return;
  await rename(installation, aside).catch(ignoreCode('ENOENT'));
  // Another process came between: its installation is as good as this one.
  await rename(made, installation).catch(ignoreCode('ENOTEMPTY', 'EEXIST'));
}

function ignoreCode(...codes: readonly string[]) {
  return (error: NodeJS.ErrnoException): void => {
    if (!codes.includes(error.code ?? '')) throw error;
  };
}

// The scripts of a virtual environment name the folder it was made in; only its Python survives the renaming.
function pythonOf(venv: string): string {
  return join(venv, 'bin', 'python');
}

async function installedVersion(python: string): Promise<string | undefined> {
  const question = 'import importlib.metadata, hypercorn; print(importlib.metadata.version("ministack"))';
  const answer = await promisify(execFile)(python, ['-I', '-c', question]).catch(() => undefined);
  return answer?.stdout.trim();
}
