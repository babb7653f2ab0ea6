import type { JobReport } from '../lib/pool/decide-report.ts';
import type { Dispatch } from '../lib/pool/dispatch.ts';
import type { JobError } from '../lib/wire/index.ts';
import { type DispatchName, dispatch, FENCE, fingerprint, KEY, RECORDS } from './cast.ts';
import { anywhere, OVERTAKEN, owedByEnded, STOPPED, UNMATCHED } from './cells.ts';
import type { Cell, Table, TableRow } from './table.ts';

/** Table 2. */
export interface ReportRow extends TableRow {
  readonly report: JobReport;
  /** The record of the report's dispatch. */
  readonly dispatch?: Dispatch;
  /** The record of the dispatch that holds the key at the worker. */
  readonly holder?: Dispatch;
}

type FactOf<T extends JobReport['type']> = Extract<JobReport, { type: T }>;
type Extra<T extends JobReport['type']> = Omit<
  FactOf<T>,
  'type' | 'key' | 'dispatchId' | 'fingerprint' | 'fence' | 'worker' | 'session' | 'at'
>;
interface Said {
  readonly of?: DispatchName;
  readonly fence?: number;
  readonly worker?: string;
  readonly session?: string;
}

function report<T extends JobReport['type']>(
  type: T,
  extra: Extra<T>,
  { of = 'd1', fence = FENCE, worker = 'w1', session = 's1' }: Said = {},
): JobReport {
  return { type, key: KEY, dispatchId: of, fingerprint: fingerprint(of), fence, worker, session, at: 400, ...extra } as FactOf<T>;
}

const failure = (retryable: boolean): JobError => ({ code: 'boom', message: 'it broke', retryable });
const RUNNING_THERE = { dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 50, startedAt: 40 };

/** Every kind of report, as its owner would send it. */
const REPORTS = {
  started: (said?: Said) => report('started', { startedAt: 160 }, said),
  'start-failed': (said?: Said) => report('start-failed', { error: failure(false) }, said),
  'start-failed, retryable': (said?: Said) => report('start-failed', { error: failure(true) }, said),
  'finished, succeeded': (said?: Said) => report('finished', { startedAt: 160 }, said),
  'finished, failed': (said?: Said) => report('finished', { startedAt: 160, error: failure(false) }, said),
  'finished, to be tried again': (said?: Said) => report('finished', { startedAt: 160, error: failure(true) }, said),
  released: (said?: Said) => report('released', {}, said),
  stopped: (said?: Said) => report('stopped', {}, said),
  'stop-failed': (said?: Said) => report('stop-failed', { startedAt: 160, error: failure(false) }, said),
  'stop-failed, its start still out': (said?: Said) => report('stop-failed', { error: failure(false) }, said),
  'refused: at-capacity': (said?: Said) => report('refused', { reason: 'at-capacity' } as Extra<'refused'>, said),
  'refused: draining': (said?: Said) => report('refused', { reason: 'draining' } as Extra<'refused'>, said),
  'refused: fingerprint-mismatch': (said?: Said) => report('refused', { reason: 'fingerprint-mismatch' } as Extra<'refused'>, said),
  'refused: key-busy': (said?: Said) => report('refused', { reason: 'key-busy', running: RUNNING_THERE } as Extra<'refused'>, said),
} as const;
type Kind = keyof typeof REPORTS;

const REPEATED = owedByEnded();
const REFUSED: readonly Cell[] = [...REPEATED, ...OVERTAKEN, ...STOPPED, ['*', '→ pending (refused)']];
const LET_GO: readonly Cell[] = [...REPEATED, ...OVERTAKEN, ...STOPPED, ['*', '→ pending (released); assign']];
const SUCCEEDED = '→ ended (succeeded); settle d1 succeeded';
const FAILED = '→ ended (failed); settle d1 failed';
const START_FAILED = '→ ended (start-failed); settle d1 start-failed';

