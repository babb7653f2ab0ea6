import type { Dispatch } from '../lib/pool/dispatch.ts';
import type { Owner, PoolState, WorkerRow } from '../lib/pool/worker.ts';
import type { ConfirmedReport, KeyBusyReport } from '../lib/wire/index.ts';
import {
  bytes,
  type DispatchName,
  dispatch,
  FENCE,
  fingerprint,
  JOBS,
  JOBS_WITH_NEXT,
  KEY,
  OTHER,
  OWNER,
  PAYLOAD,
  worker,
} from './cast.ts';
import { anywhere, NOTHING, owedByEnded } from './cells.ts';
import type { Cell, Table, TableRow } from './table.ts';

/** Last lines of table 5, and the key-busy report that shows a lost record. */
export interface RestoreRow extends TableRow {
  readonly report: ConfirmedReport | KeyBusyReport;
  /** Of the dispatch that really runs. */
  readonly dispatch?: Dispatch;
  readonly hasPayload?: boolean;
  readonly row?: WorkerRow;
  readonly pool?: PoolState['state'];
}

const COLUMNS = [...Object.keys(JOBS), 'running, next', 'ended, next'];
const HERE = worker(OWNER.worker, OWNER.session);
const THERE = worker(OTHER.worker, OTHER.session);

function confirmed(of: DispatchName = 'd1', fence = FENCE, by: Owner = OWNER): ConfirmedReport {
  const said = { key: KEY, dispatchId: of, fingerprint: fingerprint(of), fence, ...by, at: 400 };
  return { ...said, type: 'confirmed', startedAt: 160, payload: PAYLOAD[of] };
}
function refused(of: DispatchName = 'd1', fence = FENCE, by: Owner = OWNER): KeyBusyReport {
  const said = { key: KEY, dispatchId: of, fingerprint: fingerprint(of), fence, ...by, at: 400 };
  return {
    ...said,
    type: 'refused',
    reason: 'key-busy',
    running: { dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 50, startedAt: 40 },
  };
}

function record(of: DispatchName, status: Dispatch['status'], more: { readonly fingerprint?: string } = {}) {
  return { dispatch: dispatch(of, status, more) as Dispatch };
}
const whole = (of: DispatchName) => ({ ...record(of, 'started'), hasPayload: true });

const told = (fence: number) => anywhere(`tell stop for fence ${fence}`);
const TOO_EARLY: readonly Cell[] = [['*', 'fail: unavailable']];

/** What is decided of the record's own dispatch and fence at its owner, where `d1` is what has to be written of the dispatch, if anything. */
function completed(d1: 'd1 started' | 'd1 started, its payload', isMissing: boolean): readonly Cell[] {
  const only = (effects: string) =>
    [...(isMissing ? [`restore: ${d1}`] : []), ...(effects === '' ? [] : [effects])].join('; ') || 'nothing';
  return [
    ...owedByEnded(`tell stop for fence ${FENCE}`),
    ['no record', `restore: running; ${d1}`],
    ['pending, not due', only('')],
    ['pending*', only('assign')],
    ['assigned', `restore: running; ${d1}`],
    ['running | running, next', only('')],
    ['stopping', `restore: stopping (stop-requested); ${d1}; send(stop)`],
    ['stopping, ran', only('send(stop)')],
    ['releasing', `restore: releasing; ${d1}; send(release)`],
    ['releasing, ran', only('send(release)')],
  ];
}
const COMPLETE = completed('d1 started', false);

/** What really runs takes the record's place, and what the record named instead did not run, or nobody knows how it ended. */
function replaced(d2: string): readonly Cell[] {
  return [
    ['no record', `restore: running; ${d2}`],
    ['ended, next', `settle d1 succeeded; restore: running, next d3; ${d2}`],
    ['ended', `settle d1 succeeded; restore: running; ${d2}`],
    ['running, next', `restore: running, next d3; ${d2}; d1 failed`],
    ['running | *, ran*', `restore: running; ${d2}; d1 failed`],
    ['*', `restore: running; ${d2}; d1 start-failed`],
  ];
}

