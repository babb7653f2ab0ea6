import { PoolError } from '../pool/errors.ts';
import { assertId, WireError } from '../wire/index.ts';

/** What a number may be; a refusal names option, value and limits. */
interface Limits {
  readonly min: number;
  readonly max: number;
  readonly unit: string;
}

const day = 24 * 60 * 60 * 1_000;

export const limits = {
  capacity: { min: 1, max: 10_000, unit: 'jobs' },
  leaseMs: { min: 3_000, max: 90_000, unit: 'ms' },
  drainDeadlineMs: { min: 1, max: day, unit: 'ms' },
  deadlineMs: { min: 1, max: day, unit: 'ms' },
  stopDeadlineMs: { min: 1, max: day, unit: 'ms' },
  inboxRetentionMs: { min: 60_000, max: 14 * day, unit: 'ms' },
  /** 0: any free port, which the log names. */
  'health.port': { min: 0, max: 65_535, unit: '' },
} as const satisfies { readonly [option: string]: Limits };

export type NumberOption = keyof typeof limits;

/** Throws where it is no whole number within the option's limits. */
export function assertNumber(option: NumberOption, value: unknown): asserts value is number {
  if (!isWithin(option, value)) throw refused(`option "${option}"`, value, limitOf(option));
}

/** The option's value where the environment has one. An empty one is none: it is what a template leaves of a value that was not given. */
export function numberFrom(variable: string, text: string | undefined, option: NumberOption): number | undefined {
  if (text === undefined || text === '') return undefined;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!isWithin(option, value)) throw refused(variable, text, limitOf(option));
  return value;
}

function isWithin(option: NumberOption, value: unknown): value is number {
  const { min, max } = limits[option];
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

function limitOf(option: NumberOption): string {
  const { min, max, unit } = limits[option];
  return `a whole number from ${min} to ${max}${unit && ` ${unit}`}`;
}

export function assertWorkerId(value: unknown): asserts value is string {
  const limit = '1 to 128 bytes of UTF-8, without lone surrogates';
  if (typeof value !== 'string') throw refused('option "workerId"', value, limit);
  try {
    assertId('workerId', value);
  } catch (error) {
    if (error instanceof WireError) throw refused('option "workerId"', value, limit);
    throw error;
  }
}

export function refused(what: string, value: unknown, limit: string): PoolError {
  const shown =
    typeof value === 'string' ? JSON.stringify(value) : typeof value === 'object' && value !== null ? 'an object' : String(value);
  return new PoolError('invalid-request', `${what} is ${shown}; allowed: ${limit}`, { retryable: false });
}