/** A report of the job's last dispatch and fence, by its owner. */
const MATCHING: Readonly<Record<Kind, readonly Cell[]>> = {
  started: [
    ...REPEATED,
    ...OVERTAKEN,
    ['assigned', '→ running; settle d1 started'],
    ['running', 'settle d1 started'],
    ['stopping', '→ {job}; settle d1 started; send(stop)'],
    ['stopping, ran', 'settle d1 started; send(stop)'],
    ['releasing', '→ {job}; settle d1 started; send(release)'],
    ['releasing, ran', 'settle d1 started; send(release)'],
  ],
  'start-failed': [
    ...REPEATED,
    ['pending, ran before', FAILED],
    ['pending (owner-lost) | pending (unrecognized)', START_FAILED],
    ...OVERTAKEN,
    ...STOPPED,
    ['running | releasing, ran', FAILED],
    ['*', START_FAILED],
  ],
  'start-failed, retryable': [...REPEATED, ...OVERTAKEN, ...STOPPED, ['*', '→ pending (start-failed)']],
  'finished, succeeded': [...REPEATED, ['*', SUCCEEDED]],
  'finished, failed': [...REPEATED, ['*', FAILED]],
  'finished, to be tried again': [...REPEATED, ['pending (restart)', 'assign'], ['stopping*', FAILED], ['*', '→ pending (restart)']],
  released: LET_GO,
  stopped: LET_GO,
  'stop-failed': [
    ...REPEATED,
    ...OVERTAKEN,
    ['releasing*', '→ running; settle d1 started'],
    ['running', 'settle d1 started'],
    ['assigned', 'send(start)'],
    ['*', 'nothing'],
  ],
  'stop-failed, its start still out': [
    ...REPEATED,
    ...OVERTAKEN,
    ['releasing*', '→ assigned; send(start)'],
    ['running', 'settle d1 started'],
    ['assigned', 'send(start)'],
    ['*', 'nothing'],
  ],
  'refused: at-capacity': REFUSED,
  'refused: draining': REFUSED,
  'refused: fingerprint-mismatch': [
    ...REPEATED,
    ...OVERTAKEN,
    ...STOPPED,
    ['running', 'count fingerprint-mismatch-alarm'],
    ['*', '→ pending (refused, only there); count fingerprint-mismatch-alarm'],
  ],
  'refused: key-busy': [
    ...REPEATED,
    ['pending, not due', 'tell stop for fence 50'],
    ['pending*', 'tell stop for fence 50; assign'],
    ...STOPPED,
    ['*', '→ pending (refused, only there); tell stop for fence 50'],
  ],
};

const ENDS = [
  'start-failed',
  'start-failed, retryable',
  'finished, succeeded',
  'finished, failed',
  'finished, to be tried again',
  'released',
  'stopped',
] as const;
const REFUSALS = ['refused: at-capacity', 'refused: draining', 'refused: fingerprint-mismatch', 'refused: key-busy'] as const;

const CONFIRMED = anywhere('tell confirm for fence 110');
const toldToStop = (fence: number) => anywhere(`tell stop for fence ${fence}; count report-unmatched`);

/** How a dispatch ends that no job names, by each report that says so. */
const ENDING: Readonly<Record<(typeof ENDS)[number], { readonly known: string; readonly unknown: string }>> = {
  'start-failed': { known: 'failed', unknown: 'start-failed' },
  'start-failed, retryable': { known: 'failed', unknown: 'start-failed' },
  'finished, succeeded': { known: 'succeeded', unknown: 'succeeded' },
  'finished, failed': { known: 'failed', unknown: 'failed' },
  'finished, to be tried again': { known: 'failed', unknown: 'failed' },
  released: { known: 'failed', unknown: 'start-failed' },
  stopped: { known: 'stopped', unknown: 'cancelled' },
};

