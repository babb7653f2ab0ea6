import { decodeTime } from 'ulid';
import type { RecordChange } from '../pool/decide-events.ts';
import { PoolError } from '../pool/errors.ts';
import type { EpochMs } from '../pool/job.ts';
import { decodeDispatch } from './dispatch-item.ts';
import { type Item, isExpired } from './item.ts';
import { decodeJob } from './job-item.ts';
import { prefixes } from './tables.ts';
import { decodeWorker } from './worker-item.ts';

/** One write, as the stream of a table tells it, with new and old images. Bytes in it are base64 text, and nobody reads them. */
export interface StreamRecord {
  readonly eventName?: 'INSERT' | 'MODIFY' | 'REMOVE' | undefined;
  readonly dynamodb?: {
    readonly Keys?: Item;
    readonly OldImage?: Item;
    readonly NewImage?: Item;
    readonly SequenceNumber?: string;
  };
}

/**
 * What the write changed; undefined where it tells nothing: of a payload, a round or the pool's state, and where a record went, because
 * it expired or somebody deleted it. An expired record that is overwritten counts as none, as for whoever wrote over it.
 *
 * Throws `corrupt-record` as the record's reader does.
 */
export function changeIn({ dynamodb: { OldImage: old, NewImage: image } = {} }: StreamRecord): RecordChange | undefined {
  const type = image && typeOf(image);
  if (!type) return undefined;
  const rev = image.rev?.S ?? '';
  const recordedAt = timeOf(image, rev);
  const written = { rev, recordedAt };
  const before = old && !isExpired(old, recordedAt) ? old : undefined;
  switch (type) {
    case 'job':
      return { type, ...written, before: before && decodeJob(before).record, after: decodeJob(image).record };
    case 'dispatch':
      return { type, ...written, before: before && decodeDispatch(before), after: decodeDispatch(image) };
    case 'worker':
      return { type, ...written, before: before && decodeWorker(before), after: decodeWorker(image) };
    default:
      return type satisfies never;
  }
}

function typeOf({ pk, sk }: Item): RecordChange['type'] | undefined {
  // The row of a worker has no sort key.
  if (sk && sk.S !== head) return undefined;
  return (['job', 'dispatch', 'worker'] as const).find((type) => pk?.S?.startsWith(prefixes[type]));
}

const head = 'head';

/** A revision is a ULID, made right before the write. */
function timeOf({ pk }: Item, rev: string): EpochMs {
  try {
    return decodeTime(rev);
  } catch (cause) {
    throw new PoolError('corrupt-record', `record ${JSON.stringify(pk?.S)}: its revision "${rev}" is no ULID`, { retryable: false, cause });
  }
}

/**
 * What of each table's stream is worth a look, as an event source filter says it. Unlike one on a queue it deletes nothing: what it leaves
 * out tells nothing (`changeIn` gives undefined, or a change that no event shows), and costs no invocation.
 *
 * Of workers these are the writes that register, which alone have no beat yet, and those of a row that is not active any more: a session
 * that left `active` never comes back to it. So the heartbeats of a working pool invoke nothing.
 */
export const tellingWrites = {
  jobs: [
    {
      eventName: ['INSERT', 'MODIFY'],
      dynamodb: { Keys: { pk: { S: [{ prefix: prefixes.job }, { prefix: prefixes.dispatch }] }, sk: { S: [head] } } },
    },
  ],
  workers: [
    { eventName: ['INSERT', 'MODIFY'], dynamodb: { NewImage: { beat: { N: ['0'] } } } },
    { eventName: ['INSERT', 'MODIFY'], dynamodb: { NewImage: { state: { S: ['draining', 'revoked', 'lost', 'left'] } } } },
  ],
} as const;
