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

/** Throws where it is no whole number within the option's limits. */
export function assertNumber(option: keyof typeof limits, value: unknown): asserts value is number {
  const { min, max, unit } = limits[option];
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw refused(option, value, `a whole number from ${min} to ${max}${unit && ` ${unit}`}`);
}

export function assertWorkerId(value: unknown): asserts value is string {
  const limit = '1 to 128 bytes of UTF-8, without lone surrogates';
  if (typeof value !== 'string') throw refused('workerId', value, limit);
  try {
    assertId('workerId', value);
  } catch (error) {
    if (error instanceof WireError) throw refused('workerId', value, limit);
    throw error;
  }
}

export function refused(option: string, value: unknown, limit: string): PoolError {
  const shown = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return new PoolError('invalid-request', `option "${option}" is ${shown}; allowed: ${limit}`, { retryable: false });
}
