import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { findPython } from '../../stack/python.ts';
import { blocksOf } from '../support/producers-page.ts';

it('makes the published group ids and fingerprints in Python, by the code that the page for producers shows', async () => {
  const code = blocksOf('python').find((block) => block.includes('vectors'));
  expect(code).toBeDefined();
  const root = new URL('../..', import.meta.url);
  execFileSync(await findPython(), ['-c', `${code}\nassert len(vectors["fingerprints"]) > 50`], { cwd: root });
});
