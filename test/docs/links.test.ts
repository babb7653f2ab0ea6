import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const pages = ['README.md', 'CONTRIBUTING.md', ...readdirSync(new URL('docs', root)).map((file) => `docs/${file}`)];

function textOf(page: URL): string {
  // What stands in code is no link, and no heading.
  return readFileSync(page, 'utf8').replaceAll(/^ *```.*?^ *```/gms, '');
}

/** As on GitHub. */
function anchorsOf(page: URL): readonly string[] {
  const titles = [...textOf(page).matchAll(/^#+ (.+)$/gm)].map(([, title]) => title as string);
  return titles.map((title) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\-_ ]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test.for(pages)('%s links only what is there', (page) => {
  const here = new URL(page, root);
  for (const [, target = ''] of textOf(here).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(target)) continue;
    const [file = '', anchor] = target.split('#');
    const there = file === '' ? here : new URL(file, here);
    expect(existsSync(there), target).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(there), target).toContain(anchor);
  }
});
