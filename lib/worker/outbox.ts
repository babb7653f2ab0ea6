/**
 * What the worker has to say and the report queue does not have yet.
 *
 * A report is kept until the queue took it, so none is lost while the process lives; after a failed call any of a batch may have been taken,
 * and all of it is sent again. Order is of no use to the reader, so whoever failed waits by itself: with each failure in smaller batches,
 * so that one report that cannot be sent takes no others along.
 */
import type { Timer } from '../pool/ports.ts';
import type { Report } from '../wire/index.ts';
import { backoffMs } from './backoff.ts';
import type { Emit } from './events.ts';
import type { ReportSender } from './ports.ts';

interface Entry {
  readonly report: Report;
  readonly accepted?: () => void;
  failures: number;
}

const maxBatch = 10;
const firstRetryMs = 500;
const maxRetryMs = 20_000;

export class Outbox {
  readonly #ports: { readonly reports: ReportSender; readonly timer: Timer };
  readonly #emit: Emit;
  readonly #due: Entry[] = [];
  #pending = 0;
  #isSending = false;
  #whenEmpty: (() => void)[] = [];
  readonly #retries = new Set<() => void>();
  #isClosed = false;

  constructor(ports: { readonly reports: ReportSender; readonly timer: Timer }, emit: Emit) {
    this.#ports = ports;
    this.#emit = emit;
  }

  /** How many reports the queue does not have yet. */
  get size(): number {
    return this.#pending;
  }

  /** `accepted` is called once the queue has it. */
  add(report: Report, accepted?: () => void): void {
    this.#pending += 1;
    this.#enqueue({ report, accepted, failures: 0 });
  }

  /** Resolves once the queue has everything. */
  empty(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenEmpty.push(resolve);
    });
  }

  /** What fails from now on, or has failed, is not tried again: the worker is gone, and nothing of it is to keep its process alive. */
  close(): void {
    this.#isClosed = true;
    for (const cancel of this.#retries) cancel();
  }

  #enqueue(entry: Entry): void {
    this.#due.push(entry);
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    // Reports that arise in the same turn travel together.
    await undefined;
    while (this.#due.length > 0) await this.#send(this.#nextBatch());
    this.#isSending = false;
  }

  #nextBatch(): Entry[] {
    const failures = this.#due[0]?.failures ?? 0;
    const size = Math.max(1, Math.floor(maxBatch / 2 ** failures));
    const batch = this.#due.filter((entry) => entry.failures === failures).slice(0, size);
    for (const entry of batch) this.#due.splice(this.#due.indexOf(entry), 1);
    return batch;
  }

  async #send(batch: Entry[]): Promise<void> {
    try {
      await this.#ports.reports.send(batch.map(({ report }) => report));
    } catch (error) {
      this.#retry(batch, error);
      return;
    }
    this.#pending -= batch.length;
    for (const { accepted } of batch) accepted?.();
    if (this.#pending > 0) return;
    for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }

  #retry(batch: Entry[], error: unknown): void {
    for (const entry of batch) entry.failures += 1;
    const attempt = batch[0]?.failures ?? 1;
    this.#emit({ type: 'report-retried', reports: batch.length, attempt, error });
    if (this.#isClosed) return;
    const cancel = this.#ports.timer.after(backoffMs(attempt, firstRetryMs, maxRetryMs), () => {
      this.#retries.delete(cancel);
      for (const entry of batch) this.#enqueue(entry);
    });
    this.#retries.add(cancel);
  }
}