/** At or below the record's fence; `unseen`: where the record's dispatch never started, and nobody else owns it. */
function beside(d2: string, unseen: string): readonly Cell[] {
  return [
    ['no record', `restore: running; ${d2}`],
    ['ended, next', `${unseen === 'nothing' ? '' : `${unseen}; `}settle d1 succeeded; assign`],
    ['ended', `settle d1 succeeded; restore: running; ${d2}`],
    ['pending, ran before', 'tell stop for fence 90'],
    ['pending*', unseen],
  ];
}

export const restoreTable: Table<RestoreRow> = {
  title: 'Restoration × job',
  about:
    'What `confirmed` restores, and a start that was refused as key-busy where that shows a lost record (else it is a report like any other). `restore` is one transaction: the job record as it was read, the dispatch records as they were read, the session registered and neither lost nor left, its row stamped with the generation of the pool, the pool not closed. Only what is missing is written.',
  rows: [
    // The record's own dispatch and fence, by its owner.
    {
      when: 'confirmed, the record’s dispatch and fence, by its owner',
      report: confirmed(),
      row: HERE,
      ...whole('d1'),
      columns: COLUMNS,
      cells: COMPLETE,
    },
    {
      when: 'confirmed, the same, the payload is missing',
      report: confirmed(),
      row: HERE,
      ...record('d1', 'started'),
      columns: COLUMNS,
      cells: completed('d1 started, its payload', true),
    },
    {
      when: 'confirmed, the same, `started` was not settled yet',
      report: confirmed(),
      row: HERE,
      ...record('d1', 'admitted'),
      hasPayload: true,
      columns: COLUMNS,
      cells: completed('d1 started', true),
    },
    {
      when: 'confirmed, the same, the dispatch record is missing',
      report: confirmed(),
      row: HERE,
      columns: COLUMNS,
      cells: completed('d1 started, its payload', true),
    },
    ...(['ended', 'never-started'] as const).map(
      (status): RestoreRow => ({
        when: `confirmed, the same, the dispatch is ${status}`,
        report: confirmed(),
        row: HERE,
        ...record('d1', status),
        columns: COLUMNS,
        cells: told(FENCE),
      }),
    ),
    {
      when: 'confirmed, the same, the dispatch was admitted with another payload',
      report: confirmed(),
      row: HERE,
      ...record('d1', 'started', { fingerprint: fingerprint('d2') }),
      columns: COLUMNS,
      cells: told(FENCE),
    },
    {
      when: 'confirmed, the dispatch id of the record, with another payload',
      report: { ...confirmed(), fingerprint: fingerprint('d2'), payload: PAYLOAD.d2 },
      row: HERE,
      columns: COLUMNS,
      cells: [['no record', 'restore: running; d1 started, its payload'], ...told(FENCE)],
    },
    {
      when: 'confirmed, with a payload that is not the fingerprint’s',
      report: { ...confirmed(), payload: bytes('broken') },
      row: HERE,
      columns: COLUMNS,
      cells: NOTHING,
    },

    // The registration, and the pool.
    ...(['draining', 'revoked', 'lost', 'left'] as const).map(
      (state): RestoreRow => ({
        when: `confirmed, the session is ${state}`,
        report: confirmed(),
        row: { ...HERE, state },
        ...whole('d1'),
        columns: COLUMNS,
        cells: state === 'lost' || state === 'left' ? NOTHING : COMPLETE,
      }),
    ),
    { when: 'confirmed, the worker has no row', report: confirmed(), ...whole('d1'), columns: COLUMNS, cells: NOTHING },
    {
      when: 'confirmed, the worker has a newer session',
      report: confirmed(),
      row: worker(OWNER.worker, 's9'),
      ...whole('d1'),
      columns: COLUMNS,
      cells: NOTHING,
    },
    {
      when: 'confirmed, the row is not stamped yet',
      report: confirmed(),
      row: worker(OWNER.worker, OWNER.session, { generation: undefined }),
      ...whole('d1'),
      columns: COLUMNS,
      cells: TOO_EARLY,
    },
    {
      when: 'confirmed, the row is stamped with another generation than the pool’s',
      report: confirmed(),
      row: { ...HERE, generation: 7 },
      ...whole('d1'),
      columns: COLUMNS,
      cells: TOO_EARLY,
    },
    {
      when: 'confirmed, the pool is closed',
      report: confirmed(),
      row: HERE,
      ...whole('d1'),
      pool: 'closed',
      columns: COLUMNS,
      cells: [['assigned | running*', 'nothing'], ['stopping*', 'send(stop)'], ['releasing*', 'send(release)'], ...told(FENCE)],
    },
    {
      when: 'confirmed, the pool is recovering',
      report: confirmed(),
      row: HERE,
      ...whole('d1'),
      pool: 'recovering',
      columns: COLUMNS,
      cells: COMPLETE,
    },

    // The record's dispatch at another fence, or another worker's.
    {
      when: 'confirmed, the record’s dispatch at a fence above it (a restored table)',
      report: confirmed('d1', 110, OTHER),
      row: THERE,
      ...whole('d1'),
      columns: COLUMNS,
      cells: [
        ...told(110).slice(0, 2),
        ['stopping*', 'restore: stopping (stop-requested); d1 started; send(stop)'],
        ['running, next', 'restore: running, next d3; d1 started'],
        ['*', 'restore: running; d1 started'],
      ],
    },
    {
      when: 'confirmed, the record’s dispatch at a lower fence, by its owner (assigned there since)',
      report: confirmed('d1', 90),
      row: HERE,
      ...whole('d1'),
      columns: COLUMNS,
      cells: [
        ['no record', 'restore: running; d1 started'],
        ...told(90).slice(0, 2),
        ['pending*', 'tell stop for fence 90'],
        ['*', 'nothing'],
      ],
    },
    {
      when: 'confirmed, the record’s dispatch at a lower fence, by another worker',
      report: confirmed('d1', 90, OTHER),
      row: THERE,
      ...whole('d1'),
      columns: COLUMNS,
      cells: [['no record', 'restore: running; d1 started'], ...told(90)],
    },
    {
      when: 'confirmed, the record’s dispatch and fence, by another worker than its owner',
      report: confirmed('d1', FENCE, OTHER),
      row: THERE,
      ...whole('d1'),
      columns: COLUMNS,
      cells: [['no record', 'restore: running; d1 started'], ['pending, not due', 'nothing'], ['pending*', 'assign'], ...told(FENCE)],
    },

    // Another dispatch than the record's.
    {
      when: 'confirmed, another dispatch at a fence above the record (a restored table)',
      report: confirmed('d2', 110, OTHER),
      row: THERE,
      ...whole('d2'),
      columns: COLUMNS,
      cells: replaced('d2 started'),
    },
    {
      when: 'confirmed, another dispatch at a fence above the record, of which nothing is known',
      report: confirmed('d2', 110, OTHER),
      row: THERE,
      columns: COLUMNS,
      cells: replaced('d2 started, its payload'),
    },
    {
      when: 'confirmed, the dispatch in `next` at a fence above the record (its turn came since)',
      report: confirmed('d3', 110, OTHER),
      row: THERE,
      ...record('d3', 'admitted'),
      hasPayload: true,
      columns: ['running, next', 'ended, next'],
      cells: [
        ['running, next', 'restore: running; d3 started; d1 failed'],
        ['ended, next', 'settle d1 succeeded; restore: running; d3 started'],
      ],
    },
    {
      when: 'confirmed, another dispatch at a lower fence, by the owner of the record',
      report: confirmed('d2', 90),
      row: HERE,
      ...whole('d2'),
      columns: COLUMNS,
      cells: [...beside('d2 started', 'nothing'), ['assigned | stopping | releasing', 'nothing'], ['*', 'tell stop for fence 90']],
    },
    {
      when: 'confirmed, another dispatch at a lower fence, by another worker',
      report: confirmed('d2', 90, OTHER),
      row: THERE,
      ...whole('d2'),
      columns: COLUMNS,
      cells: [...beside('d2 started', 'nothing'), ['*', 'tell stop for fence 90']],
    },
    {
      when: 'confirmed, another dispatch at a lower fence, its start not settled yet, by the owner of the record',
      report: confirmed('d2', 90),
      row: HERE,
      ...record('d2', 'admitted'),
      hasPayload: true,
      columns: COLUMNS,
      cells: [...beside('d2 started', 'tell stop for fence 90'), ['*', 'tell stop for fence 90']],
    },
    {
      when: 'confirmed, another dispatch at a lower fence, of which nothing is known, by the owner of the record',
      report: confirmed('d2', 90),
      row: HERE,
      columns: COLUMNS,
      cells: [...beside('d2 started, its payload', 'tell stop for fence 90'), ['*', 'tell stop for fence 90']],
    },

    // A start that was refused because something else runs there.
    {
      when: 'refused: key-busy, by a dispatch that is started and not ended',
      report: refused(),
      row: HERE,
      ...record('d2', 'started'),
      columns: [...COLUMNS, 'assigned, next'],
      cells: [
        ['assigned | releasing', 'restore: running; d2 started; d1 refused: key-busy'],
        ['assigned, next', 'restore: running, next d3; d2 started; d1 refused: key-busy'],
        ['stopping', 'restore: running; d2 started; d1 cancelled'],
        ['*', 'a report like any other'],
      ],
    },
    ...(['admitted', 'ended', 'never-started'] as const).map(
      (status): RestoreRow => ({
        when: `refused: key-busy, by a dispatch that is ${status}`,
        report: refused(),
        row: HERE,
        ...record('d2', status),
        columns: COLUMNS,
        cells: [['*', 'a report like any other']],
      }),
    ),
    {
      when: 'refused: key-busy, at another fence than the record’s',
      report: refused('d1', 90),
      row: HERE,
      ...record('d2', 'started'),
      columns: COLUMNS,
      cells: [['*', 'a report like any other']],
    },
    {
      when: 'refused: key-busy, repeated by a later session of the owner (a restored table)',
      report: refused('d1', FENCE, { ...OWNER, session: 's9' }),
      row: worker(OWNER.worker, 's9'),
      ...record('d2', 'started'),
      columns: COLUMNS,
      cells: [['*', 'a report like any other']],
    },
    {
      when: 'refused: key-busy, the row is not stamped yet',
      report: refused(),
      row: worker(OWNER.worker, OWNER.session, { generation: undefined }),
      ...record('d2', 'started'),
      columns: COLUMNS,
      cells: [
        ['assigned | stopping | releasing', 'fail: unavailable'],
        ['*', 'a report like any other'],
      ],
    },
    ...(['closed', 'open'] as const).map(
      (pool): RestoreRow => ({
        when: pool === 'closed' ? 'refused: key-busy, the pool is closed' : 'refused: key-busy, the session is lost',
        report: refused(),
        row: pool === 'closed' ? HERE : { ...HERE, state: 'lost' },
        pool,
        ...record('d2', 'started'),
        columns: COLUMNS,
        cells: [['*', 'a report like any other']],
      }),
    ),
  ],
};

/** The record of the dispatch that stands at the key, where it says what the job record says. */
export function namedAt(column: string): Dispatch | undefined {
  const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
  if (!job) return undefined;
  return dispatch('d1', job.status === 'ended' ? 'ended' : job.startedAt === undefined ? 'admitted' : 'started', { fence: job.fence });
}
