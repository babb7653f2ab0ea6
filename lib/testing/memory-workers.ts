import type { RowChange, RowCondition, WorkerStore } from '../pool/ports.ts';
import { isPresent, type PoolState, type WorkerRow } from '../pool/worker.ts';
import { heartbeatOf } from '../worker/lease.ts';
import type { Heartbeat, Registry } from '../worker/ports.ts';
import { frozen, type IndexLag, noLag } from './frozen.ts';

export type WorkerObserver = (workerId: string, before: WorkerRow | undefined, after: WorkerRow) => void;

export interface MemoryWorkersOptions {
  /** How far `list` and `poolState` are behind. */
  readonly lag?: IndexLag;
  readonly observe?: WorkerObserver | undefined;
  readonly observePool?: ((pool: PoolState) => void) | undefined;
}

/** Worker rows as DynamoDB keeps them: what the control plane sees and what the worker may do to its own row, on one table. */
export class MemoryWorkers implements WorkerStore, Registry {
  readonly #options: MemoryWorkersOptions;
  readonly #rows = new Map<string, WorkerRow>();
  readonly #listed = new Map<string, WorkerRow>();
  #pool: PoolState = { state: 'open', generation: 1 };
  #seenPool = this.#pool;

  constructor(options: MemoryWorkersOptions = {}) {
    this.#options = options;
  }

  async get(workerId: string): Promise<WorkerRow | undefined> {
    return this.#rows.get(workerId);
  }

  async list(): Promise<readonly WorkerRow[]> {
    return [...this.#listed.values()];
  }

  async change(workerId: string, where: RowCondition, set: RowChange): Promise<WorkerRow | undefined> {
    return this.#change(workerId, where.session, (row) => holds(row, where), set);
  }

  async remove(workerId: string, where: RowCondition): Promise<void> {
    const row = this.#rows.get(workerId);
    if (row?.session === where.session && holds(row, where)) this.delete(workerId);
  }

  async poolState(maxAgeMs?: number): Promise<PoolState> {
    return maxAgeMs === 0 ? this.#pool : this.#seenPool;
  }

  async register(row: Parameters<Registry['register']>[0]): Promise<void> {
    this.#write({ ...row, state: 'active', beat: 0, running: 0 });
  }

  async heartbeat(said: Parameters<Registry['heartbeat']>[0]): Promise<Heartbeat> {
    const { workerId, session, ...change } = said;
    this.#change(workerId, session, (row) => isPresent(row) && row.beat < said.beat, change);
    return heartbeatOf(said, this.#rows.get(workerId));
  }

  async drain(workerId: string, session: string): Promise<boolean> {
    return this.#change(workerId, session, ({ state }) => state === 'active', { state: 'draining' }) !== undefined;
  }

  async leave(workerId: string, session: string): Promise<boolean> {
    return this.#change(workerId, session, ({ state }) => state === 'draining' || state === 'left', { state: 'left' }) !== undefined;
  }

  setPool(pool: PoolState): void {
    this.#pool = pool;
    this.#options.observePool?.(pool);
    (this.#options.lag ?? noLag)(() => {
      this.#seenPool = this.#pool;
    });
  }

  peekPool(): PoolState {
    return this.#pool;
  }

  /** As `PoolRecord.change`. */
  async changePool(read: PoolState, next: PoolState): Promise<boolean> {
    if (this.#pool.state !== read.state || this.#pool.generation !== read.generation) return false;
    this.setPool(next);
    return true;
  }

  /** Every row as it is. */
  all(): readonly WorkerRow[] {
    return [...this.#rows.values()];
  }

  peek(workerId: string): WorkerRow | undefined {
    return this.#rows.get(workerId);
  }

  /** As a fault: the row is gone. */
  delete(workerId: string): void {
    this.#rows.delete(workerId);
    this.#listed.delete(workerId);
  }

  /** The rows as they are now; calling it puts them back as they were. */
  backup(): () => void {
    const kept = new Map(this.#rows);
    return () => {
      for (const workerId of this.#rows.keys()) if (!kept.has(workerId)) this.delete(workerId);
      // Put back by an operator: no write of the pool's, which an observer would judge as one.
      for (const [workerId, row] of kept) {
        this.#rows.set(workerId, row);
        this.#list(workerId);
      }
    };
  }

  #change(workerId: string, session: string, when: (row: WorkerRow) => boolean, change: Partial<WorkerRow>): WorkerRow | undefined {
    const row = this.#rows.get(workerId);
    return row?.session === session && when(row) ? this.#write({ ...row, ...change }) : undefined;
  }

  #write(next: WorkerRow): WorkerRow {
    const row = frozen(next);
    const before = this.#rows.get(row.workerId);
    this.#rows.set(row.workerId, row);
    this.#list(row.workerId);
    this.#options.observe?.(row.workerId, before, row);
    return row;
  }

  #list(workerId: string): void {
    (this.#options.lag ?? noLag)(() => {
      const current = this.#rows.get(workerId);
      if (current) this.#listed.set(workerId, current);
    });
  }
}

function holds(row: WorkerRow, { states, beat }: RowCondition): boolean {
  return states.includes(row.state) && (beat === undefined || row.beat === beat);
}
