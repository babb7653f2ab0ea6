import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('../../docs/producers.md', import.meta.url), 'utf8');

/** The code of one language that `docs/producers.md` shows. */
export function blocksOf(language: string): readonly string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map(([, code]) => code as string);
}
