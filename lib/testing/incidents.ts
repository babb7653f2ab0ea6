export interface IncidentsOptions {
  /** What does not happen, by name. */
  readonly without?: ((name: string) => boolean) | undefined;
  /** Keeps the names of what happened. */
  readonly keep?: boolean | undefined;
}

/**
 * All that goes wrong or is asked for in a run, each with a name by which another run from the same seed can leave it out: what failed is
 * understood best by the few of them without which it does not fail.
 *
 * A name is `kind#n`, and those left out are counted as well. Whoever draws lots for a kind has lots for that kind alone, and
 * draws them whether it happens or not, so that a run without an incident differs by what followed from it, and by no more.
 */
export class Incidents {
  readonly names: string[] = [];
  readonly #options: IncidentsOptions;
  readonly #met = new Map<string, number>();

  constructor(options: IncidentsOptions = {}) {
    this.#options = options;
  }

  /** Whether this one does. */
  happens(kind: string): boolean {
    const n = (this.#met.get(kind) ?? 0) + 1;
    this.#met.set(kind, n);
    const { without, keep } = this.#options;
    if (!without && !keep) return true;
    const name = `${kind}#${n}`;
    if (without?.(name)) return false;
    if (keep) this.names.push(name);
    return true;
  }
}
