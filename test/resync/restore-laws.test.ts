import { beforeAll, describe, expect, test } from 'vitest';
import type { Dispatch } from '../../lib/pool/dispatch.ts';
import { isLive, isOwned, type Job } from '../../lib/pool/job.ts';
import { assigned } from '../../lib/pool/transitions.ts';
import type { PoolState, WorkerRow } from '../../lib/pool/worker.ts';
import { decideHolder, decideRestore, inWords, type RestoreDecision, type RestoreSnapshot } from '../../lib/resync/decide-restore.ts';
import type { ConfirmedReport, KeyBusyReport } from '../../lib/wire/index.ts';
import {
  context,
  type DispatchName,
  dispatch,
  fingerprint,
  JOBS,
  JOBS_WITH_NEXT,
  KEY,
  OWNER,
  PAYLOAD,
  worker,
} from '../../protocol/cast.ts';
import { namedAt } from '../../protocol/restore.ts';

/**
 * What holds of every job record, dispatch record, row, pool and report there can be together; the table says what is decided, these
 * say what never is.
 */
interface Case {
  readonly snapshot: RestoreSnapshot;
  readonly report: ConfirmedReport | KeyBusyReport;
  readonly decision: RestoreDecision;
}

const COLUMNS: Readonly<Record<string, Job | undefined>> = { ...JOBS, ...JOBS_WITH_NEXT };
const ROWS: readonly (Partial<WorkerRow> | undefined)[] = [
  undefined,
  ...(['active', 'draining', 'revoked', 'lost', 'left'] as const).map((state) => ({ state })),
  { session: 'another' },
  { generation: undefined },
  { generation: 2 },
];
const POOLS: readonly PoolState[] = (['open', 'closed', 'recovering'] as const).map((state) => ({ state, generation: 1 }));
const BY = [OWNER, { worker: 'w2', session: 's2' }];
const NAMES: readonly DispatchName[] = ['d1', 'd2', 'd3'];

function dispatches(of: DispatchName): readonly (Dispatch | undefined)[] {
  const known = (['absent', 'admitted', 'started', 'ended', 'never-started'] as const).map((status) => dispatch(of, status));
  return [...known, dispatch(of, 'started', { fingerprint: 'another' }), dispatch(of, 'started', { fence: 120 })];
}

function reports(): readonly (readonly [DispatchName, ConfirmedReport | KeyBusyReport])[] {
  const said = BY.flatMap((by) => [90, 100, 110].map((fence) => ({ key: KEY, fence, ...by, at: 400 })));
  const confirmed = NAMES.flatMap((of) =>
    said.map((fact): readonly [DispatchName, ConfirmedReport] => [
      of,
      { ...fact, type: 'confirmed', dispatchId: of, fingerprint: fingerprint(of), startedAt: 160, payload: PAYLOAD[of] },
    ]),
  );
  const refused = said.map((fact): readonly [DispatchName, KeyBusyReport] => {
    const running = { dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 50, startedAt: 40 };
    return ['d2', { ...fact, type: 'refused', reason: 'key-busy', dispatchId: 'd1', fingerprint: fingerprint('d1'), running }];
  });
  return [...confirmed, ...refused];
}

function decide(snapshot: RestoreSnapshot, report: ConfirmedReport | KeyBusyReport): RestoreDecision {
  if (report.type === 'confirmed') return decideRestore(snapshot, report, context());
  return decideHolder(snapshot, report, context()) ?? { rule: 'none' };
}

const cases: Case[] = [];
beforeAll(() => {
  for (const [column, job] of Object.entries(COLUMNS)) {
    for (const [of, report] of reports()) {
      const named = job === undefined || job.dispatchId === of ? undefined : namedAt(column);
      for (const record of dispatches(of)) {
        for (const row of ROWS) {
          for (const pool of POOLS) {
            for (const hasPayload of record ? [true, false] : [false]) {
              const snapshot = {
                ...(job ? { job } : {}),
                ...(record ? { dispatch: record } : {}),
                hasPayload,
                ...(named ? { named } : {}),
                ...(row ? { row: worker(report.worker, report.session, row) } : {}),
                pool,
              };
              cases.push({ snapshot, report, decision: decide(snapshot, report) });
            }
          }
        }
      }
    }
  }
});

