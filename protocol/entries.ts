import type { Dispatch } from '../lib/pool/dispatch.ts';
import type { PoolState, WorkerRow } from '../lib/pool/worker.ts';
import type { Asked } from '../lib/resync/round.ts';
import type { ResyncEntry } from '../lib/wire/index.ts';
import { COLUMNS, type DispatchName, dispatch, FENCE, fingerprint, KEY, OTHER, OWNER, RECORDS, worker } from './cast.ts';
import { anywhere, OVERTAKEN, owedByEnded, STOPPED, UNMATCHED } from './cells.ts';
import type { Table, TableRow } from './table.ts';

/** Table 5. */
export interface EntryRow extends TableRow {
  readonly entry: ResyncEntry;
  /** What the worker was asked on the page that it answers; absent: it tells without being asked. */
  readonly asked?: Asked;
  /** Who answers. */
  readonly by: { readonly worker: string; readonly session: string };
  readonly row?: WorkerRow;
  readonly dispatch?: Dispatch;
  /** Default: open. */
  readonly pool?: PoolState['state'];
  /** Of the pool; the one in which the job was assigned is 1, and so is this by default. */
  readonly generation?: number;
}

const LATER_SESSION = { worker: OWNER.worker, session: 's9' };

function running(of: DispatchName = 'd1', fence = FENCE): ResyncEntry {
  return { state: 'running', key: KEY, fence, dispatchId: of, fingerprint: fingerprint(of), startedAt: 160 };
}
function ended<S extends 'succeeded' | 'failed' | 'stopped' | 'released' | 'start-failed'>(
  state: S,
  of: DispatchName = 'd1',
  fence = FENCE,
): ResyncEntry {
  const error = { code: 'boom', message: 'it broke', retryable: false };
  const facts = { key: KEY, fence, dispatchId: of, fingerprint: fingerprint(of), finishedAt: 400 };
  switch (state) {
    case 'succeeded':
      return { ...facts, state: 'succeeded', startedAt: 160 };
    case 'failed':
      return { ...facts, state: 'failed', startedAt: 160, error };
    case 'start-failed':
      return { ...facts, state: 'start-failed', error };
    case 'stopped':
    case 'released':
      return { ...facts, state };
    default:
      throw new Error(state satisfies never);
  }
}
const unrecognized = (fence = FENCE): ResyncEntry => ({ state: 'unrecognized', key: KEY, fence });
const asked = (isRunning: boolean, fence = FENCE): Asked => ({ key: KEY, fence, running: isRunning });

const REPEATED = owedByEnded();
const CONFIRMED = anywhere('tell confirm for fence 110');

