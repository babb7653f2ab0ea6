import { randomUUID } from 'node:crypto';
import type { AdmittedDispatch, EndedDispatch, NeverStartedDispatch, StartedDispatch } from '../../lib/pool/dispatch.ts';
import type { AssignedJob, EndedJob, Job, PendingJob, ReleasingJob, RunningJob, StoppingJob } from '../../lib/pool/job.ts';
import { fingerprintOf, type StartRequest } from '../../lib/wire/index.ts';
import type { Registry } from '../../lib/worker/ports.ts';

// Every name is fresh, so that suites run side by side on one endpoint and find what is theirs among what is not.

/** Some fixed moment; nothing depends on which. */
export const at = 1_893_456_000_000;

export function aName(what: string): string {
  return `${what}-${randomUUID()}`;
}

/** With all that a joined, normalised, trimmed or unescaped key would lose. */
export function aKey(): string {
  return ` ${randomUUID()}#a/é/e\u0301:"\\'\n{}=,.. 😀 `;
}

function aHead() {
  return { key: aKey(), dispatchId: aName('d'), fingerprint: 'f'.repeat(64), fence: at, attempt: 1, admittedAt: at };
}

const owned = () => ({ ...aHead(), owner: { worker: aName('w'), session: aName('s') }, assignedAt: at });

export function aPending(change: Partial<PendingJob> = {}): PendingJob {
  return { ...aHead(), status: 'pending', because: 'admitted', dueAt: at, ...change };
}
export function anAssigned(change: Partial<AssignedJob> = {}): AssignedJob {
  return { ...owned(), status: 'assigned', ...change };
}
export function aRunning(change: Partial<RunningJob> = {}): RunningJob {
  return { ...owned(), status: 'running', startedAt: at, ...change };
}
export function aStopping(change: Partial<StoppingJob> = {}): StoppingJob {
  return { ...owned(), status: 'stopping', stopReason: 'stop-requested', stopRequestedAt: at, ...change };
}
export function aReleasing(change: Partial<ReleasingJob> = {}): ReleasingJob {
  return { ...owned(), status: 'releasing', releaseReason: 'moved', ...change };
}
export function anEnded(change: Partial<EndedJob> = {}): EndedJob {
  const settled = { outcome: { outcome: 'started', at }, end: { status: 'succeeded', finishedAt: at } } as const;
  return { ...aHead(), status: 'ended', settled, recordedAt: at, ...change };
}

/** One of each status, with every field that it may have; `recordedAt` is the time that an ended one was recorded. */
export function everyJob(recordedAt: number): readonly Job[] {
  const more = { startedAt: at + 1, next: aName('d'), plan: 'nightly', fence: at, above: Number.MAX_SAFE_INTEGER, attempt: 3 };
  const error = { code: 'refused', message: 'ö "quoted" \u0000' };
  return [
    aPending(),
    aPending({
      ...more,
      because: 'refused',
      avoid: aName('w'),
      only: { worker: aName('w'), session: aName('s') },
      busyAnswers: 2,
      fence: 0,
    }),
    anAssigned(),
    anAssigned({ ...more, generation: 5, busyAnswers: 4 }),
    aRunning(),
    aRunning(more),
    aStopping({ ...more, stopReason: 'pool-closed' }),
    aReleasing({ ...more, releaseReason: 'worker-draining' }),
    anEnded({ ...more, recordedAt }),
    anEnded({
      recordedAt,
      settled: {
        outcome: { outcome: 'started', at },
        end: { status: 'succeeded', finishedAt: at, result: { n: [1.5, null, ''], big: 1e300 } },
      },
    }),
    anEnded({
      recordedAt,
      settled: { outcome: { outcome: 'started', at }, end: { status: 'succeeded', finishedAt: at, resultOmitted: true } },
    }),
    anEnded({ recordedAt, settled: { outcome: { outcome: 'started', at }, end: { status: 'failed', finishedAt: at, error } } }),
    anEnded({
      recordedAt,
      settled: { outcome: { outcome: 'started', at }, end: { status: 'stopped', finishedAt: at, reason: 'replaced' } },
    }),
    anEnded({ recordedAt, settled: { outcome: { outcome: 'start-failed', error, attempts: 5 } } }),
    anEnded({ recordedAt, settled: { outcome: { outcome: 'cancelled', by: 'superseded' } } }),
    anEnded({
      recordedAt,
      settled: { outcome: { outcome: 'refused', reason: 'key-busy', holder: { dispatchId: aName('d'), sameRequest: true } } },
    }),
  ];
}

export function anAdmitted(payload: Uint8Array = new Uint8Array(), change: Partial<AdmittedDispatch> = {}): AdmittedDispatch {
  const key = change.key ?? aKey();
  return {
    status: 'admitted',
    dispatchId: aName('d'),
    key,
    fingerprint: fingerprintOf(key, payload),
    fence: at,
    requestedAt: at,
    ...change,
  };
}

export function started({ status: _, ...head }: AdmittedDispatch, startedAt = at): StartedDispatch {
  return { ...head, status: 'started', outcome: { outcome: 'started', at: startedAt } };
}

/** `expiresAt` is a whole second: a store may keep no more of it. */
export function ended(dispatch: StartedDispatch, expiresAt: number): EndedDispatch {
  return { ...dispatch, status: 'ended', end: { status: 'stopped', finishedAt: at, reason: 'stop-requested' }, expiresAt };
}

export function cancelled({ status: _, ...head }: AdmittedDispatch, expiresAt: number): NeverStartedDispatch {
  return { ...head, status: 'never-started', outcome: { outcome: 'cancelled', by: 'stop' }, expiresAt };
}

export function aRegistration(change: Partial<Parameters<Registry['register']>[0]> = {}) {
  return { workerId: aName('w'), session: aName('s'), leaseMs: 30_000, capacity: 10, registeredAt: at, ...change };
}

export function aStart(change: Partial<StartRequest> = {}): StartRequest {
  return { op: 'start', key: aKey(), payload: new Uint8Array([0, 1, 255]), dispatchId: aName('d'), ifBusy: 'reject', ...change };
}
