import type { OwnedJob } from '../lib/pool/job.ts';
import type { WorkerRow } from '../lib/pool/worker.ts';
import type { Request } from '../lib/wire/index.ts';
import { JOBS, JOBS_WITH_NEXT, OWNER, worker } from './cast.ts';
import type { Table, TableRow } from './table.ts';

/** The owner's row as it can be found when a command is about to be sent; each is a column. */
export const OWNER_ROWS: Readonly<Record<string, WorkerRow | undefined>> = {
  'no row': undefined,
  active: worker(OWNER.worker, OWNER.session),
  draining: worker(OWNER.worker, OWNER.session, { state: 'draining' }),
  revoked: worker(OWNER.worker, OWNER.session, { state: 'revoked' }),
  lost: worker(OWNER.worker, OWNER.session, { state: 'lost' }),
  left: worker(OWNER.worker, OWNER.session, { state: 'left' }),
  'another session': worker(OWNER.worker, 's9'),
};

export const ownerRowTable: Table = {
  title: 'Command × row of the owner',
  about:
    'Read consistently after the commit and on every redelivery. Draining and revoked are not lost: such a worker hands its jobs back, or a full lease of waiting decides.',
  rows: [
    {
      when: 'a command to the owner',
      columns: Object.keys(OWNER_ROWS),
      cells: [
        ['active | draining | revoked', 'send'],
        ['*', 'owner lost'],
      ],
    },
  ],
};

/** Table "send", where the owner is lost. */
export interface OwnerLostRow extends TableRow {
  readonly ops: readonly Request['op'][];
  readonly workers?: readonly WorkerRow[];
}

const OWNED = ['assigned', 'running', 'releasing', 'releasing, ran', 'stopping', 'stopping, ran', 'running, next', 'stopping, next'];

export const OWNED_JOBS: Readonly<Record<string, OwnedJob>> = Object.fromEntries(
  OWNED.map((name) => [name, (JOBS[name] ?? JOBS_WITH_NEXT[name]) as OwnedJob]),
);

const STOPPED = [
  ['stopping', '→ ended (cancelled); settle d1 cancelled'],
  ['stopping, ran', '→ ended (stopped); settle d1 stopped'],
  ['stopping, next', '→ ended (cancelled), next d3; settle d1 cancelled; assign'],
] as const;

export const ownerLostTable: Table<OwnerLostRow> = {
  title: 'Owner lost × job',
  about: 'What becomes of a job whose owner turned out lost when a command was to be sent to it.',
  rows: [
    {
      when: 'found by `start` or `assign`, a worker is eligible',
      ops: ['start', 'assign'],
      columns: OWNED,
      cells: [...STOPPED, ['*, next', '→ assigned, next d3; send(start)'], ['*', '→ assigned; send(start)']],
    },
    {
      when: 'found by `start` or `assign`, no worker is eligible',
      ops: ['start', 'assign'],
      workers: [],
      columns: OWNED,
      cells: [...STOPPED, ['*, next', '→ pending (owner-lost), next d3'], ['*', '→ pending (owner-lost)']],
    },
    {
      when: 'found by `start` or `assign`, the list of workers still shows the lost session alone',
      ops: ['start', 'assign'],
      workers: [worker(OWNER.worker, OWNER.session)],
      columns: ['assigned', 'running', 'releasing'],
      cells: [['*', '→ pending (owner-lost)']],
    },
    {
      when: 'found by `move`, `notify` or `stop`, whose redelivery would not send the start again',
      ops: ['move', 'notify', 'stop'],
      columns: OWNED,
      cells: [...STOPPED, ['*, next', '→ pending (owner-lost), next d3; assign'], ['*', '→ pending (owner-lost); assign']],
    },
  ],
};
