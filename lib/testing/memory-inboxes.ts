import type { Clock, CommandSender, InboxKeeper, Timer } from '../pool/ports.ts';
import { type Command, encodeCommand } from '../wire/index.ts';
import type { Inboxes, Received } from '../worker/ports.ts';
import { type Disturbance, MemoryQueue } from './memory-queue.ts';

export interface MemoryInboxesOptions {
  readonly clock: Clock;
  readonly timer: Timer;
  /** Default: an hour. */
  readonly retentionMs?: number;
  readonly disturbance?: Disturbance;
}

/** A command is deleted on receipt; only one whose deletion failed waits for this. */
const VISIBILITY_MS = 5_000;
const RETENTION_MS = 60 * 60 * 1_000;

/** One FIFO queue per worker session: what the control plane puts there and what the worker takes. */
export class MemoryInboxes implements CommandSender, Inboxes, InboxKeeper {
  readonly #options: MemoryInboxesOptions;
  readonly #bySession = new Map<string, MemoryQueue>();
  #sent = 0;

  constructor(options: MemoryInboxesOptions) {
    this.#options = options;
  }

  async create(session: string): Promise<void> {
    if (this.#bySession.has(session)) return;
    const { clock, retentionMs = RETENTION_MS, disturbance } = this.#options;
    const queue = new MemoryQueue({
      name: `inbox-${session}`,
      type: 'fifo',
      clock,
      visibilityMs: VISIBILITY_MS,
      retentionMs,
      ...(disturbance ? { disturbance } : {}),
    });
    this.#bySession.set(session, queue);
  }

  async send(command: Command): Promise<'sent' | 'no-inbox'> {
    const queue = this.#bySession.get(command.session);
    if (!queue) return 'no-inbox';
    const group = command.op === 'resync' ? 'resync' : `key ${command.key}`;
    queue.send({ body: encodeCommand(command), group, deduplicationId: `command-${++this.#sent}` });
    return 'sent';
  }

  async receive(session: string, waitMs: number): Promise<readonly Received[] | 'no-inbox'> {
    const queue = this.#bySession.get(session);
    if (!queue) return 'no-inbox';
    const received = queue.receive();
    if (received.length > 0 || waitMs <= 0) return received;
    await queue.receivable(waitMs, this.#options.timer);
    return this.#bySession.has(session) ? queue.receive() : 'no-inbox';
  }

  async delete(session: string, receipts: readonly string[]): Promise<void> {
    for (const receipt of receipts) this.#bySession.get(session)?.delete(receipt);
  }

  async *sessions(): AsyncIterable<string> {
    yield* [...this.#bySession.keys()];
  }

  /** As an operator, a sweep or a fault does. */
  async remove(session: string): Promise<void> {
    this.#bySession.delete(session);
  }

  queue(session: string): MemoryQueue | undefined {
    return this.#bySession.get(session);
  }
}
