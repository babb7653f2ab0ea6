import type { Clock, Ids } from '../pool/ports.ts';

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** ULIDs that are numbered instead of random: the same run makes the same ones, and they sort by time. */
export class SequentialIds implements Ids {
  readonly #clock: Clock;
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  next(): string {
    return crockford(this.#clock.now(), 10) + crockford(++this.#count, 16);
  }
}

function crockford(value: number, length: number): string {
  let rest = value;
  let text = '';
  for (let i = 0; i < length; i++) {
    text = DIGITS.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
