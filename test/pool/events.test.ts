import { describe, expect, it } from 'vitest';
import { decideEvents, type RecordChange } from '../../lib/pool/decide-events.ts';
import type { Dispatch, NotStarted } from '../../lib/pool/dispatch.ts';
import type { EndedJob, Job, LiveJob } from '../../lib/pool/job.ts';
import type { WorkerRow } from '../../lib/pool/worker.ts';
import type { PoolEvent } from '../../lib/wire/index.ts';
import {
  anAdmitted,
  anAssigned,
  anEnded,
  aPending,
  aRegistration,
  aReleasing,
  aRunning,
  aStopping,
  at,
  ended,
  started,
} from '../conformance/samples.ts';

const facts = { pool: 'feeds', generation: 3 };
const written = { rev: 'r1', recordedAt: at + 210 };

const tell = (change: RecordChange) => decideEvents(change, facts);
const ofJob = (before: Job | undefined, after: Job) => tell({ type: 'job', ...written, before, after });
const ofDispatch = (before: Dispatch | undefined, after: Dispatch) => tell({ type: 'dispatch', ...written, before, after });
const ofWorker = (before: WorkerRow | undefined, after: WorkerRow) => tell({ type: 'worker', ...written, before, after });

/** The event of a job in short. */
function line(events: readonly PoolEvent[]): string {
  return events
    .map((event) => {
      if (event['detail-type'] !== 'Holdfast Job Change') throw new Error(`not of a job: ${event['detail-type']}`);
      const { from, to, why, worker } = event.detail;
      return [`${from ?? '-'} > ${to}`, ...(why ? [why] : []), ...(worker === undefined ? [] : [`@${worker}`])].join(' ');
    })
    .join(', ');
}

const head = { key: 'k', dispatchId: 'd1' };
const owner = { worker: 'w1', session: 's1' };
const fence = at + 1;
const jobs = {
  pending: aPending({ ...head, because: 'owner-lost', fence: at }),
  assigned: anAssigned({ ...head, owner, fence }),
  running: aRunning({ ...head, owner, fence }),
  stopping: aStopping({ ...head, owner, fence }),
  releasing: aReleasing({ ...head, owner, fence }),
  ended: anEnded({ ...head, fence }),
} satisfies Record<Job['status'], Job>;
const statuses = Object.keys(jobs) as Job['status'][];

