/** What a pool is deployed with; the construct fills it from its props and the functions read it from their environment. */
export interface PoolSettings {
  /** How long an ended dispatch and job are remembered after their end was recorded, ms. */
  readonly retentionMs: number;
  /** What becomes of a job that fails by itself without saying that it should be tried again. */
  readonly restart: RestartPolicy;
  /** How often a start is tried in all, and a job that fails and asks to be tried again, whatever `restart` says. */
  readonly startAttempts: number;
  /** First delay of a retry, ms; doubles each time up to `maxBackoffMs`. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** Delay after a worker refused for lack of room or because it drains, ms. */
  readonly refusedDelayMs: number;
  /** When a job that no worker could take is looked at again, ms. */
  readonly unplacedDelayMs: number;
}

export type RestartPolicy =
  | { readonly type: 'never' }
  | { readonly type: 'on-failure'; readonly maxAttempts: number; readonly backoffMs?: number };

export const DEFAULT_SETTINGS: PoolSettings = {
  retentionMs: 30 * 24 * 60 * 60 * 1_000,
  restart: { type: 'never' },
  startAttempts: 5,
  backoffMs: 1_000,
  maxBackoffMs: 5 * 60 * 1_000,
  refusedDelayMs: 5_000,
  unplacedDelayMs: 5_000,
};
