import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Mutant } from './mutants.ts';
import { ROOT } from './transform.ts';

const VITEST = fileURLToPath(new URL('node_modules/vitest/vitest.mjs', ROOT));
const CONFIG = 'test/simulation/focused.config.ts';

/** The name of the first test of the file that fails on the mutant's code; undefined where all of them pass. Throws where they cannot be run. */
export async function failingTest({ name }: Mutant, file: string): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutant-'));
  const report = join(folder, 'report.json');
  try {
    const args = [VITEST, 'run', '--config', CONFIG, '--reporter', 'json', '--outputFile', report, file];
    const child = spawn(process.execPath, args, {
      cwd: fileURLToPath(ROOT),
      env: { ...process.env, HOLDFAST_MUTANT: name },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    child.stderr.on('data', (chunk) => {
      errors += chunk;
    });
    await once(child, 'close');
    const { numTotalTests, testResults } = JSON.parse(await readFile(report, 'utf8').catch(() => '{}')) as Partial<Report>;
    if (!numTotalTests) throw new Error(`${file}: no test was run on the code of "${name}": ${errors}`);
    const all = testResults?.flatMap(({ assertionResults }) => assertionResults);
    return all?.find(({ status }) => status === 'failed')?.fullName;
  } finally {
    await rm(folder, { recursive: true });
  }
}

interface Report {
  readonly numTotalTests: number;
  readonly testResults: readonly { readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[] }[];
}
