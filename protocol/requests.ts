import type { Context } from '../lib/pool/decision.ts';
import type { Dispatch } from '../lib/pool/dispatch.ts';
import type { AssignRequest, MoveRequest, NotifyRequest, StartRequest, StopRequest } from '../lib/wire/index.ts';
import { bytes, type DispatchName, dispatch, FENCE, JOBS, JOBS_WITH_NEXT, KEY, NOW, PAYLOAD } from './cast.ts';
import { anywhere, NOTHING, owedByEnded } from './cells.ts';
import type { Cell, Table, TableRow } from './table.ts';

/** Table 1. */
export interface RequestRow extends TableRow {
  readonly request: StartRequest | StopRequest | NotifyRequest | AssignRequest | MoveRequest;
  /** The record of the dispatch that the request names. */
  readonly dispatch?: Dispatch;
  /** The record of `d3`, where it waits at an ended job; by default it is admitted. */
  readonly next?: Dispatch | 'missing';
  readonly pool?: Context['pool']['state'];
  /** Of the pool; the one in which the job was assigned is 1, and so is this by default. */
  readonly generation?: number;
  readonly workers?: readonly [];
}

const ALL = [...Object.keys(JOBS), ...Object.keys(JOBS_WITH_NEXT)];
const WITH_NEXT = Object.keys(JOBS_WITH_NEXT);
const RECORDS = ALL.filter((column) => column !== 'no record');

function start(name: DispatchName, more: Partial<StartRequest> = {}): StartRequest {
  return { op: 'start', key: KEY, payload: PAYLOAD[name], dispatchId: name, ifBusy: 'reject', ...more };
}
const stop = (dispatchId?: string): StopRequest => ({ op: 'stop', key: KEY, ...(dispatchId === undefined ? {} : { dispatchId }) });
const assign: AssignRequest = { op: 'assign', key: KEY };
const notify: NotifyRequest = { op: 'notify', key: KEY, id: 'n1', payload: bytes('hello') };

/** A start of the job's own dispatch carries out what its state owes, and assigns it where it waits. */
const REPEATED: readonly Cell[] = [
  ['pending, not due*', 'nothing'],
  ['pending*, next', '→ assigned, next d3; send(start)'],
  ['pending*', '→ assigned; send(start)'],
  ['assigned*', 'send(start)'],
  ['running*', 'settle d1 started'],
  ['stopping*', 'send(stop)'],
  ['releasing*', 'send(release)'],
  ...owedByEnded(),
];
/** An ended job whose `next` gets its turn. */
const ADMITS_NEXT: Cell = ['ended, next', 'settle d1 succeeded; → assigned; send(start)'];
const ADMITS_NEXT_FIRST: Cell = ['ended, next', 'settle d1 succeeded; assign; → assigned; send(start); decide again'];
const STOPPED: readonly Cell[] = [
  ['pending, ran before', '→ ended (stopped); settle d1 stopped'],
  ['pending, ran before, next', '→ ended (stopped), next d3; settle d1 stopped; assign'],
  ['pending*, next', '→ ended (cancelled), next d3; settle d1 cancelled; assign'],
  ['pending*', '→ ended (cancelled); settle d1 cancelled'],
  ['stopping*', 'send(stop)'],
  ['assigned, next | running, next | releasing*, next', '→ stopping (stop-requested), next d3; send(stop)'],
  ['assigned | running | releasing*', '→ stopping (stop-requested); send(stop)'],
  ...owedByEnded(),
];

