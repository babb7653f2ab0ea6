/**
 * How the tables are laid out: what the adapters read and write, and what the construct creates.
 *
 * Jobs table, one partition per record, so that a record's items are read together and no two records share a hot key:
 *
 *     pk              sk                          record
 *     job#<key>       head                        the live job of the key, or how its last one ended
 *     dispatch#<id>   head                        one request to start a job, with a payload of up to 2 KiB
 *     dispatch#<id>   payload#<fingerprint>       a larger payload
 *     round#<token>   head                        one resync round
 *     round#<token>   page#<n>                    one page of what it asks
 *     pool            head                        state and generation of the pool
 *     recovery#<n>    <rev>                       what one restoration came to while the pool of generation n recovered
 *
 * Workers table: `worker#<id>`, one row each. The key or id stands once, raw, behind a fixed prefix: no two of them collide.
 */
export interface TableLayout {
  readonly partitionKey: KeyAttribute;
  readonly sortKey?: KeyAttribute;
  /** Holds epoch seconds, after which the item may be deleted. */
  readonly ttl?: string;
  readonly indexes: readonly IndexLayout[];
}

/** Every index is sparse and projects nothing but keys: a hint of what to read. */
export interface IndexLayout {
  readonly name: string;
  readonly partitionKey: KeyAttribute;
  readonly sortKey?: KeyAttribute;
}

/** What the partition key of a record or row begins with, by what it is of. */
export const prefixes = { job: 'job#', dispatch: 'dispatch#', worker: 'worker#', recovery: 'recovery#' } as const;

/** A string (`S`) or a number (`N`). */
export interface KeyAttribute {
  readonly name: string;
  readonly type: 'S' | 'N';
}

/** Worker → keys that any session of it owns. No sort key: a key may be as long as a sort key. */
export const byOwner = { name: 'by-owner', partitionKey: { name: 'owner', type: 'S' } } as const satisfies IndexLayout;

/** Shard → keys of jobs that wait for a worker, by due time: pending, or ended with another dispatch waiting behind. */
export const pending = {
  name: 'pending',
  partitionKey: { name: 'pendingShard', type: 'N' },
  sortKey: { name: 'dueAt', type: 'N' },
} as const satisfies IndexLayout;

/** So that the jobs that wait, which may be all of a pool's, are spread over partitions. */
export const pendingShards = 8;

export const jobsTable = {
  partitionKey: { name: 'pk', type: 'S' },
  sortKey: { name: 'sk', type: 'S' },
  ttl: 'ttl',
  indexes: [byOwner, pending],
} as const satisfies TableLayout;

export const workersTable = { partitionKey: { name: 'pk', type: 'S' }, indexes: [] } as const satisfies TableLayout;