const restored = () => cases.filter(({ decision }) => decision.restoration !== undefined);
const told = ({ decision }: Case) => (decision.effects ?? []).some((effect) => effect.type === 'tell' && effect.command.op === 'stop');
/** As one, because there are a hundred thousand. */
function none(those: readonly Case[]): void {
  expect(those.slice(0, 3).map(({ snapshot, report, decision }) => ({ snapshot, report, decision: inWords(decision) }))).toEqual([]);
}

describe('a restoration', () => {
  test('is decided in some of the cases, and not in most', () => {
    expect(restored().length).toBeGreaterThan(1_000);
    expect(restored().length).toBeLessThan(cases.length / 5);
  });

  test('rests on the registration of that very session, in the generation of a pool that is not closed (P7)', () => {
    const rests = ({ snapshot: { row, pool }, report }: Case) =>
      row?.session === report.session &&
      ['active', 'draining', 'revoked'].includes(row.state) &&
      row.generation === 1 &&
      pool.state !== 'closed';
    none(restored().filter((each) => !rests(each)));
  });

  test('takes nothing from another owner or dispatch at or above its fence, unless that has ended (P8)', () => {
    const takes = ({ snapshot: { job }, report, decision: { restoration } }: Case) =>
      report.type === 'confirmed' &&
      restoration?.job !== undefined &&
      job !== undefined &&
      job.status !== 'ended' &&
      job.fence >= report.fence &&
      (job.dispatchId !== report.dispatchId || !isOwned(job) || job.owner.worker !== report.worker);
    none(restored().filter(takes));
  });

  test('puts what holds the key in the place of nothing that ever started (P8)', () => {
    const takes = ({ snapshot: { job, named }, report }: Case) =>
      report.type === 'refused' && (job === undefined || !isOwned(job) || job.startedAt !== undefined || named?.status === 'started');
    none(restored().filter(takes));
  });

  test('revives nothing that ended, and no dispatch that was admitted as another request (G7, P3, P4)', () => {
    const revives = ({ snapshot: { job, dispatch: record }, decision: { restoration } }: Case) =>
      record?.status === 'ended' ||
      record?.status === 'never-started' ||
      record?.fingerprint === 'another' ||
      (job?.status === 'ended' && job.dispatchId === restoration?.dispatch.next.dispatchId);
    none(restored().filter(revives));
  });

  test('lets nobody lose their turn, but whoever is restored', () => {
    const drops = ({ snapshot: { job }, decision: { restoration } }: Case) =>
      restoration?.job !== undefined &&
      job?.next !== undefined &&
      job.next !== restoration.dispatch.next.dispatchId &&
      restoration.job.next !== job.next;
    none(restored().filter(drops));
  });

  test('keeps of the records what they know: since when it ran, its attempt, when it was asked for, a stop, a higher fence', () => {
    const forgets = ({ snapshot: { job, dispatch: record }, decision: { restoration } }: Case) => {
      const next = restoration?.dispatch.next;
      const after = restoration?.job;
      const isSame = job?.dispatchId === next?.dispatchId;
      return (
        (record !== undefined && next !== undefined && (next.fence < record.fence || next.requestedAt !== record.requestedAt)) ||
        (record?.status === 'started' && next?.status === 'started' && next.outcome.at !== record.outcome.at) ||
        (isSame && after !== undefined && (after.attempt !== job?.attempt || (job.startedAt ?? after.startedAt) !== after.startedAt)) ||
        (isSame && after !== undefined && job?.status === 'stopping' && after.status !== 'stopping')
      );
    };
    none(restored().filter(forgets));
  });

  test('leaves what is assigned at the key after it a fence above all that were given there (G1)', () => {
    const isOf = (falls: boolean) =>
      restored().filter(({ snapshot: { job }, decision: { restoration } }) => {
        const after = restoration?.job;
        return job && after && isLive(after) && (falls ? after.fence < job.fence : assigned(after, OWNER, 1, 0).fence <= job.fence);
      });
    expect(isOf(true).length, 'restored under a lower fence than the record').toBeGreaterThan(0);
    none(isOf(false));
  });

  test('brings a payload exactly where there is none (P6, P7)', () => {
    const isWrong = ({ snapshot: { hasPayload }, report, decision: { restoration } }: Case) =>
      (restoration?.dispatch.payload !== undefined) !== (report.type === 'confirmed' && !hasPayload);
    none(restored().filter(isWrong));
  });

  test('settles what it takes the place of, once and for all', () => {
    const isOpen = ({ snapshot: { job, named }, decision: { restoration, before = [] } }: Case) => {
      if (job === undefined || job.dispatchId === restoration?.dispatch.next.dispatchId) return false;
      if (job.status === 'ended')
        return !before.some((effect) => effect.type === 'settle' && effect.settlement.dispatchId === job.dispatchId);
      const { status } = restoration?.displaced?.next ?? {};
      return status !== (named?.status === 'started' || job.startedAt !== undefined ? 'ended' : 'never-started');
    };
    none(restored().filter(isOpen));
  });

  test('decided again on what it left behind writes nothing more, and yields the same effects', () => {
    const isUnstable = ({ snapshot, report, decision }: Case) => {
      if (report.type === 'refused' || !decision.restoration) return false;
      const { job, dispatch: change } = decision.restoration;
      const { named: _, ...rest } = snapshot;
      const again = decide({ ...rest, ...(job ? { job } : {}), dispatch: change.next, hasPayload: true }, report);
      const effects = (each: RestoreDecision) => inWords({ rule: '', effects: each.effects ?? [] });
      return again.restoration !== undefined || effects(again) !== effects(decision);
    };
    none(restored().filter(isUnstable));
  });

  test('of what holds a key is decided once: after it the refusal speaks of nothing on record', () => {
    const isUnstable = ({ snapshot, report, decision: { restoration } }: Case) =>
      report.type === 'refused' && decide({ ...snapshot, ...(restoration?.job ? { job: restoration.job } : {}) }, report).rule !== 'none';
    none(restored().filter(isUnstable));
  });
});

