import type { Context } from '../lib/pool/decision.ts';
import type { Dispatch } from '../lib/pool/dispatch.ts';
import type { EndedJob, Job, PendingBecause } from '../lib/pool/job.ts';
import { DEFAULT_SETTINGS } from '../lib/pool/settings.ts';
import type { WorkerRow } from '../lib/pool/worker.ts';
import { fingerprintOf } from '../lib/wire/index.ts';

/**
 * Who plays in the tables: at key `k` stands dispatch `d1`, owned by `w1` in session `s1` at fence 100; `d3` waits as `next` where
 * somebody waits; `d2` is another dispatch. `w2` has room; the next fence is the time, 1000.
 */
export const NOW = 1_000;
export const KEY = 'k';
export const FENCE = 100;
export const PAYLOAD = { d1: bytes('one'), d2: bytes('two'), d3: bytes('three') } as const;
export type DispatchName = keyof typeof PAYLOAD;

export const OWNER = { worker: 'w1', session: 's1' } as const;
export const OTHER = { worker: 'w2', session: 's2' } as const;

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function fingerprint(name: DispatchName): string {
  return fingerprintOf(KEY, PAYLOAD[name]);
}

export function worker(workerId: string, session: string, more: Partial<WorkerRow> = {}): WorkerRow {
  return {
    workerId,
    session,
    state: 'active',
    beat: 7,
    leaseMs: 30_000,
    capacity: 10,
    running: 0,
    registeredAt: 1,
    generation: 1,
    ...more,
  };
}

export function context(more: Partial<Context> = {}): Context {
  return { now: NOW, settings: DEFAULT_SETTINGS, pool: { state: 'open', generation: 1 }, workers: [worker('w2', 's2')], ...more };
}

const HEAD = { key: KEY, dispatchId: 'd1', fingerprint: fingerprint('d1'), fence: FENCE, attempt: 1, admittedAt: 10 };
const OWNED = { ...HEAD, owner: OWNER, assignedAt: 100, generation: 1 };
const BECAUSE = [
  'admitted',
  'released',
  'start-failed',
  'owner-lost',
  'unrecognized',
  'restart',
  'refused',
] as const satisfies readonly PendingBecause[];

const ENDED: EndedJob = {
  ...HEAD,
  status: 'ended',
  startedAt: 150,
  settled: { outcome: { outcome: 'started', at: 150 }, end: { status: 'succeeded', finishedAt: 300 } },
  recordedAt: 301,
};

/** Every state that the record of a key can be in; each of these is a column of the tables. */
export const JOBS: Readonly<Record<string, Job | undefined>> = {
  'no record': undefined,
  ...Object.fromEntries(
    BECAUSE.map((because) => [`pending (${because})`, { ...HEAD, status: 'pending', because, dueAt: 900 } satisfies Job]),
  ),
  'pending, not due': { ...HEAD, status: 'pending', because: 'start-failed', dueAt: 2_000 },
  'pending, ran before': { ...HEAD, status: 'pending', because: 'owner-lost', dueAt: 900, startedAt: 150 },
  assigned: { ...OWNED, status: 'assigned' },
  running: { ...OWNED, status: 'running', startedAt: 150 },
  stopping: { ...OWNED, status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: 200 },
  'stopping, ran': { ...OWNED, status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: 200, startedAt: 150 },
  releasing: { ...OWNED, status: 'releasing', releaseReason: 'moved' },
  'releasing, ran': { ...OWNED, status: 'releasing', releaseReason: 'moved', startedAt: 150 },
  ended: ENDED,
};

/** The same states with `d3` waiting for its turn. */
export const JOBS_WITH_NEXT: Readonly<Record<string, Job>> = Object.fromEntries(
  Object.entries(JOBS).flatMap(([name, job]) => (job ? [[`${name}, next`, { ...job, next: 'd3' }]] : [])),
);

/** What a report or an entry can meet. */
export const COLUMNS: readonly string[] = [...Object.keys(JOBS), 'ended, next'];
export const RECORDS = COLUMNS.filter((column) => column !== 'no record');

/** A dispatch record in each of its states, or none. */
export function dispatch(
  name: DispatchName,
  status: Dispatch['status'] | 'absent',
  more: { readonly key?: string; readonly fingerprint?: string; readonly fence?: number } = {},
): Dispatch | undefined {
  const head = { dispatchId: name, key: KEY, fingerprint: fingerprint(name), fence: 0, requestedAt: 5, ...more };
  switch (status) {
    case 'absent':
      return undefined;
    case 'admitted':
      return { ...head, status };
    case 'started':
      return { ...head, status, outcome: { outcome: 'started', at: 150 } };
    case 'ended':
      return { ...head, status, outcome: { outcome: 'started', at: 150 }, end: { status: 'succeeded', finishedAt: 300 }, expiresAt: 9_000 };
    case 'never-started':
      return { ...head, status, outcome: { outcome: 'cancelled', by: 'stop' }, expiresAt: 9_000 };
    default:
      return status satisfies never;
  }
}
