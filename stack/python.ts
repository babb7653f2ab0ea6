import { execFile } from 'node:child_process';
import { StackError } from './errors.ts';

const oldest = { major: 3, minor: 10 };
// macOS keeps an old `python3` of its own in front of a newer one that was installed beside it.
const names = ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python3.10'];
// Debian splits `ensurepip` off into python3-venv: without it `-m venv` fails half-way.
const question = 'import sys; print("%d.%d" % sys.version_info[:2]); sys.stdout.flush(); import venv, ensurepip';

/** Finds a Python that can run MiniStack in a virtual environment. Throws `StackError`, saying what was found and what to install. */
export async function findPython(environment: NodeJS.ProcessEnv = process.env): Promise<string> {
  const found: string[] = [];
  for (const name of names) {
    const answer = await ask(name, environment);
    if (answer === undefined) continue;
    const [major = 0, minor = 0] = answer.version.split('.').map(Number);
    const tooOld = major < oldest.major || (major === oldest.major && minor < oldest.minor);
    if (!tooOld && answer.venv) return name;
    found.push(`${name} is ${answer.version}${tooOld ? '' : ' but has no venv module'}`);
  }
  throw new StackError(
    `The local stack runs MiniStack, which needs Python ${oldest.major}.${oldest.minor} or later with its venv module; ${found.length === 0 ? 'no python3 was found on the PATH' : found.join(', ')}.\n` +
      'Install it (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python), or set AWS_ENDPOINT_URL, AWS_REGION, ' +
      'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to use an AWS-compatible endpoint of your own.',
  );
}

function ask(name: string, env: NodeJS.ProcessEnv): Promise<{ readonly version: string; readonly venv: boolean } | undefined> {
  return new Promise((resolve) => {
    execFile(name, ['-I', '-c', question], { env, timeout: 10_000 }, (error, stdout) => {
      const version = stdout.trim();
      resolve(/^\d+\.\d+$/.test(version) ? { version, venv: error === null } : undefined);
    });
  });
}
