import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { Peer } from '../../demo/peer.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

type Methods = { double(of: number): Promise<number>; fail(_: undefined): Promise<never>; die(_: undefined): Promise<never> };

function setup(): Peer<Methods> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-peer-'));
  folders.push(folder);
  const script = join(folder, 'peer.mjs');
  const { href } = new URL('../../demo/peer.ts', import.meta.url);
  writeFileSync(
    script,
    `import { serve } from ${JSON.stringify(href)};
     serve({
       double: async (of) => of * 2,
       fail: async () => { throw new Error('no') },
       die: async () => { console.error('last words'); process.exit(3); },
     });`,
  );
  return new Peer<Methods>({ name: 'peer', script: pathToFileURL(script), environment: {}, folder });
}

test('a peer answers each question with its own answer', async () => {
  const peer = setup();
  expect(await Promise.all([peer.call('double', 1), peer.call('double', 2)])).toEqual([2, 4]);
  await expect(peer.call('fail', undefined)).rejects.toThrow('peer: Error: no');
  await peer.end(5_000);
});

test('a peer that dies leaves nobody waiting, and says its last words', async () => {
  const peer = setup();
  const early = peer.diesEarly();
  await expect(peer.call('die', undefined)).rejects.toThrow('before it answered');
  await expect(early).rejects.toThrow(/ended by itself with exit code 3[\s\S]*last words/);
});

test('a peer ends when its parent lets go of it', async () => {
  const peer = setup();
  await peer.call('double', 1);
  peer.process.disconnect();
  expect(await peer.ended).toBe(0);
});