describe('a job that changes', () => {
  /** What is told of each status, `*` for the one that it comes from. */
  const told: Record<Job['status'], string> = {
    pending: '* > pending owner-lost',
    assigned: '* > assigned @w1',
    running: '* > running @w1',
    stopping: '* > stopping stop-requested @w1',
    releasing: '* > releasing moved @w1',
    ended: '* > ended succeeded',
  };

  it.each(statuses.flatMap((from) => statuses.map((to) => [from, to] as const)))(
    'from %s to %s gives one event, and none where nothing shows (R13)',
    (from, to) => {
      // Who had it until now is told where nobody has it from now on.
      const until = ['pending', 'ended'].includes(to) && !['pending', 'ended'].includes(from) ? ' @w1' : '';
      expect(line(ofJob(jobs[from], jobs[to]))).toBe(from === to ? '' : told[to].replace('*', from) + until);
    },
  );

  it.each(statuses)('to %s where there was no record, as after its loss, tells from nothing', (to) => {
    expect(line(ofJob(undefined, jobs[to]))).toBe(told[to].replace('*', '-'));
  });

  it.each(statuses)('to %s of another dispatch tells nothing of the one before, nor whose that was', (to) => {
    for (const before of Object.values(jobs)) {
      expect(line(ofJob({ ...before, dispatchId: 'd0' }, jobs[to]))).toBe(told[to].replace('*', '-'));
    }
  });

  it('says why it waits, each time that this changes', () => {
    const because = ['admitted', 'released', 'start-failed', 'owner-lost', 'unrecognized', 'restart', 'refused'] as const;
    for (const why of because) {
      expect(line(ofJob(jobs.assigned, { ...jobs.pending, because: why }))).toBe(`assigned > pending ${why} @w1`);
      const again = line(ofJob(jobs.pending, { ...jobs.pending, because: why }));
      expect(again).toBe(why === 'owner-lost' ? '' : `pending > pending ${why}`);
    }
  });

  it('says how it ended', () => {
    const outcome = { outcome: 'started', at } as const;
    const settled: readonly [EndedJob['settled'], string][] = [
      [{ outcome, end: { status: 'succeeded', finishedAt: at } }, 'succeeded'],
      [{ outcome, end: { status: 'failed', finishedAt: at, error: { code: 'e', message: '' } } }, 'failed'],
      [{ outcome, end: { status: 'stopped', finishedAt: at, reason: 'replaced' } }, 'stopped'],
      [{ outcome: { outcome: 'cancelled', by: 'stop' } }, 'never-started'],
    ];
    for (const [how, why] of settled) {
      expect(line(ofJob(jobs.running, { ...jobs.ended, settled: how }))).toBe(`running > ended ${why} @w1`);
    }
  });

  it('of owner or fence is told though its status stays', () => {
    const other = { owner: { worker: 'w2', session: 's2' } };
    expect(line(ofJob(jobs.assigned, { ...jobs.assigned, ...other, fence: fence + 1 }))).toBe('assigned > assigned @w2');
    expect(line(ofJob(jobs.running, { ...jobs.running, fence: fence + 1 }))).toBe('running > running @w1');
  });

  it('in nothing that an event shows gives none: due times, answers, what waits behind it, a revision', () => {
    const { pending, assigned, running, ended: over } = jobs;
    const changes: readonly [Job, Job][] = [
      [pending, { ...pending, dueAt: at + 5_000, avoid: 'w2', busyAnswers: 2 }],
      [assigned, { ...assigned, busyAnswers: 3 }],
      [running, { ...running, next: 'd2', plan: 'nightly' }],
      [over, { ...over, next: 'd2' }],
      [over, over],
    ];
    for (const [before, after] of changes) expect(ofJob(before, after)).toEqual([]);
  });

  it('gives the whole of what the contract says, under the revision as its id', () => {
    expect(ofJob(jobs.running, jobs.pending)).toStrictEqual([
      {
        source: 'holdfast',
        'detail-type': 'Holdfast Job Change',
        detail: {
          ...{ v: 1, pool: 'feeds', generation: 3, id: 'r1', key: 'k', dispatchId: 'd1' },
          ...{ from: 'running', to: 'pending', why: 'owner-lost', worker: 'w1', fence: at, at: at + 210, recordedAt: at + 210 },
        },
      },
    ]);
  });

  it('says when it happened: by the worker where it knows, by the record where that does, and never by a time of an earlier change', () => {
    const when = (before: Job | undefined, after: Job) => ofJob(before, after).map(({ detail }) => 'at' in detail && detail.at);
    const { pending, assigned, running, stopping, releasing, ended: over } = jobs;
    const recorded = written.recordedAt;
    expect(when(undefined, { ...pending, because: 'admitted', admittedAt: at + 1 })).toEqual([at + 1]);
    expect(when(running, pending)).toEqual([recorded]);
    expect(when(pending, { ...assigned, assignedAt: at + 2 })).toEqual([at + 2]);
    expect(when(stopping, { ...assigned, assignedAt: at + 2 })).toEqual([recorded]);
    expect(when(assigned, { ...running, startedAt: at + 3 })).toEqual([at + 3]);
    expect(when({ ...assigned, startedAt: at + 3 }, { ...running, startedAt: at + 3 })).toEqual([recorded]);
    expect(when(running, { ...stopping, stopRequestedAt: at + 4 })).toEqual([at + 4]);
    expect(when(running, releasing)).toEqual([recorded]);
    expect(when(running, over)).toEqual([at]);
    expect(when(pending, { ...over, settled: { outcome: { outcome: 'cancelled', by: 'stop' } }, recordedAt: at + 5 })).toEqual([at + 5]);
  });
});

