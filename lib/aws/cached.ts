import type { Clock } from '../pool/ports.ts';

/**
 * What `load` gave at most `maxAgeMs` ago, or less where a caller asks for less; callers at the same time share one load, and a
 * failed one is not remembered.
 */
export function cached<T>(clock: Clock, maxAgeMs: number, load: () => Promise<T>): (maxAgeMs?: number) => Promise<T> {
  let held: { readonly value: Promise<T>; readonly at: number } | undefined;
  return (asked = maxAgeMs) => {
    const now = clock.now();
    const age = held ? now - held.at : Number.POSITIVE_INFINITY;
    // A clock that was set back must not keep it for longer.
    if (held && age >= 0 && age < Math.min(asked, maxAgeMs)) return held.value;
    const loading = { value: load(), at: now };
    held = loading;
    loading.value.catch(() => {
      if (held === loading) held = undefined;
    });
    return loading.value;
  };
}
