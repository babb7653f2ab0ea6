import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** A small change of one source file, made when it is loaded and nowhere else: the file stays as it is, and so does what is shipped. */
export interface Edit {
  /** From the root of the repository. */
  readonly file: string;
  /** Occurs exactly once in the file: an edit that no longer finds its place is an error, and not a run of unchanged code. */
  readonly find: string;
  readonly replace: string;
}

export const ROOT = new URL('../../', import.meta.url);

/** Whatever this thread loads from now on is loaded with these changes. */
export function transformOnLoad(edits: readonly Edit[]): void {
  const byUrl = new Map<string, Edit[]>();
  for (const edit of edits) {
    const { href } = new URL(edit.file, ROOT);
    byUrl.set(href, [...(byUrl.get(href) ?? []), edit]);
  }
  registerHooks({
    load(url, context, nextLoad) {
      const mine = byUrl.get(url);
      const loaded = nextLoad(url, context);
      if (!mine) return loaded;
      const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source as Uint8Array);
      return { ...loaded, source: mine.reduce(edited, source) };
    },
  });
}

/** Throws where the edit does not fit the file as it is. */
export function assertFits(edit: Edit): void {
  edited(readFileSync(new URL(edit.file, ROOT), 'utf8'), edit);
}

export function edited(source: string, { file, find, replace }: Edit): string {
  const times = source.split(find).length - 1;
  if (times !== 1) throw new Error(`${file}: what is to be replaced occurs ${times} times, not once: ${find}`);
  return source.replace(find, () => replace);
}
