import type { EpochMs } from '../pool/job.ts';
import type { Clock } from '../pool/ports.ts';

export type Tell = (who: string, what: () => string) => void;

/** What happened, line by line, for whoever has to understand a violation. Lines are written only where somebody will read them. */
export class Story {
  readonly #clock: Clock;
  readonly #startsAt: EpochMs;
  readonly #keep: number;
  #lines: (() => string)[] = [];
  #told = 0;

  /** `keep`: how many of the last lines; 0: none. */
  constructor(clock: Clock, keep: number) {
    this.#clock = clock;
    this.#startsAt = clock.now();
    this.#keep = keep;
  }

  readonly tell: Tell = (who, what) => {
    if (this.#keep === 0) return;
    const at = this.#clock.now() - this.#startsAt;
    this.#told += 1;
    this.#lines.push(() => `${seconds(at)}  ${who.padEnd(12)} ${what()}`);
    if (this.#lines.length > 2 * this.#keep) this.#lines = this.#lines.slice(-this.#keep);
  };

  lines(): readonly string[] {
    const lines = this.#lines.slice(-this.#keep).map((line) => line());
    const left = this.#told - lines.length;
    return left > 0 ? [`(${left} earlier lines)`, ...lines] : lines;
  }
}

/** An event or any other flat value: its type, then its fields. */
export function inWords({ type, ...fields }: { readonly type: string }): string {
  const rest = Object.entries(fields).map(([name, value]) => `${name} ${value instanceof Error ? value.message : JSON.stringify(value)}`);
  return rest.length === 0 ? type : `${type}: ${rest.join(', ')}`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3).padStart(9)}s`;
}