describe('a dispatch that changes', () => {
  const admitted = anAdmitted(new Uint8Array(), { key: 'k', dispatchId: 'd1' });
  const { status: _, ...rest } = admitted;
  const up = started(admitted);
  const over = ended(up, at);
  const refused = { outcome: 'refused', reason: 'key-busy', holder: { dispatchId: 'd0', sameRequest: true } } as const;
  const never = (outcome: NotStarted): Dispatch => ({ ...rest, status: 'never-started', outcome, expiresAt: at });
  const kinds = (events: readonly PoolEvent[]) => events.map((event) => event['detail-type'].replace('Holdfast Dispatch ', ''));

  it.each([
    ['nothing', 'admitted', undefined, admitted, []],
    ['nothing', 'started', undefined, up, ['Outcome']],
    ['nothing', 'ended', undefined, over, ['Outcome', 'End']],
    ['nothing', 'never started', undefined, never(refused), ['Outcome', 'End']],
    ['admitted', 'started', admitted, up, ['Outcome']],
    ['admitted', 'ended', admitted, over, ['Outcome', 'End']],
    ['admitted', 'never started', admitted, never(refused), ['Outcome', 'End']],
    ['started', 'ended', up, over, ['End']],
    ['admitted', 'a higher fence', admitted, { ...admitted, fence: at + 9 }, []],
    ['started', 'a higher fence', up, { ...up, fence: at + 9 }, []],
    ['ended', 'ended again', over, over, []],
    ['never started', 'never started again', never(refused), never(refused), []],
    ['an expired one', 'one of the same id', undefined, admitted, []],
  ] as const)('from %s to %s gives what it made known, once', (_from, _to, before, after, events) => {
    expect(kinds(ofDispatch(before, after))).toEqual(events);
  });

  it('tells the outcome and the end as the client gives them, each under an id of its own', () => {
    const told = { v: 1, pool: 'feeds', generation: 3, key: 'k', dispatchId: 'd1', recordedAt: at + 210 };
    expect(ofDispatch(admitted, over).map(({ detail }) => detail)).toStrictEqual([
      { ...told, id: 'r1.outcome', outcome: 'started', at },
      { ...told, id: 'r1.end', status: 'stopped', finishedAt: at, reason: 'stop-requested' },
    ]);
    expect(ofDispatch(admitted, never(refused)).map(({ detail }) => detail)).toStrictEqual([
      { ...told, id: 'r1.outcome', ...refused },
      { ...told, id: 'r1.end', status: 'never-started', outcome: refused },
    ]);
  });
});

describe('a worker that changes', () => {
  const states = ['active', 'draining', 'revoked', 'lost', 'left'] as const;
  const row = (state: WorkerRow['state'], change: Partial<WorkerRow> = {}): WorkerRow => ({
    ...aRegistration({ workerId: 'w1', session: 's1' }),
    ...{ state, beat: 7, running: 1 },
    ...change,
  });

  it.each(states.flatMap((from) => states.map((to) => [from, to] as const)))('from %s to %s is told once', (from, to) => {
    const events = ofWorker(row(from), row(to));
    const detail = { v: 1, pool: 'feeds', generation: 3, id: 'r1', worker: 'w1', session: 's1', from, to, recordedAt: at + 210 };
    expect(events).toStrictEqual(from === to ? [] : [{ source: 'holdfast', 'detail-type': 'Holdfast Worker Change', detail }]);
  });

  it('that registers, for the first time or anew, is told from nothing', () => {
    for (const before of [undefined, row('lost', { session: 's0' }), row('active', { session: 's0' })]) {
      const [event] = ofWorker(before, row('active'));
      expect(event?.detail).toMatchObject({ session: 's1', to: 'active' });
      expect(event?.detail).not.toHaveProperty('from');
    }
  });

  it('that only beats, answers a round or is stamped is not told', () => {
    const before = row('active');
    for (const change of [
      { beat: 8, running: 5 },
      { answered: 't' },
      { round: 't' },
      { generation: 4 },
      { auditAt: at },
      { namedAt: at },
    ]) {
      expect(ofWorker(before, { ...before, ...change })).toEqual([]);
    }
  });
});

it('the same change read again gives the same events under the same ids, though the pool has another generation by now', () => {
  const change: RecordChange = { type: 'job', ...written, before: jobs.running, after: jobs.ended };
  const [first] = decideEvents(change, facts);
  const [again] = decideEvents(change, { ...facts, generation: 4 });
  expect(again).toEqual({ ...first, detail: { ...first?.detail, generation: 4 } });
});

it('a job and its dispatch, written in one transaction and so under one revision, are told under ids of their own', () => {
  const live: LiveJob = jobs.running;
  const admitted = anAdmitted(new Uint8Array(), head);
  const events = [...ofJob(live, jobs.ended), ...ofDispatch(admitted, ended(started(admitted), at))];
  expect(new Set(events.map(({ detail }) => detail.id)).size).toBe(3);
});
