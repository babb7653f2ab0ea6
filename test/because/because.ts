import { afterEach, describe, expect, test, vi } from 'vitest';

/**
 * A rule of the protocol that is there because its absence once broke a guarantee. Each is shown twice: the fault is played and the guarantee holds; the
 * rule is taken away, the same fault is played, and it does not. So no rule here can be removed, or be forgotten in a rewrite, unseen.
 */
export interface Because {
  /** Plays the fault. What it expects, it expects with the words of `breaks`. */
  readonly plays: () => Promise<void>;
  /** Takes the rule away, by spies that are gone when the test ends. */
  readonly without: () => void;
  /** The guarantee that is broken then, and how. */
  readonly breaks: string;
}

export function because(rule: string, { plays, without, breaks }: Because): void {
  describe(rule, () => {
    afterEach(() => {
      vi.restoreAllMocks();
    });

    test('holds', plays);

    test(`is needed: without it, ${breaks}`, async () => {
      without();
      await expect(plays()).rejects.toThrow(breaks);
    });
  });
}
