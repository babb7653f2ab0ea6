import type { Clock, Timer } from '../pool/ports.ts';
import type { Depth } from '../resync/recover.ts';

/**
 * One SQS queue in memory.
 *
 * FIFO: in order per group; a group of which any message is out with a consumer, or waits for its next try, is blocked whole;
 * a send that repeats a deduplication id within five minutes is accepted and never delivered, though its first was deleted.
 * Standard: any order, and a receipt keeps its power to delete.
 *
 * A message is on the queue until it is deleted, was received `maxReceives` times (then it is in `deadLetters`), or is older than
 * the retention. Receiving only hides it for its visibility timeout; a consumer that dies has done nothing to it.
 */
export interface QueueOptions {
  readonly name: string;
  readonly type: 'fifo' | 'standard';
  readonly clock: Clock;
  readonly visibilityMs: number;
  readonly retentionMs?: number;
  readonly maxReceives?: number;
  readonly deadLetters?: MemoryQueue;
  readonly disturbance?: Disturbance;
}

/** What a queue may do to its messages within what SQS promises; and what befalls them. */
export interface Disturbance {
  /** Never seen by anybody: expired unread, or dead-lettered and never put back. */
  lost?(message: NewMessage): boolean;
  /** Among the dead letters before anybody has handled it. */
  deadLettered?(): boolean;
  /** Not visible for so long after it was sent. */
  late?(message: QueuedMessage): number;
  /** Comes again after so long although it was deleted; undefined: it does not. */
  again?(message: QueuedMessage): number | undefined;
  /** Which of so many visible messages of a standard queue comes next. */
  pick?(count: number): number;
}

export interface QueuedMessage {
  readonly id: string;
  readonly body: string;
  readonly group?: string;
  readonly attributes?: Readonly<Record<string, string>>;
  /** This time included, in what `receive` returns. */
  readonly receiveCount: number;
}

export interface ReceivedMessage extends QueuedMessage {
  readonly receipt: string;
}

export interface NewMessage {
  readonly body: string;
  /** Only on a FIFO queue, and always there. */
  readonly group?: string;
  readonly deduplicationId?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

interface Held {
  readonly id: string;
  readonly message: NewMessage;
  readonly sentAt: number;
  visibleAt: number;
  receiveCount: number;
}

const DEDUPLICATION_MS = 5 * 60 * 1_000;
const DEFAULT_RETENTION_MS = 4 * 24 * 60 * 60 * 1_000;

export class MemoryQueue {
  readonly name: string;
  readonly #options: QueueOptions;
  #held: Held[] = [];
  readonly #sentIds = new Map<string, number>();
  readonly #listeners = new Set<() => void>();
  #sent = 0;

