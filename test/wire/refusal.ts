import { type Refusal, WireError } from '../../lib/wire/index.ts';

/** What `act` is refused for; undefined where it is not. */
export function refusalOf(act: () => unknown): Refusal | undefined {
  try {
    act();
  } catch (error) {
    if (error instanceof WireError) return error.refusal;
    throw error;
  }
  return undefined;
}
