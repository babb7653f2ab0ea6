import { printable } from './ascii.ts';

/** Why a message, or a part of one, is refused: which field, what is the fact, and what would be allowed. */
export interface Refusal {
  readonly code: 'invalid-message';
  /** Such as `key` or `entries[3].fence`; `body` is the message as a whole. */
  readonly field: string;
  /** What was found: `is missing`, `is 1025 bytes of UTF-8`. */
  readonly fact: string;
  /** What is allowed: `1 to 1024 bytes of UTF-8`. */
  readonly limit: string;
  /** All three in one line of printable ASCII, fit for a message attribute. */
  readonly message: string;
  /** The key that the broken message names all the same. */
  readonly key?: string;
  /** Only of what is legibly a start: a broken stop must not settle the dispatch that it names. */
  readonly dispatchId?: string;
}

export function refuse(field: string, fact: string, limit: string): Refusal {
  const where = field === 'body' ? 'the body' : `field "${field}"`;
  return { code: 'invalid-message', field, fact, limit, message: `${where} ${fact}; allowed: ${limit}` };
}

/** Thrown where our own side tries to write what the other side would refuse. */
export class WireError extends Error {
  override readonly name = 'WireError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

/** The fact of a value that is not what it should be. */
export function factOf(value: unknown): string {
  if (value === undefined) return 'is missing';
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return `is ${value}`;
  if (typeof value === 'string') return `is "${printable(value)}"`;
  if (Array.isArray(value)) return 'is a list';
  return typeof value === 'object' ? 'is an object' : `is a ${typeof value}`;
}
