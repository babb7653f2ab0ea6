import { type Delivery, processBatch, type Source } from '../pool/batch.ts';
import type { Telemetry } from '../pool/ports.ts';
import type { MemoryQueue, ReceivedMessage } from './memory-queue.ts';
import { FUNCTION_TIMEOUT_MS } from './memory-services.ts';
import { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

/** What becomes of one invocation. */
export interface Invocation {
  /** Messages at most, 1 to 10. */
  readonly batchSize: number;
  /** How long after they were there it takes them, ms. */
  readonly delayMs: number;
  /** It dies after so long, whatever it is doing. */
  readonly timeoutMs: number;
  /** After so long its messages are given to others, though it goes on until its timeout. */
  readonly givenUpAfterMs?: number;
  /** Its messages come again so long after its death. Default: the queue's visibility timeout after they were received. */
  readonly hiddenAfterDeathMs?: number;
  /** How far its wall clock is off. */
  readonly skewMs: number;
}

export type InvocationFate = (name: string) => Invocation;

export const promptly: InvocationFate = () => ({ batchSize: 10, delayMs: 0, timeoutMs: FUNCTION_TIMEOUT_MS, skewMs: 0 });

/** One function with its queue, as Lambda polls it: batches of many groups, a group never in two batches, many batches at once. */
export interface EventSourceOptions {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly queue: MemoryQueue;
  readonly fate: InvocationFate;
  /** What the invocation has of the world, all of it by way of its process. */
  readonly handler: (
    process: Process,
    batch: readonly ReceivedMessage[],
  ) => {
    readonly consume: (delivery: Delivery) => Promise<void>;
    readonly source: Source;
    readonly telemetry: Telemetry;
  };
}

export class EventSource {
  readonly #options: EventSourceOptions;
  #cancelPoll: (() => void) | undefined;
  #pollAt = Number.POSITIVE_INFINITY;
  #invocations = 0;
  #inFlight = 0;

  constructor(options: EventSourceOptions) {
    this.#options = options;
    options.queue.onChange(() => this.#plan());
  }

  /** Invocations that have not come to an end. */
  get inFlight(): number {
    return this.#inFlight;
  }

  #plan(): void {
    const { queue, scheduler, fate, name } = this.#options;
    const receivableAt = queue.receivableAt();
    if (receivableAt === undefined || this.#pollAt <= receivableAt) return;
    this.#cancelPoll?.();
    this.#pollAt = receivableAt;
    const invocation = fate(name);
    const delayMs = Math.max(0, receivableAt - scheduler.now()) + invocation.delayMs;
    this.#cancelPoll = scheduler.after(delayMs, () => {
      this.#pollAt = Number.POSITIVE_INFINITY;
      this.#invoke(invocation);
      this.#plan();
    });
  }

  #invoke({ batchSize, timeoutMs, givenUpAfterMs, hiddenAfterDeathMs, skewMs }: Invocation): void {
    const { name, scheduler, queue, handler } = this.#options;
    const batch = queue.receive(batchSize);
    if (batch.length === 0) return;
    const process = new Process(scheduler, { name: `${name}-${++this.#invocations}`, kind: 'function', skewMs });
    let isOver = false;
    const giveUp = (hiddenMs: number) => {
      isOver = true;
      for (const { receipt } of batch) queue.changeVisibility(receipt, hiddenMs);
    };
    this.#inFlight += 1;
    process.onDeath(() => {
      this.#inFlight -= 1;
      if (!isOver && hiddenAfterDeathMs !== undefined) giveUp(hiddenAfterDeathMs);
      isOver = true;
    });
    const cancels = [
      scheduler.after(timeoutMs, () => process.kill()),
      ...(givenUpAfterMs === undefined ? [] : [scheduler.after(givenUpAfterMs, () => !isOver && giveUp(0))]),
    ];
    const finish = (kept: ReadonlySet<string>) => {
      if (!isOver) for (const { id, receipt } of batch) if (!kept.has(id)) queue.delete(receipt);
      isOver = true;
      for (const cancel of cancels) cancel();
      process.kill();
    };
    const { consume, source, telemetry } = handler(process, batch);
    processBatch(batch.map(deliveryOf), consume, source, telemetry).then(
      (failed) => finish(new Set(failed)),
      () => finish(new Set(batch.map(({ id }) => id))),
    );
  }
}

function deliveryOf({ id, body, group, receiveCount }: ReceivedMessage): Delivery {
  return { id, body, receiveCount, ...(group === undefined ? {} : { group }) };
}
