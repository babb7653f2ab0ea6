import { type AdmittedDispatch, type Dispatch, isSameRequest } from '../pool/dispatch.ts';
import type { Fence } from '../pool/job.ts';
import type { Clock, Commit, DispatchStore } from '../pool/ports.ts';
import { frozen } from './frozen.ts';

/** A record came to be, changed, or went (`after` undefined). */
export type DispatchObserver = (dispatchId: string, before: Dispatch | undefined, after: Dispatch | undefined) => void;

export interface MemoryDispatchesOptions {
  readonly clock: Clock;
  readonly observe?: DispatchObserver;
}

interface Stored {
  readonly dispatch: Dispatch;
  readonly payload?: Uint8Array;
}

/** Dispatch records and their payloads as DynamoDB keeps them. */
export class MemoryDispatches implements DispatchStore {
  readonly #options: MemoryDispatchesOptions;
  readonly #records = new Map<string, Stored>();

  constructor(options: MemoryDispatchesOptions) {
    this.#options = options;
  }

  async get(dispatchId: string): Promise<Dispatch | undefined> {
    return this.peek(dispatchId);
  }

  async payload(dispatchId: string): Promise<Uint8Array | undefined> {
    return this.#live(dispatchId)?.payload?.slice();
  }

  async admit(dispatch: AdmittedDispatch, payload: Uint8Array): Promise<Commit<Dispatch>> {
    const current = this.peek(dispatch.dispatchId);
    if (current) return { outcome: 'lost', current };
    this.#write({ dispatch: frozen(dispatch), payload: new Uint8Array(payload) });
    return { outcome: 'won' };
  }

  async change(next: Dispatch, expected: Dispatch['status'] | 'absent', maxFence?: Fence): Promise<Commit<Dispatch>> {
    const current = this.peek(next.dispatchId);
    if (!this.canChange(next, expected, maxFence)) return current ? { outcome: 'lost', current } : { outcome: 'lost' };
    this.write(next);
    return { outcome: 'won' };
  }

  /** As a change whose condition holds; a payload where there is none. */
  write(next: Dispatch, missing?: Uint8Array): void {
    const stored = this.#live(next.dispatchId);
    const dispatch = frozen({ ...next, ...known(stored?.dispatch), fence: Math.max(next.fence, stored?.dispatch.fence ?? 0) } as Dispatch);
    const over = dispatch.status === 'ended' || dispatch.status === 'never-started';
    const payload = stored?.payload ?? (missing && new Uint8Array(missing));
    this.#write({ dispatch, ...(payload && !over ? { payload } : {}) });
  }

  /** Whether the condition of a change holds. */
  canChange(next: Dispatch, expected: Dispatch['status'] | 'absent', maxFence = Number.POSITIVE_INFINITY): boolean {
    const current = this.peek(next.dispatchId);
    if ((current?.status ?? 'absent') !== expected) return false;
    return !current || (isSameRequest(current, next.key, next.fingerprint) && current.fence <= maxFence);
  }

  async raiseFence(dispatchId: string, fence: Fence): Promise<void> {
    const stored = this.#live(dispatchId);
    if (stored && stored.dispatch.fence < fence) this.#write({ ...stored, dispatch: frozen({ ...stored.dispatch, fence }) });
  }

  /** Every record as it is, expired ones left out. */
  all(): readonly Dispatch[] {
    return [...this.#records.keys()].flatMap((id) => this.peek(id) ?? []);
  }

  peek(dispatchId: string): Dispatch | undefined {
    return this.#live(dispatchId)?.dispatch;
  }

  hasPayload(dispatchId: string): boolean {
    return this.#live(dispatchId)?.payload !== undefined;
  }

  /** As a fault: head and payload are gone. */
  delete(dispatchId: string): void {
    const before = this.peek(dispatchId);
    this.#records.delete(dispatchId);
    this.#options.observe?.(dispatchId, before, undefined);
  }

  /** As a fault: the payload alone is gone. */
  deletePayload(dispatchId: string): void {
    const stored = this.#records.get(dispatchId);
    if (stored) this.#records.set(dispatchId, { dispatch: stored.dispatch });
  }

  /** The records as they are now; calling it puts them back as they were. */
  backup(): () => void {
    const kept = new Map(this.#records);
    return () => {
      for (const id of [...this.#records.keys()]) this.delete(id);
      for (const stored of kept.values()) this.#write(stored);
    };
  }

  #live(dispatchId: string): Stored | undefined {
    const stored = this.#records.get(dispatchId);
    const expired = stored && 'expiresAt' in stored.dispatch && stored.dispatch.expiresAt < this.#options.clock.now();
    return expired ? undefined : stored;
  }

  #write(stored: Stored): void {
    const { dispatchId } = stored.dispatch;
    const before = this.peek(dispatchId);
    this.#records.set(dispatchId, stored);
    this.#options.observe?.(dispatchId, before, stored.dispatch);
  }
}

/** What no change takes from a record. */
function known(current: Dispatch | undefined): Partial<Dispatch> {
  if (!current) return {};
  const { requestedAt, fingerprint } = current;
  return {
    requestedAt,
    ...(fingerprint === undefined ? {} : { fingerprint }),
    ...(current.status === 'started' ? { outcome: current.outcome } : {}),
  };
}
