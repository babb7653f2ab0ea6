/** The ways in which a handler can be told to start, to stop, or to come to its end. */
const WAYS = {
  start: ['start throws', 'start is to be tried again', 'start is slow'],
  stop: ['stop throws', 'stop is slow'],
  end: ['ends', 'fails', 'fails for now'],
} as const;
export type Cue = (typeof WAYS)[keyof typeof WAYS][number];
export const CUES: readonly Cue[] = [...WAYS.start, ...WAYS.stop, ...WAYS.end];

/** What the handlers of a key are told to do, each cue to the next one that can. */
export class Cues {
  readonly #given = new Map<string, Cue>();
  readonly #listeners = new Map<string, () => void>();

  give(key: string, cue: Cue): void {
    this.#given.set(key, cue);
    this.#listeners.get(key)?.();
  }

  /** From here on nobody is told anything. */
  end(): void {
    this.#given.clear();
  }

  /** Which of the ways to do it, where it was told. */
  taken(key: string, what: keyof typeof WAYS): number | undefined {
    const cue = this.#given.get(key);
    const way = (WAYS[what] as readonly (Cue | undefined)[]).indexOf(cue);
    if (way < 0) return undefined;
    this.#given.delete(key);
    return way;
  }

  /** Has `look` called when something is told to the handlers of the key; for the one that came up last. */
  listen(key: string, look: () => void): void {
    this.#listeners.set(key, look);
    look();
  }
}
