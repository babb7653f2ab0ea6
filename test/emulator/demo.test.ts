import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { mishaps } from '../../demo/scenario.ts';
import type { Counts } from '../../demo/verdict.ts';

const spread = { min: expect.any(Number), median: expect.any(Number), max: expect.any(Number) };

// A worker that falls silent is found by the sweep, and that begins a minute after a deployment: most of the time this waits.
test('the demo finds every number as the guarantees say, and ends with one JSON line (G1-G8, P6, P16)', { timeout: 300_000 }, async () => {
  const run = fileURLToPath(new URL('../../demo/run.ts', import.meta.url));
  // It rejects where the exit code is not 0, with all that the demo said.
  const { stdout } = await promisify(execFile)(process.execPath, [
    '-C',
    'holdfast-source',
    run,
    '--jobs',
    '12',
    '--workers',
    '2',
    '--json',
  ]);
  const counts = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Counts;
  expect(counts).toEqual({
    requested: 66,
    dispatches: 18,
    started: 14,
    refused: { 'key-busy': 4, 'fingerprint-mismatch': 1, invalid: 4 },
    deadLettered: 22,
    handlerStarts: 14 + counts.handedBack + counts.reowned,
    handedBack: expect.any(Number),
    reowned: expect.any(Number),
    restored: 5,
    ends: { succeeded: 11, stopped: 3, 'never-started': 4 },
    lines: { written: counts.lines.recorded, recorded: expect.any(Number), duplicated: 0, lost: 0 },
    fencedWrites: expect.any(Number),
    overlaps: 0,
    rounds: expect.any(Object),
    recovery: Object.fromEntries(mishaps.map((mishap) => [mishap, spread])),
    workers: expect.any(Object),
    seconds: expect.any(Number),
  } satisfies Record<keyof Counts, unknown>);
  expect(Object.keys(counts.workers)).toHaveLength(5);
  expect(counts.reowned).toBeGreaterThan(0);
  expect(counts.lines.recorded).toBeGreaterThan(0);
});
