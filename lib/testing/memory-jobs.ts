import { PoolError } from '../pool/errors.ts';
import { type EpochMs, isOwned, type Job } from '../pool/job.ts';
import type { Clock, Commit, DispatchChange, DueJob, JobStore, Page, Versioned } from '../pool/ports.ts';
import type { OwnedKey } from '../resync/recover.ts';
import { frozen, type IndexLag, noLag } from './frozen.ts';
import type { MemoryDispatches } from './memory-dispatches.ts';

/** A record came to be, changed, or went (`after` undefined). */
export type JobObserver = (key: string, before: Job | undefined, after: Job | undefined) => void;

export interface MemoryJobsOptions {
  readonly clock: Clock;
  /** What a transaction writes beside a job. */
  readonly dispatches: MemoryDispatches;
  /** How long an ended job is remembered, ms. */
  readonly retentionMs: number;
  readonly lag?: IndexLag;
  readonly pageSize?: number;
  readonly observe?: JobObserver;
}

/** Job records as DynamoDB keeps them: each commit on the revision that was read, both indexes behind them. */
export class MemoryJobs implements JobStore {
  readonly #options: MemoryJobsOptions;
  readonly #records = new Map<string, Versioned<Job>>();
  readonly #waiting = new Map<string, EpochMs>();
  readonly #owners = new Map<string, string>();
  #revisions = 0;

  constructor(options: MemoryJobsOptions) {
    this.#options = options;
  }

  async get(key: string): Promise<Versioned<Job> | undefined> {
    return this.#live(key);
  }

  async commit(next: Job, expected: string | undefined): Promise<Commit<Versioned<Job>>> {
    const current = this.#live(next.key);
    if (!this.isAt(next.key, expected)) return current ? { outcome: 'lost', current } : { outcome: 'lost' };
    this.#write(next.key, frozen(next));
    return { outcome: 'won' };
  }

  /** Whether the condition of a commit holds. */
  isAt(key: string, expected: string | undefined): boolean {
    const rev = this.#live(key)?.rev ?? (expected === undefined ? undefined : this.#records.get(key)?.rev);
    return rev === expected;
  }

  async getMany(keys: readonly string[]): Promise<readonly Job[]> {
    return keys.flatMap((key) => this.#live(key)?.record ?? []);
  }

  async commitSettled(next: Job, expected: string | undefined, dispatch: DispatchChange): Promise<Commit<Versioned<Job>>> {
    const { dispatches } = this.#options;
    const current = this.#live(next.key);
    if (!dispatches.canChange(dispatch.next, dispatch.expected)) return current ? { outcome: 'lost', current } : { outcome: 'lost' };
    const committing = this.commit(next, expected);
    if (this.peek(next.key) !== current?.record) void dispatches.change(dispatch.next, dispatch.expected);
    return committing;
  }

  async due(now: EpochMs, limit: number): Promise<readonly DueJob[]> {
    if (limit < 1) throw new PoolError('invalid-request', `jobs that are due: limit ${limit}, from 1`, { retryable: false });
    const due = [...this.#waiting].flatMap(([key, dueAt]) => (dueAt <= now ? [{ key, dueAt }] : []));
    return due.sort((one, other) => one.dueAt - other.dueAt).slice(0, limit);
  }

  async ownedBy(workerId: string, cursor?: string): Promise<Page<string>> {
    const keys = [...this.#owners].filter(([, worker]) => worker === workerId).map(([key]) => key);
    return page(keys, cursor, this.#options.pageSize);
  }

  /** Every owned key with its worker. */
  async owned(cursor?: string): Promise<Page<OwnedKey>> {
    const { items, ...more } = page([...this.#owners.keys()], cursor, this.#options.pageSize);
    return { items: items.map((key) => ({ key, worker: this.#owners.get(key) ?? '' })), ...more };
  }

  /** Keys that wait, due or not. */
  async pendingKeys(cursor?: string): Promise<Page<string>> {
    return page([...this.#waiting.keys()], cursor, this.#options.pageSize);
  }

  /** Every record as it is, expired ones left out. */
  all(): readonly Job[] {
    return [...this.#records.keys()].flatMap((key) => this.#live(key)?.record ?? []);
  }

  peek(key: string): Job | undefined {
    return this.versioned(key)?.record;
  }

  versioned(key: string): Versioned<Job> | undefined {
    return this.#live(key);
  }

  /** As a fault: the record is gone, whatever it said. */
  delete(key: string): void {
    this.#write(key, undefined);
  }

  /** The records as they are now; calling it puts them back as they were. */
  backup(): () => void {
    const kept = new Map(this.#records);
    return () => {
      for (const key of new Set([...this.#records.keys(), ...kept.keys()])) {
        this.#write(key, undefined);
        const versioned = kept.get(key);
        if (!versioned) continue;
        this.#records.set(key, versioned);
        // Put back by an operator: no transaction of the pool's, which an observer would judge as one.
        (this.#options.lag ?? noLag)(() => this.#index(key));
      }
    };
  }

  #live(key: string): Versioned<Job> | undefined {
    const versioned = this.#records.get(key);
    const record = versioned?.record;
    // Never while another dispatch waits behind it.
    const mayExpire = record?.status === 'ended' && record.next === undefined;
    const isExpired = mayExpire && record.recordedAt + this.#options.retentionMs < this.#options.clock.now();
    return isExpired ? undefined : versioned;
  }

  #write(key: string, record: Job | undefined): void {
    const before = this.#live(key)?.record;
    if (record) this.#records.set(key, { record, rev: `rev-${++this.#revisions}` });
    else this.#records.delete(key);
    this.#written(key, before, record);
  }

  #written(key: string, before: Job | undefined, record: Job | undefined): void {
    (this.#options.lag ?? noLag)(() => this.#index(key));
    this.#options.observe?.(key, before, record);
  }

  #index(key: string): void {
    const record = this.#live(key)?.record;
    if (record?.status === 'pending') this.#waiting.set(key, record.dueAt);
    else if (record?.status === 'ended' && record.next !== undefined) this.#waiting.set(key, record.recordedAt);
    else this.#waiting.delete(key);
    if (record && isOwned(record)) this.#owners.set(key, record.owner.worker);
    else this.#owners.delete(key);
  }
}

const PAGE_SIZE = 100;

/** Sorted, so that a cursor means the same though keys came and went in between. */
function page(keys: readonly string[], cursor: string | undefined, size = PAGE_SIZE): Page<string> {
  const rest = [...keys].sort().filter((key) => cursor === undefined || key > cursor);
  const items = rest.slice(0, size);
  const last = items.at(-1);
  return rest.length > size && last !== undefined ? { items, cursor: last } : { items };
}
