/** `npm run demo`: the main job on real input, from an empty machine to a verdict. Exit code 1 where a number is not what the guarantees say. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { StackError } from '../stack/errors.ts';
import { type Played, play } from './play.ts';
import { Progress } from './progress.ts';
import { sizesOf } from './scenario.ts';
import { tableOf } from './summary.ts';
import { checksOf, isBroken } from './verdict.ts';

const usage = `npm run demo -- [--jobs 200] [--workers 3] [--seed 1] [--json] [--keep]
  --json   the last line of standard output is one JSON object
  --keep   feeds, requests, sink and logs stay`;

const interrupted = new AbortController();
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.on(signal, () => {
    // The second time somebody is in a hurry; what the demo started ends with it.
    if (interrupted.signal.aborted) process.exit(code);
    process.exitCode = code;
    interrupted.abort(new Error('interrupted'));
  });
}

try {
  const { values } = parseArgs({
    options: {
      jobs: { type: 'string', default: '200' },
      workers: { type: 'string', default: '3' },
      seed: { type: 'string', default: '1' },
      json: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) process.stdout.write(`${usage}\n`);
  else report(await playIn(values), values.json);
} catch (error) {
  process.exitCode ||= 1;
  if (!interrupted.signal.aborted)
    process.stderr.write(`${error instanceof StackError ? error.message : String(error instanceof Error ? error.stack : error)}\n`);
}

interface Options {
  readonly jobs: string;
  readonly workers: string;
  readonly seed: string;
  readonly keep: boolean;
}

async function playIn({ jobs, workers, seed, keep }: Options): Promise<Played> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-demo-'));
  using progress = new Progress(process.stderr);
  try {
    const sizes = sizesOf(countOf('jobs', jobs, 8), countOf('workers', workers, 1));
    return await play({ sizes, seed: countOf('seed', seed, 0), folder, progress, signal: interrupted.signal });
  } finally {
    if (keep) progress.say(`kept: ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  }
}

function countOf(name: string, text: string, least: number): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < least)
    throw new Error(`--${name} is "${text}"; it must be a whole number from ${least}\n${usage}`);
  return count;
}

function report({ counts, asked, settledOnce }: Played, asJson: boolean): void {
  const checks = checksOf(counts, asked, settledOnce);
  process.stdout.write(`${tableOf(checks, counts.seconds)}\n`);
  for (const { name, is, mustBe } of checks.filter(isBroken)) {
    process.exitCode = 1;
    process.stderr.write(`${name} is ${is}, and must be ${mustBe}\n`);
  }
  if (asJson) process.stdout.write(`${JSON.stringify(counts)}\n`);
}
