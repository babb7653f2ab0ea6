/**
 * A copy as a store gives it: plain data, nothing shared with what was written, absent where it was undefined, and frozen,
 * so that one copy per write serves every read.
 */
export function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return Object.freeze(value.map(frozen)) as T;
  const copy: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) if (field !== undefined) copy[name] = frozen(field);
  return Object.freeze(copy) as T;
}

/**
 * When an index shows what a record says now. At once by default; a simulation lets it lag, each change for a time of its own.
 * An update reads the record when it is applied, so an index is right in the end in whatever order its updates come.
 */
export type IndexLag = (apply: () => void) => void;

export const noLag: IndexLag = (apply) => apply();
