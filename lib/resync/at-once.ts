/** Calls in the air at once. */
const AT_ONCE = 10;

/**
 * Does the work for each, some of them side by side. Where one fails it throws, and begins no more of them; but not before those that are under
 * way came to rest: a function that returns earlier is frozen in the middle of its writes.
 */
export async function atOnce<T>(all: readonly T[], work: (each: T) => Promise<void>): Promise<void> {
  for (const some of chunks(all, AT_ONCE)) {
    for (const end of await Promise.allSettled(some.map(work))) if (end.status === 'rejected') throw end.reason;
  }
}

export function chunks<T>(all: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size));
}
