/**
 * One registration of the worker: its lease, its heartbeats, its inbox.
 *
 * Authoritative are the row (whether this session still is the worker's) and the clocks (whether its lease still runs). A session ends once and
 * for good, by whichever is noticed first: two thirds of the lease without a heartbeat that succeeded, a heartbeat refused, the inbox gone. From
 * then on it calls no handler, sends no heartbeat and reads no inbox; what its jobs have to come to an end in is the rest of the lease. Outages
 * alone end nothing: heartbeats and polls go on, and time decides.
 *
 * A crash leaves the row as it is, its beat unchanged: a lease later the control plane says lost. Commands not deleted yet die with the inbox.
 */
import type { WorkerRow } from '../pool/worker.ts';
import { backoffMs, pause } from './backoff.ts';
import { beatDueInMs, beatRetryMs, heldForMs, type Lease, leftMs, momentOf, renewed } from './lease.ts';
import type { Logger } from './logger.ts';
import type { Heartbeat, WorkerPorts } from './ports.ts';

export type SessionEnd =
  /** Two thirds of the lease passed without a heartbeat that succeeded. */
  | 'expired'
  /** The row is another session's, was declared lost, or is gone. */
  | 'replaced'
  | 'evicted'
  | 'no-inbox'
  /** The worker left, or was abandoned at its drain's deadline. */
  | 'closed';

/** What a session needs of the worker that it belongs to. */
export interface SessionHost {
  readonly workerId: string;
  readonly logger: Logger;
  /** Jobs whose handler may be alive. */
  readonly running: number;
  /** Token of the last round whose answer the report queue has. */
  readonly answered: string | undefined;
  readonly isDraining: boolean;
  /** About to send a heartbeat; the function returned is called where it succeeds, with the row as it then is. */
  beating(): (row: WorkerRow) => void;
  /** The body of a message from the inbox. */
  take(body: string): void;
  ended(end: SessionEnd): void;
  /** The lease has ended, after the session. */
  leaseEnded(): void;
}

const pollMs = 5_000;
const pollWhileDrainingMs = 1_000;
/** In Linux a machine's suspend stops timers too: so late is it noticed at most. */
const longestTickMs = 1_000;
const firstRetryMs = 500;
const maxRetryMs = 5_000;

export class Session {
  readonly id: string;
  readonly #ports: WorkerPorts;
  readonly #host: SessionHost;
  #lease: Lease;
  #end?: SessionEnd;
  /** Ends the poll that still waits, so that it does not hold a process that is done. */
  readonly #closed = new AbortController();
  #cancelTick: () => void = () => {};
  #cancelBeat: () => void = () => {};
  /** Heartbeats sent. */
  #beats = 0;
  #failures = 0;

  constructor(id: string, lease: Lease, ports: WorkerPorts, host: SessionHost) {
    this.id = id;
    this.#lease = lease;
    this.#ports = ports;
    this.#host = host;
  }

  begin(): void {
    this.#tick();
    this.#beatWhenDue();
    void this.#poll();
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get leaseLeftMs(): number {
    return leftMs(this.#lease, momentOf(this.#ports.clock));
  }

  /** Whether jobs may run now; where the lease has run out unseen, the session is over from here on. */
  holdsLease(): boolean {
    if (!this.isOver && heldForMs(this.#lease, momentOf(this.#ports.clock)) === 0) this.end('expired');
    return !this.isOver;
  }

  end(end: SessionEnd): void {
    if (this.isOver) return;
    this.#end = end;
    if (end === 'closed') this.#closed.abort();
    this.#cancelBeat();
    this.#host.ended(end);
    this.#tick();
  }

  /** Resolves once a poll finds the inbox empty, or the session is over. It polls beside the one that may have some seconds to wait, for that one is not aborted. */
  async polledEmpty(): Promise<void> {
    while (!this.isOver && !(await this.#receive(pollWhileDrainingMs)));
  }

  /** Watches both ends of the lease: until it is lost, then, while jobs are left, until it has ended. */
  #tick(): void {
    const wasOver = this.isOver;
    if (!this.holdsLease() && !wasOver) return;
    this.#cancelTick();
    const now = momentOf(this.#ports.clock);
    const untilMs = wasOver ? leftMs(this.#lease, now) : heldForMs(this.#lease, now);
    if (wasOver && this.#host.running === 0) return;
    if (wasOver && untilMs === 0) this.#host.leaseEnded();
    else this.#cancelTick = this.#ports.timer.after(Math.min(untilMs, longestTickMs), () => this.#tick());
  }

  #beatWhenDue(): void {
    this.#beatIn(beatDueInMs(this.#lease, momentOf(this.#ports.clock)));
  }

  #beatIn(ms: number): void {
    this.#cancelBeat();
    this.#cancelBeat = this.#ports.timer.after(ms, () => {
      if (!this.holdsLease()) return;
      // The next one waits for no answer: this one may hang until its lease is lost.
      this.#beatIn(beatRetryMs(this.#lease.leaseMs));
      void this.#beat();
    });
  }

  async #beat(): Promise<void> {
    const { workerId, logger, running, answered } = this.#host;
    const sent = momentOf(this.#ports.clock);
    const succeeded = this.#host.beating();
    const beat = ++this.#beats;
    let heard: Heartbeat;
    try {
      heard = await this.#ports.registry.heartbeat({
        workerId,
        session: this.id,
        beat,
        running,
        ...(answered !== undefined && { answered }),
      });
    } catch (error) {
      logger.warn('heartbeat failed', { workerId, leaseLeftMs: this.leaseLeftMs, error });
      return;
    }
    if (this.isOver || heard.outcome === 'overtaken') return;
    if (heard.outcome === 'refused') return this.#refused(heard.row);
    this.#lease = renewed(this.#lease, sent);
    if (!this.holdsLease()) return;
    this.#beatWhenDue();
    succeeded(heard.row);
  }

  #refused(row: WorkerRow | undefined): void {
    // Its own leaving overtook the heartbeat.
    if (row?.session === this.id && row.state === 'left') return;
    this.end(row?.session === this.id && row.state === 'revoked' ? 'evicted' : 'replaced');
  }

  async #poll(): Promise<void> {
    while (this.holdsLease()) await this.#receive(this.#host.isDraining ? pollWhileDrainingMs : pollMs);
  }

  /** Takes what the inbox has; whether it was empty. */
  async #receive(waitMs: number): Promise<boolean> {
    const { inboxes, timer } = this.#ports;
    try {
      const received = await inboxes.receive(this.id, waitMs, this.#closed.signal);
      // What came for a session that is over meanwhile is not read.
      if (!this.holdsLease()) return true;
      if (received === 'no-inbox') {
        this.end('no-inbox');
        return true;
      }
      for (const { body } of received) this.#host.take(body);
      const receipts = received.map(({ receipt }) => receipt);
      // They are in the keys' local queues now, which live as long as the inbox does.
      if (receipts.length > 0) await inboxes.delete(this.id, receipts);
      this.#failures = 0;
      return receipts.length === 0;
    } catch (error) {
      if (this.isOver) return true;
      this.#failures += 1;
      this.#host.logger.warn('inbox could not be read', { workerId: this.#host.workerId, failures: this.#failures, error });
      await pause(timer, backoffMs(this.#failures, firstRetryMs, maxRetryMs));
      return false;
    }
  }
}
