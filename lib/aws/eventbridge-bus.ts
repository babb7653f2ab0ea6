import { EventBridgeClient, PutEventsCommand, type PutEventsRequestEntry, type PutEventsResultEntry } from '@aws-sdk/client-eventbridge';
import type { PoolError } from '../pool/errors.ts';
import type { EventBus } from '../pool/tell-change.ts';
import { asciiJson } from '../wire/ascii.ts';
import type { PoolEvent } from '../wire/index.ts';
import { type AwsClientOptions, clientOptions } from './clients.ts';
import { translated, translateEntry } from './errors.ts';

export interface EventBridgeBusOptions {
  readonly eventBridge: EventBridgeClient;
  /** Name or ARN of the bus. */
  readonly bus: string;
}

/** What one call takes. In bytes ten events are far below what it takes, whatever is in them. */
const maxEntries = 10;

interface Waiting {
  readonly event: PoolEvent;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * An EventBridge bus. Events that are given within one turn of the event loop share calls. EventBridge may accept a call in part, so each
 * event gets an answer of its own; whoever must not be overtaken by the next event waits for that answer before giving it.
 */
export function eventBridgeBus({ eventBridge, bus }: EventBridgeBusOptions): EventBus {
  let waiting: Waiting[] = [];

  function flush(): void {
    const all = waiting;
    waiting = [];
    for (let from = 0; from < all.length; from += maxEntries) void put(all.slice(from, from + maxEntries));
  }

  async function put(batch: readonly Waiting[]): Promise<void> {
    const command = new PutEventsCommand({ Entries: batch.map(({ event }) => entryOf(bus, event)) });
    try {
      const { Entries: results = [] } = await translated(`event bus "${bus}"`, () => eventBridge.send(command));
      for (const [index, { event, resolve, reject }] of batch.entries()) {
        const failure = failureOf(event, results[index]);
        if (failure) reject(failure);
        else resolve();
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  return {
    publish: (event) =>
      new Promise((resolve, reject) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ event, resolve, reject });
      }),
  };
}

export function eventBridgeClient(options: AwsClientOptions): EventBridgeClient {
  return new EventBridgeClient(clientOptions(options));
}

/** Its time is that of the change, to the second, as EventBridge keeps it. */
export function entryOf(bus: string, { source, 'detail-type': type, detail }: PoolEvent): PutEventsRequestEntry {
  return { EventBusName: bus, Source: source, DetailType: type, Detail: asciiJson(detail), Time: new Date(detail.recordedAt) };
}

function failureOf(event: PoolEvent, result: PutEventsResultEntry | undefined): PoolError | undefined {
  if (result?.EventId !== undefined) return undefined;
  const { ErrorCode: code, ErrorMessage: message } = result ?? {};
  const what = `${event['detail-type']} "${event.detail.id}"`;
  // A code that is not known by its name says that the entry itself is wrong.
  return translateEntry(what, { Id: undefined, Code: code, Message: message, SenderFault: code !== undefined });
}