const rows: ReportRow[] = [
  ...(Object.keys(REPORTS) as Kind[]).map(
    (kind): ReportRow => ({ when: `${kind}, matching`, report: REPORTS[kind](), columns: RECORDS, cells: MATCHING[kind] }),
  ),
  // Whoever reports that no handler is alive under that fence, or will be, is believed whatever session it has by now.
  ...[...ENDS, ...REFUSALS].map(
    (kind): ReportRow => ({
      when: `${kind}, by a later session of the owner`,
      report: REPORTS[kind]({ session: 's9' }),
      columns: RECORDS,
      cells: MATCHING[kind],
    }),
  ),
  {
    when: 'refused: key-busy, the dispatch that holds the key is started and not ended',
    report: REPORTS['refused: key-busy'](),
    holder: dispatch('d2', 'started') as Dispatch,
    columns: RECORDS,
    cells: [
      ...REPEATED,
      ['pending, ran before', 'tell stop for fence 50; assign'],
      ...OVERTAKEN,
      ...STOPPED,
      ['running | releasing, ran', '→ pending (refused, only there); tell stop for fence 50'],
      ['*', '→ pending (refused, only there)'],
    ],
  },
  // No record of the key.
  ...(['started', 'stop-failed'] as const).map(
    (kind): ReportRow => ({
      when: `${kind}, at a key without a record`,
      report: REPORTS[kind](),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['no record'],
      cells: [['no record', `tell confirm for fence ${FENCE}`]],
    }),
  ),
  ...ENDS.flatMap((kind): ReportRow[] => [
    {
      when: `${kind}, at a key without a record, its dispatch started`,
      report: REPORTS[kind](),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['no record'],
      cells: [['no record', `settle d1 ${ENDING[kind].known}; count report-unmatched`]],
    },
    {
      when: `${kind}, at a key without a record, its dispatch missing`,
      report: REPORTS[kind](),
      columns: ['no record'],
      cells: [['no record', `settle d1 ${ENDING[kind].unknown}; count report-unmatched`]],
    },
    ...(['admitted', 'ended', 'never-started'] as const).map(
      (status): ReportRow => ({
        when: `${kind}, at a key without a record, its dispatch ${status}`,
        report: REPORTS[kind](),
        dispatch: dispatch('d1', status) as Dispatch,
        columns: ['no record'],
        cells: [['no record', 'count report-unmatched']],
      }),
    ),
  ]),
  ...REFUSALS.map(
    (kind): ReportRow => ({
      when: `${kind}, at a key without a record`,
      report: REPORTS[kind](),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['no record'],
      cells: [['no record', 'count report-unmatched']],
    }),
  ),
  // The same dispatch at another fence.
  {
    when: 'started, of a lower fence',
    report: REPORTS.started({ fence: 90 }),
    dispatch: dispatch('d1', 'started') as Dispatch,
    columns: RECORDS,
    cells: toldToStop(90),
  },
  ...[...ENDS, ...REFUSALS, 'stop-failed' as const].map(
    (kind): ReportRow => ({
      when: `${kind}, of a lower fence`,
      report: REPORTS[kind]({ fence: 90 }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: RECORDS,
      cells: UNMATCHED,
    }),
  ),
  {
    when: 'started, of a fence above the record (a restored table)',
    report: REPORTS.started({ fence: 110 }),
    dispatch: dispatch('d1', 'started') as Dispatch,
    columns: RECORDS,
    cells: CONFIRMED,
  },
  {
    when: 'started, of another dispatch, of a fence above the record (a restored table)',
    report: REPORTS.started({ of: 'd2', fence: 110, worker: 'w2', session: 's2' }),
    columns: RECORDS,
    cells: CONFIRMED,
  },
  ...ENDS.map(
    (kind): ReportRow => ({
      when: `${kind}, of a fence above the record (a restored table)`,
      report: REPORTS[kind]({ fence: 110, worker: 'w2', session: 's2' }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: RECORDS,
      cells: [...owedByEnded('count report-unmatched'), ...MATCHING[kind].filter(([columns]) => !columns.startsWith('ended'))],
    }),
  ),
  ...[...REFUSALS, 'stop-failed' as const].map(
    (kind): ReportRow => ({
      when: `${kind}, of a fence above the record`,
      report: REPORTS[kind]({ fence: 110 }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: RECORDS,
      cells: UNMATCHED,
    }),
  ),
  // The same fence, but not by the owner.
  ...(['started', 'stop-failed'] as const).map(
    (kind): ReportRow => ({
      when: `${kind}, by a later session of the owner`,
      report: REPORTS[kind]({ session: 's9' }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: kind === 'started' ? toldToStop(FENCE) : [['*', 'count report-unmatched']],
    }),
  ),
  ...[...ENDS, 'started' as const].map(
    (kind): ReportRow => ({
      when: `${kind}, by another worker`,
      report: REPORTS[kind]({ worker: 'w2', session: 's2' }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: kind === 'started' ? toldToStop(FENCE) : [['*', 'count report-unmatched']],
    }),
  ),
  // Another dispatch than the record's.
  {
    when: 'started, of another dispatch that is started and not ended, by the owner',
    report: REPORTS.started({ of: 'd2', fence: 90 }),
    dispatch: dispatch('d2', 'started') as Dispatch,
    columns: RECORDS,
    cells: [
      ['ended', 'tell confirm for fence 90; count report-unmatched; settle d1 succeeded'],
      ['pending, ran before | running | stopping, ran | releasing, ran', 'tell stop for fence 90; count report-unmatched'],
      ...UNMATCHED,
    ],
  },
  {
    when: 'started, of another dispatch that is started and not ended, by another worker',
    report: REPORTS.started({ of: 'd2', fence: 90, worker: 'w2', session: 's2' }),
    dispatch: dispatch('d2', 'started') as Dispatch,
    columns: ['pending (refused)', 'pending, ran before', 'assigned', 'running', 'stopping', 'releasing'],
    cells: [
      ['pending (refused)', 'count report-unmatched'],
      ['*', 'tell stop for fence 90; count report-unmatched'],
    ],
  },
  ...(['ended', 'never-started', 'absent'] as const).map((status): ReportRow => {
    const record = dispatch('d2', status);
    return {
      when: `started, of another dispatch, ${status}`,
      report: REPORTS.started({ of: 'd2', fence: 90 }),
      ...(record ? { dispatch: record } : {}),
      columns: RECORDS,
      cells: toldToStop(90),
    };
  }),
  ...ENDS.map(
    (kind): ReportRow => ({
      when: `${kind}, of another dispatch that is started and not ended`,
      report: REPORTS[kind]({ of: 'd2', fence: 90 }),
      dispatch: dispatch('d2', 'started') as Dispatch,
      columns: RECORDS,
      cells: anywhere(`settle d2 ${ENDING[kind].known}; count report-unmatched`),
    }),
  ),
  ...ENDS.flatMap((kind) =>
    (['admitted', 'ended', 'never-started', 'absent'] as const).map((status): ReportRow => {
      const record = dispatch('d2', status);
      return {
        when: `${kind}, of another dispatch, ${status}`,
        report: REPORTS[kind]({ of: 'd2', fence: 90 }),
        ...(record ? { dispatch: record } : {}),
        columns: RECORDS,
        cells: UNMATCHED,
      };
    }),
  ),
  ...[...REFUSALS, 'stop-failed' as const].map(
    (kind): ReportRow => ({
      when: `${kind}, of another dispatch`,
      report: REPORTS[kind]({ of: 'd2', fence: 90 }),
      dispatch: dispatch('d2', 'started') as Dispatch,
      columns: RECORDS,
      cells: UNMATCHED,
    }),
  ),
  {
    when: 'finished, of the dispatch in `next`',
    report: REPORTS['finished, succeeded']({ of: 'd3', fence: 90 }),
    dispatch: dispatch('d3', 'started') as Dispatch,
    columns: ['running, next'],
    cells: [['*', 'count report-unmatched']],
  },
  ...(['released', 'stopped'] as const).map(
    (kind): ReportRow => ({
      when: `${kind}, matching, somebody waits`,
      report: REPORTS[kind](),
      columns: ['running, next', 'stopping, ran, next'],
      cells: [
        ['running, next', '→ pending (released), next d3; assign'],
        ['stopping*', '→ ended (stopped), next d3; settle d1 stopped; assign'],
      ],
    }),
  ),
  {
    when: 'finished, matching, somebody waits',
    report: REPORTS['finished, succeeded'](),
    columns: ['running, next', 'stopping, ran, next'],
    cells: [['*', '→ ended (succeeded), next d3; settle d1 succeeded; assign']],
  },
];

export const reportTable: Table<ReportRow> = {
  title: 'Report × job',
  about:
    'What the report function decides. Matching = the same dispatch and fence and, unless the job waits or has ended, its owner: worker and session, or the worker alone where the report says that no handler is alive.',
  rows,
};