export const entryTable: Table<EntryRow> = {
  title: 'Resync entry × job',
  about:
    'One entry of the answer to a resync round. An end is committed in one transaction with its settlement. `asked` = on the page that is answered; `was running` = its owner had confirmed it when the round was armed.',
  rows: [
    {
      when: 'running, asked, the owner and the fence of the record',
      entry: running(),
      asked: asked(true),
      by: OWNER,
      columns: COLUMNS,
      cells: [
        ['no record', `tell confirm for fence ${FENCE}`],
        ['pending*', 'nothing'],
        ['assigned', '→ running; settle d1 started'],
        ['running', 'nothing'],
        ['stopping', '→ {job}; settle d1 started; send(stop)'],
        ['stopping, ran', 'settle d1 started; send(stop)'],
        ['releasing', '→ {job}; settle d1 started; send(release)'],
        ['releasing, ran', 'settle d1 started; send(release)'],
        ...owedByEnded(`tell stop for fence ${FENCE}`),
      ],
    },
    {
      when: 'running, asked, owned by a previous session of the worker',
      entry: running(),
      asked: asked(true),
      by: LATER_SESSION,
      columns: ['assigned', 'running', 'stopping, ran', 'releasing, ran'],
      cells: [
        ['assigned', '→ running; settle d1 started'],
        ['running', '→ {job}'],
        ['stopping, ran', '→ {job}; settle d1 started; send(stop)'],
        ['releasing, ran', '→ {job}; settle d1 started; send(release)'],
      ],
    },
    {
      when: 'running, not asked, the owner of the record (assigned after arming)',
      entry: running(),
      by: OWNER,
      columns: ['no record', 'assigned', 'running'],
      cells: [
        ['no record', `tell confirm for fence ${FENCE}`],
        ['assigned', '→ running; settle d1 started'],
        ['running', 'nothing'],
      ],
    },
    {
      when: 'running at a lower fence, not asked, the owner of the record (its new start is on the way)',
      entry: running('d1', 90),
      by: OWNER,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: [['*', 'nothing']],
    },
    {
      when: 'running, not asked, nobody owns it, the session is there',
      entry: running(),
      by: OWNER,
      row: worker(OWNER.worker, OWNER.session),
      columns: RECORDS.filter((column) => column.startsWith('pending')),
      cells: [
        ['pending (owner-lost) | pending (unrecognized) | pending, ran before', '→ running; settle d1 started'],
        ['*', 'nothing'],
      ],
    },
    {
      when: 'running, asked, nobody owns it any more, the session is there',
      entry: running(),
      asked: asked(true),
      by: OWNER,
      row: worker(OWNER.worker, OWNER.session),
      columns: RECORDS.filter((column) => column.startsWith('pending')),
      cells: [['*', 'nothing']],
    },
    ...(['revoked', 'lost', 'left'] as const).map(
      (state): EntryRow => ({
        when: `running, not asked, nobody owns it, the session is ${state}`,
        entry: running(),
        by: OWNER,
        row: worker(OWNER.worker, OWNER.session, { state }),
        columns: ['pending (owner-lost)', 'pending (unrecognized)'],
        cells: [['*', 'nothing']],
      }),
    ),
    {
      when: 'running at a lower fence, nobody owns it',
      entry: running('d1', 90),
      by: OWNER,
      row: worker(OWNER.worker, OWNER.session),
      columns: ['pending (owner-lost)'],
      cells: [['*', 'nothing']],
    },
    {
      when: 'running at a fence above the record (a restored table)',
      entry: running('d1', 110),
      by: OWNER,
      columns: COLUMNS,
      cells: CONFIRMED,
    },
    {
      when: 'running, another dispatch, at a fence above the record',
      entry: running('d2', 110),
      by: OTHER,
      dispatch: dispatch('d2', 'started') as Dispatch,
      columns: COLUMNS,
      cells: CONFIRMED,
    },
    {
      when: 'running, owned by another worker',
      entry: running(),
      by: OTHER,
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: [['*', `tell stop for fence ${FENCE}; count report-unmatched`]],
    },
    {
      when: 'running, another dispatch that is over, at a lower fence',
      entry: running('d2', 90),
      by: OTHER,
      dispatch: dispatch('d2', 'ended') as Dispatch,
      columns: RECORDS,
      cells: anywhere('tell stop for fence 90; count report-unmatched'),
    },
    { when: 'starting', entry: { ...running(), state: 'starting' } as ResyncEntry, by: OWNER, columns: COLUMNS, cells: [['*', 'nothing']] },
    {
      when: 'succeeded, the fence of the record',
      entry: ended('succeeded'),
      asked: asked(true),
      by: OWNER,
      columns: RECORDS,
      cells: [...REPEATED, ['*', '→ ended (succeeded); settle d1 succeeded']],
    },
    {
      when: 'succeeded, not asked, the fence of the record',
      entry: ended('succeeded'),
      by: OWNER,
      columns: RECORDS,
      cells: [...REPEATED, ['*', '→ ended (succeeded); settle d1 succeeded']],
    },
    {
      when: 'failed, the fence of the record',
      entry: ended('failed'),
      asked: asked(true),
      by: OWNER,
      columns: RECORDS,
      cells: [...REPEATED, ['*', '→ ended (failed); settle d1 failed']],
    },
    ...(['stopped', 'released'] as const).map(
      (state): EntryRow => ({
        when: `${state}, the fence of the record`,
        entry: ended(state),
        asked: asked(true),
        by: OWNER,
        columns: RECORDS,
        cells: [...REPEATED, ...OVERTAKEN, ...STOPPED, ['*', '→ pending (released); assign']],
      }),
    ),
    {
      when: 'start-failed, the fence of the record',
      entry: ended('start-failed'),
      asked: asked(false),
      by: OWNER,
      columns: RECORDS,
      cells: [
        ...REPEATED,
        ['pending, ran before', '→ ended (failed); settle d1 failed'],
        ['pending (owner-lost) | pending (unrecognized)', '→ ended (start-failed); settle d1 start-failed'],
        ...OVERTAKEN,
        ...STOPPED,
        ['running | releasing, ran', '→ ended (failed); settle d1 failed'],
        ['*', '→ ended (start-failed); settle d1 start-failed'],
      ],
    },
    {
      when: 'refused: at-capacity, the fence of the record',
      entry: { state: 'refused', reason: 'at-capacity', key: KEY, fence: FENCE, dispatchId: 'd1', fingerprint: fingerprint('d1') },
      asked: asked(false),
      by: OWNER,
      columns: RECORDS,
      cells: [...REPEATED, ...OVERTAKEN, ...STOPPED, ['*', '→ pending (refused)']],
    },
    {
      when: 'succeeded, a fence that has moved on',
      entry: ended('succeeded', 'd1', 90),
      asked: asked(true, 90),
      by: OWNER,
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: RECORDS,
      cells: UNMATCHED,
    },
    {
      when: 'succeeded, at a key without a record, its dispatch started',
      entry: ended('succeeded'),
      asked: asked(true),
      by: OWNER,
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ['no record'],
      cells: [['no record', 'settle d1 succeeded; count report-unmatched']],
    },
    {
      when: 'unrecognized, was running',
      entry: unrecognized(),
      asked: asked(true),
      by: OWNER,
      columns: COLUMNS,
      cells: [
        ['no record', 'nothing'],
        ...REPEATED,
        ...OVERTAKEN,
        ['assigned', 'send(start)'],
        ['running | releasing*', '→ pending (unrecognized); assign'],
        ...STOPPED,
      ],
    },
    {
      when: 'unrecognized, was not yet running',
      entry: unrecognized(),
      asked: asked(false),
      by: OWNER,
      columns: COLUMNS,
      cells: [
        ['no record | running', 'nothing'],
        ...REPEATED,
        ...OVERTAKEN,
        ['assigned', 'send(start)'],
        ['stopping*', 'send(stop)'],
        ['releasing*', 'send(release)'],
      ],
    },
    {
      when: 'unrecognized, was not yet running, pool recovering',
      entry: unrecognized(),
      asked: asked(false),
      by: OWNER,
      pool: 'recovering',
      columns: ['assigned'],
      cells: [['assigned', 'nothing']],
    },
    {
      when: 'unrecognized, was not yet running, an earlier assignment than the pool was last recovered',
      entry: unrecognized(),
      asked: asked(false),
      by: OWNER,
      generation: 2,
      columns: ['assigned'],
      cells: [['assigned', 'assign']],
    },
    {
      when: 'unrecognized, owned by a previous session of the worker',
      entry: unrecognized(),
      asked: asked(true),
      by: LATER_SESSION,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: [['*', 'assign']],
    },
    {
      when: 'unrecognized, a fence that has moved on',
      entry: unrecognized(90),
      asked: asked(true, 90),
      by: OWNER,
      columns: ['assigned', 'running', 'stopping', 'releasing', 'ended'],
      cells: [['*', 'nothing']],
    },
    {
      when: 'unrecognized, owned by another worker',
      entry: unrecognized(),
      asked: asked(true),
      by: OTHER,
      columns: ['assigned', 'running', 'stopping', 'releasing'],
      cells: [['*', 'nothing']],
    },
  ],
};