describe('a handler', () => {
  test('is told to stop, restored, or left alone: never two of these', () => {
    none(restored().filter(told));
  });

  test('is not told to stop while the record says that it runs there under that fence', () => {
    const isRightful = ({ snapshot: { job, dispatch: record, pool }, report }: Case) =>
      job?.status === 'running' &&
      job.dispatchId === report.dispatchId &&
      job.fence === report.fence &&
      job.owner.worker === report.worker &&
      (pool.state !== 'closed' || job.owner.session === report.session) &&
      (record === undefined || (record.status === 'started' && record.fingerprint !== 'another'));
    none(cases.filter((each) => isRightful(each) && told(each)));
  });

  test('is not told to stop for a dispatch that never started, where its own is on record as started and not ended (P2)', () => {
    const isLost = ({ snapshot: { job, dispatch: record, pool }, report }: Case) =>
      report.type === 'confirmed' &&
      job !== undefined &&
      job.dispatchId !== report.dispatchId &&
      job.status === 'pending' &&
      job.startedAt === undefined &&
      record?.status === 'started' &&
      record.fingerprint !== 'another' &&
      pool.state !== 'closed';
    none(cases.filter((each) => isLost(each) && told(each)));
  });

  test('whose session is over, or was not seen yet, is told nothing', () => {
    const isAway = ({ snapshot: { row }, report }: Case) =>
      row === undefined || row.session !== report.session || row.state === 'lost' || row.state === 'left';
    none(cases.filter((each) => isAway(each) && told(each)));
  });
});
