/** `npm run demo`: the main job on real input, from an empty machine to a verdict. Exit code 1 where a number is not what the guarantees say. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { StackError } from '../stack/errors.ts';
import type { Counted } from './count.ts';
import { play } from './play.ts';
import { Progress } from './progress.ts';
import { type Mishap, mishaps, sizesOf } from './scenario.ts';
import { tableOf } from './summary.ts';
import { type Counts, checksOf, isBroken, wanted } from './verdict.ts';

const usage = `npm run demo -- [--jobs 200] [--workers 3] [--seed 1] [--mishaps ${mishaps.join(',')}] [--json] [--keep]
  --mishaps   what happens to workers; "none": nothing
  --json      the last line of standard output is one JSON object
  --keep      feeds, requests, sink and logs stay`;

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
      mishaps: { type: 'string', default: mishaps.join() },
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
  readonly mishaps: string;
  readonly keep: boolean;
}

interface Played extends Counted {
  readonly counts: Counts;
}

async function playIn({ jobs, workers, seed, mishaps, keep }: Options): Promise<Played> {
  const sizes = sizesOf(countOf('jobs', jobs, 8), countOf('workers', workers, 2), mishapsOf(mishaps));
  const options = { sizes, seed: countOf('seed', seed, 0), signal: interrupted.signal };
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-demo-'));
  using progress = new Progress(process.stderr);
  try {
    const played = await play({ ...options, folder, progress });
    return { ...played, counts: { ...played.counts, seconds: Math.round(progress.seconds * 10) / 10 } };
  } finally {
    if (keep) progress.say(`kept: ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  }
}

function mishapsOf(text: string): readonly Mishap[] {
  const isMishap = (name: string): name is Mishap => mishaps.some((each) => each === name);
  const names = text === 'none' ? [] : text.split(',');
  if (!names.every(isMishap)) throw new Error(`--mishaps is "${text}"; it must be some of ${mishaps.join()}, or "none"\n${usage}`);
  return [...new Set(names)];
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
  for (const check of checks.filter(isBroken)) {
    process.exitCode = 1;
    process.stderr.write(`${check.name} is ${check.is}, and must be ${wanted(check)}\n`);
  }
  if (asJson) process.stdout.write(`${JSON.stringify(counts)}\n`);
}