export const requestTable: Table<RequestRow> = {
  title: 'Request × job',
  about:
    'What the request function decides. The job record is read first, then the dispatch record, both consistently, and both again on each try.',
  rows: [
    {
      when: 'start, never seen, at a key without a record',
      request: start('d1'),
      columns: ['no record'],
      cells: [['no record', 'admit d1; → assigned; send(start)']],
    },
    {
      when: 'start, never seen, no eligible worker',
      request: start('d1'),
      workers: [],
      columns: ['no record'],
      cells: [['no record', 'admit d1; → pending (admitted)']],
    },
    {
      when: "start, the job's dispatch, not settled",
      request: start('d1'),
      dispatch: dispatch('d1', 'admitted') as Dispatch,
      columns: ALL,
      cells: [['no record', '→ assigned; send(start)'], ...REPEATED],
    },
    {
      when: "start, the job's dispatch, its record missing",
      request: start('d1'),
      columns: RECORDS,
      cells: REPEATED,
    },
    {
      when: 'start whose dispatch has an outcome',
      request: start('d1'),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ALL,
      cells: NOTHING,
    },
    {
      when: 'start whose dispatch never started',
      request: start('d2'),
      dispatch: dispatch('d2', 'never-started') as Dispatch,
      columns: ALL,
      cells: NOTHING,
    },
    {
      when: "start with another payload than its dispatch's record",
      request: start('d1', { payload: bytes('other') }),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: ALL,
      cells: [['*', 'count request-refused']],
    },
    {
      when: "start with another payload than the job's record",
      request: start('d1', { payload: bytes('other') }),
      columns: RECORDS,
      cells: [['*', 'count request-refused']],
    },
    {
      when: 'start with another key than its dispatch',
      request: start('d2'),
      dispatch: dispatch('d2', 'started', { key: 'other' }) as Dispatch,
      columns: ALL,
      cells: [['*', 'count request-refused']],
    },
    {
      when: 'start, the dispatch in `next`',
      request: start('d3', { ifBusy: 'next' }),
      dispatch: dispatch('d3', 'admitted') as Dispatch,
      columns: WITH_NEXT,
      cells: [ADMITS_NEXT, ['*', 'nothing']],
    },
    {
      when: 'start, the dispatch in `next`, `replace`',
      request: start('d3', { ifBusy: 'replace' }),
      dispatch: dispatch('d3', 'admitted') as Dispatch,
      columns: WITH_NEXT,
      cells: [ADMITS_NEXT, ['stopping*', 'send(stop)'], ['*', 'nothing']],
    },
    ...(['absent', 'admitted'] as const).flatMap((status): RequestRow[] => {
      const admit = status === 'absent' ? 'admit d2; ' : '';
      const was = status === 'absent' ? 'never seen' : 'put by a delivery that died';
      const record = dispatch('d2', status);
      const fresh: readonly Cell[] = [
        ['no record', `${admit}→ assigned; send(start)`],
        ['ended', `settle d1 succeeded; ${admit}→ assigned; send(start)`],
        ADMITS_NEXT_FIRST,
      ];
      const situation = { ...(record ? { dispatch: record } : {}), columns: ALL };
      return [
        {
          when: `start of another dispatch, \`reject\`, ${was}`,
          request: start('d2'),
          ...situation,
          cells: [
            ...fresh,
            ['stopping*, next', 'settle d2 refused: next-taken'],
            ['stopping*', `${admit}→ {job}, next d2`],
            ['*', 'settle d2 refused: key-busy'],
          ],
        },
        {
          when: `start of another dispatch, \`next\`, ${was}`,
          request: start('d2', { ifBusy: 'next' }),
          ...situation,
          cells: [...fresh, ['*, next', 'settle d2 refused: next-taken'], ['*', `${admit}→ {job}, next d2`]],
        },
        {
          when: `start of another dispatch, \`replace\`, ${was}`,
          request: start('d2', { ifBusy: 'replace' }),
          ...situation,
          cells: [
            ...fresh,
            ['*, next', 'settle d2 refused: next-taken'],
            ['pending, ran before', `${admit}→ ended (stopped, replaced), next d2; settle d1 stopped, replaced; assign`],
            ['pending*', `${admit}→ ended (cancelled, superseded), next d2; settle d1 cancelled, superseded; assign`],
            ['stopping*', `${admit}→ {job}, next d2; send(stop)`],
            ['*', `${admit}→ stopping (replaced), next d2; send(stop)`],
          ],
        },
        {
          when: `start of another dispatch, pool closed, ${was}`,
          request: start('d2'),
          pool: 'closed',
          ...situation,
          cells: anywhere('settle d2 refused: pool-closed'),
        },
        {
          when: `start of another dispatch, expired, ${was}`,
          request: start('d2', { expiresAt: NOW }),
          ...situation,
          cells: anywhere('settle d2 refused: expired'),
        },
      ];
    }),
    {
      when: 'start at a key without a record, pool recovering',
      request: start('d1'),
      pool: 'recovering',
      columns: ['no record'],
      cells: [['no record', 'admit d1; → pending (admitted)']],
    },
    {
      when: "start, the job's dispatch, pool closed",
      request: start('d1', { expiresAt: NOW }),
      dispatch: dispatch('d1', 'admitted') as Dispatch,
      pool: 'closed',
      columns: RECORDS.filter((column) => !column.startsWith('pending')),
      cells: [
        ['assigned*', 'send(start)'],
        ['running*', 'settle d1 started'],
        ['stopping*', 'send(stop)'],
        ['releasing*', 'send(release)'],
        ...owedByEnded(),
      ],
    },
    {
      when: "start, the job's dispatch, pool recovering",
      request: start('d1'),
      dispatch: dispatch('d1', 'admitted') as Dispatch,
      pool: 'recovering',
      columns: RECORDS.filter((column) => !column.startsWith('pending')),
      cells: [
        ['assigned*', 'check the owner'],
        ['running*', 'settle d1 started'],
        ['stopping*', 'send(stop)'],
        ['releasing*', 'send(release)'],
        ...owedByEnded(),
      ],
    },
    {
      when: "stop, the job's dispatch",
      request: stop('d1'),
      dispatch: dispatch('d1', 'started') as Dispatch,
      columns: RECORDS,
      cells: STOPPED,
    },
    {
      when: 'stop, the dispatch in `next`',
      request: stop('d3'),
      dispatch: dispatch('d3', 'admitted') as Dispatch,
      columns: WITH_NEXT,
      cells: [
        ['ended, next', 'settle d3 cancelled; → {job}; settle d1 succeeded'],
        ['*', 'settle d3 cancelled; → {job}'],
      ],
    },
    ...(['absent', 'admitted'] as const).map(
      (status): RequestRow => ({
        when: `stop, a dispatch that no job names, ${status === 'absent' ? 'never seen' : 'admitted'}`,
        request: stop('d2'),
        ...(status === 'admitted' ? { dispatch: dispatch('d2', status) as Dispatch } : {}),
        columns: ALL,
        cells: anywhere('settle d2 cancelled'),
      }),
    ),
    {
      when: 'stop, a dispatch that no job names, started and not ended',
      request: stop('d2'),
      dispatch: dispatch('d2', 'started') as Dispatch,
      columns: ALL,
      cells: [['*', 'fail: record-missing']],
    },
    {
      when: 'stop, a dispatch that no job names, over',
      request: stop('d2'),
      dispatch: dispatch('d2', 'ended') as Dispatch,
      columns: ALL,
      cells: NOTHING,
    },
    {
      when: 'stop, a dispatch of another key',
      request: stop('d2'),
      dispatch: dispatch('d2', 'admitted', { key: 'other' }) as Dispatch,
      columns: ALL,
      cells: anywhere('count request-refused'),
    },
    {
      when: 'stop, pool recovering, nothing known',
      request: stop('d1'),
      pool: 'recovering',
      columns: ['no record'],
      cells: [['no record', 'fail: record-missing']],
    },
    {
      when: 'stop by key, pool recovering',
      request: stop(),
      pool: 'recovering',
      columns: ['no record'],
      cells: [['no record', 'fail: record-missing']],
    },
    {
      when: 'stop by key',
      request: stop(),
      columns: ALL,
      cells: [
        ['no record', 'count stop-of-nothing'],
        ['pending, ran before, next', 'settle d3 cancelled; → ended (stopped); settle d1 stopped'],
        ['pending*, next', 'settle d3 cancelled; → ended (cancelled); settle d1 cancelled'],
        ['stopping*, next', 'settle d3 cancelled; → {job}; send(stop)'],
        ['ended, next', 'settle d3 cancelled; → {job}; settle d1 succeeded'],
        ['*, next', 'settle d3 cancelled; → stopping (stop-requested); send(stop)'],
        ...STOPPED.filter(([columns]) => !columns.endsWith('next')),
      ],
    },
    {
      when: 'notify',
      request: notify,
      columns: ALL,
      cells: [
        ['no record | pending, not due*', 'count notify-dropped'],
        ['pending*', 'count notify-dropped; assign'],
        ...owedByEnded('count notify-dropped'),
        ['*', 'send(notify)'],
      ],
    },
    {
      when: 'assign',
      request: assign,
      columns: ALL,
      cells: [
        ['no record | pending, not due*', 'nothing'],
        ['pending*, next', '→ assigned, next d3; send(start)'],
        ['pending*', '→ assigned; send(start)'],
        ['assigned*', 'send(start)'],
        ['ended', 'settle d1 succeeded'],
        ADMITS_NEXT,
        ['*', 'check the owner'],
      ],
    },
    {
      when: 'assign, no eligible worker (due time moved on)',
      request: assign,
      workers: [],
      columns: ['pending (admitted)', 'ended, next'],
      cells: [
        ['pending (admitted)', '→ {job}'],
        ['ended, next', 'settle d1 succeeded; → pending (admitted)'],
      ],
    },
    ...(['closed', 'recovering'] as const).map(
      (pool): RequestRow => ({
        when: `assign, pool ${pool}`,
        request: assign,
        pool,
        columns: ['no record', 'pending (released)', 'assigned', 'running', 'stopping', 'releasing', 'ended', 'ended, next'],
        cells: [
          ['no record', 'nothing'],
          ['pending*', '→ {job}'],
          ...(pool === 'closed' ? ([['assigned', 'send(start)']] as const) : []),
          ['ended', 'settle d1 succeeded'],
          ['ended, next', 'settle d1 succeeded; → pending (admitted)'],
          ['*', 'check the owner'],
        ],
      }),
    ),
    {
      when: 'assign, an earlier assignment than the pool was last recovered',
      request: assign,
      generation: 2,
      columns: ['assigned', 'assigned, next'],
      cells: [
        ['assigned', '→ assigned; send(start)'],
        ['assigned, next', '→ assigned, next d3; send(start)'],
      ],
    },
    {
      when: 'assign, the dispatch in `next` has an outcome',
      request: assign,
      next: dispatch('d3', 'never-started') as Dispatch,
      columns: ['ended, next'],
      cells: [['ended, next', 'settle d1 succeeded; → {job}']],
    },
    {
      when: 'assign, the record of the dispatch in `next` is missing',
      request: assign,
      next: 'missing',
      columns: ['ended, next'],
      cells: [['ended, next', 'settle d1 succeeded; → {job}']],
    },
    {
      when: "move, the job's fence",
      request: { op: 'move', key: KEY, fence: FENCE },
      columns: ALL,
      cells: [
        ['no record | pending, not due* | stopping*', 'nothing'],
        ['pending*', 'assign'],
        ['releasing*', 'send(release)'],
        ['assigned, next | running, next', '→ releasing, next d3; send(release)'],
        ['assigned | running', '→ releasing; send(release)'],
        ...owedByEnded(),
      ],
    },
    {
      when: 'move, another fence',
      request: { op: 'move', key: KEY, fence: FENCE - 1 },
      columns: ALL,
      cells: NOTHING,
    },
  ],
};