  constructor(options: QueueOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get deadLetters(): MemoryQueue | undefined {
    return this.#options.deadLetters;
  }

  /** How many messages are on it, hidden ones included. */
  get size(): number {
    return this.#kept().length;
  }

  /** As SQS counts them: those that anybody may take, and those that are hidden. */
  get depth(): Depth {
    const now = this.#options.clock.now();
    const taken = this.#kept().filter(({ visibleAt }) => visibleAt > now).length;
    return { waiting: this.size - taken, taken };
  }

  send(message: NewMessage): void {
    const now = this.#options.clock.now();
    if ((this.#options.type === 'fifo') !== (message.group !== undefined))
      throw new TypeError(`queue "${this.name}": a group is for FIFO queues, and needed there`);
    if (message.deduplicationId !== undefined) {
      const first = this.#sentIds.get(message.deduplicationId);
      if (first !== undefined && now - first < DEDUPLICATION_MS) return;
      for (const [id, at] of this.#sentIds) {
        if (now - at < DEDUPLICATION_MS) break;
        this.#sentIds.delete(id);
      }
      this.#sentIds.delete(message.deduplicationId);
      this.#sentIds.set(message.deduplicationId, now);
    }
    const { disturbance, deadLetters } = this.#options;
    if (disturbance?.lost?.(message)) return;
    if (deadLetters && disturbance?.deadLettered?.()) {
      deadLetters.send(message);
      return;
    }
    const held: Held = { id: `${this.name}-${++this.#sent}`, message, sentAt: now, visibleAt: now, receiveCount: 0 };
    held.visibleAt += disturbance?.late?.(seen(held)) ?? 0;
    this.#held.push(held);
    this.#changed();
  }

  receive(max = 10, visibilityMs = this.#options.visibilityMs): readonly ReceivedMessage[] {
    const now = this.#options.clock.now();
    const received: ReceivedMessage[] = [];
    for (const held of this.#visible(now)) {
      if (received.length === max) break;
      if (held.receiveCount >= (this.#options.maxReceives ?? Number.POSITIVE_INFINITY)) {
        this.#drop(held);
        this.#options.deadLetters?.send({ ...held.message, ...(held.message.group === undefined ? {} : { deduplicationId: held.id }) });
        continue;
      }
      held.receiveCount += 1;
      held.visibleAt = now + visibilityMs;
      received.push({ ...seen(held), receipt: `${held.id}/${held.receiveCount}` });
    }
    return received;
  }

  /** False where the receipt no longer has that power: the message is gone, or (FIFO) was visible again since. */
  delete(receipt: string): boolean {
    const held = this.#by(receipt);
    if (!held) return false;
    const again = this.#options.disturbance?.again?.(seen(held));
    if (again === undefined) this.#drop(held);
    else held.visibleAt = this.#options.clock.now() + again;
    this.#changed();
    return true;
  }

  changeVisibility(receipt: string, visibilityMs: number): boolean {
    const held = this.#by(receipt);
    if (!held) return false;
    held.visibleAt = this.#options.clock.now() + visibilityMs;
    this.#changed();
    return true;
  }

  /** Everything on the queue in the order of sending, received or not; looking changes nothing. */
  messages(): readonly QueuedMessage[] {
    return this.#kept().map(seen);
  }

  /** Takes messages off, all of them by default, as an operator's redrive or purge does. */
  takeAll(match: (message: QueuedMessage) => boolean = () => true): readonly NewMessage[] {
    const taken = new Set(this.#kept().filter((held) => match(seen(held))));
    this.#held = this.#held.filter((held) => !taken.has(held));
    return [...taken].map(({ message }) => message);
  }

  /** When `receive` has something to return next; undefined: not before something is sent. */
  receivableAt(): number | undefined {
    const byGroup = new Map<string, number>();
    for (const { id, message, visibleAt } of this.#kept()) {
      const group = message.group ?? id;
      byGroup.set(group, Math.max(visibleAt, byGroup.get(group) ?? 0));
    }
    return byGroup.size === 0 ? undefined : Math.min(...byGroup.values());
  }

  /** Calls `listener` after every send and every change of what is visible when. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves once something is receivable, or after `waitMs`. */
  receivable(waitMs: number, timer: Timer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const now = this.#options.clock.now();
    let cancel = () => {};
    const look = () => {
      cancel();
      const at = this.receivableAt() ?? Number.POSITIVE_INFINITY;
      const left = now + waitMs - this.#options.clock.now();
      if (at <= this.#options.clock.now() || left <= 0) {
        forget();
        resolve();
      } else cancel = timer.after(Math.min(at - this.#options.clock.now(), left), look);
    };
    const forget = this.onChange(look);
    look();
    return promise;
  }

  #visible(now: number): readonly Held[] {
    const kept = this.#kept();
    if (this.#options.type === 'standard') {
      const visible = kept.filter(({ visibleAt }) => visibleAt <= now);
      const { pick } = this.#options.disturbance ?? {};
      return pick ? [...visible].map(() => visible.splice(pick(visible.length), 1)[0] as Held) : visible;
    }
    const blocked = new Set(kept.filter(({ visibleAt }) => visibleAt > now).map(({ message }) => message.group));
    return kept.filter(({ message }) => !blocked.has(message.group));
  }

  #by(receipt: string): Held | undefined {
    const [id, receive] = receipt.split('/');
    const held = this.#held.find((each) => each.id === id);
    const stale = held?.receiveCount !== Number(receive) || held.visibleAt <= this.#options.clock.now();
    return this.#options.type === 'fifo' && stale ? undefined : held;
  }

  #kept(): readonly Held[] {
    const oldest = this.#options.clock.now() - (this.#options.retentionMs ?? DEFAULT_RETENTION_MS);
    if (this.#held.some(({ sentAt }) => sentAt < oldest)) this.#held = this.#held.filter(({ sentAt }) => sentAt >= oldest);
    return this.#held;
  }

  #drop(held: Held): void {
    this.#held = this.#held.filter((each) => each !== held);
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

function seen({ id, message, receiveCount }: Held): QueuedMessage {
  const { body, group, attributes } = message;
  return { id, body, receiveCount, ...(group === undefined ? {} : { group }), ...(attributes === undefined ? {} : { attributes }) };
}
