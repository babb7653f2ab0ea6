import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { Child } from '../../demo/child.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

/** A process that says that it is there, again and again. */
function setup(): Child {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-child-'));
  folders.push(folder);
  const script = join(folder, 'child.mjs');
  writeFileSync(script, `process.on('SIGTERM', () => process.exit(7)); setInterval(() => process.send('here'), 5);`);
  return new Child({ name: 'child', script: pathToFileURL(script), environment: {}, folder });
}

/** Resolves once it has said something more. */
function heard({ process }: Child): Promise<unknown> {
  return new Promise((resolve) => process.once('message', resolve));
}

test('a frozen process does nothing, and goes on once it is let', async () => {
  const child = setup();
  await heard(child);
  child.freeze();
  let last = performance.now();
  child.process.on('message', () => {
    last = performance.now();
  });
  await vi.waitFor(() => expect(performance.now() - last).toBeGreaterThan(200), { timeout: 10_000 });
  const ended = child.thaw();
  await heard(child);
  child.process.kill('SIGTERM');
  expect(await ended).toBe(7);
});

test('a frozen process that is told to end hears of it', async () => {
  const child = setup();
  await heard(child);
  child.freeze();
  expect(await child.end(10_000)).toBe(7);
});

test('a process that may not end yet and does is told of, one that was killed is not', async () => {
  const child = setup();
  const early = child.diesEarly();
  await heard(child);
  child.process.kill('SIGTERM');
  await expect(early).rejects.toThrow('child ended by itself with exit code 7');
  const killed = setup();
  const tell = vi.fn();
  killed.diesEarly().catch(tell);
  await heard(killed);
  expect(await killed.kill()).toBe(137);
  expect(tell).not.toHaveBeenCalled();
});
