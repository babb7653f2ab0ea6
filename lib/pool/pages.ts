import type { Page } from './ports.ts';

/** Page after page, until one has no cursor to go on from. */
export async function* pagesOf<T>(read: (cursor?: string) => Promise<Page<T>>): AsyncGenerator<readonly T[]> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    yield page.items;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
