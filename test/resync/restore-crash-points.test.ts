import { afterAll, expect, test, vi } from 'vitest';
import { type DispatchName, FENCE, fingerprint, KEY, OWNER, PAYLOAD } from '../../protocol/cast.ts';
import { type RestoreRow, restoreTable } from '../../protocol/restore.ts';
import { expand } from '../../protocol/table.ts';
import type { ControlPlane } from '../support/control-plane.ts';
import { leftAtRest, type Played, type Point, play, pointsOf } from '../support/crash-points.ts';
import { difference } from '../support/left-behind.ts';

/**
 * Every cell of the table of restorations that writes or sends: each call of a port fails, in each way, once or twice in a row, and what is
 * left behind, payloads included, is what is left behind without it (P9).
 */
vi.setConfig({ testTimeout: 60_000 });

let covered = 0;
afterAll(() => {
  process.stdout.write(`crash points: ${covered} covered in ${scenarios.length} restorations\n`);
});

function scenariosOf(row: RestoreRow): readonly Played[] {
  // Records that contradict each other never come to rest.
  if (isContradiction(row)) return [];
  const doing = [...expand(row)].filter(([, decision]) => !['nothing', 'fail: unavailable', 'a report like any other'].includes(decision));
  const cells = new Map(doing.map(([column, decision]) => [decision, column]));
  return [...cells.values()].map((column) => scenarioOf(row, column));
}

function isContradiction({ report, dispatch }: RestoreRow): boolean {
  if (report.type !== 'confirmed') return false;
  return report.fingerprint !== fingerprint(nameOf(report)) || (dispatch !== undefined && dispatch.fingerprint !== report.fingerprint);
}

function nameOf(report: RestoreRow['report']): DispatchName {
  return report.type === 'confirmed' ? (report.dispatchId as DispatchName) : 'd2';
}

function scenarioOf({ when, report, dispatch, hasPayload, row, pool }: RestoreRow, column: string): Played {
  const of = nameOf(report);
  return {
    name: `${when}, ${column}`,
    ...(column === 'no record' ? {} : { job: column }),
    dispatches: { [of]: 'absent' },
    ...(pool ? { pool } : {}),
    async stands(plane) {
      const { services } = plane;
      if (dispatch) await plane.putDispatch(lasting(dispatch), PAYLOAD[of]);
      if (!hasPayload && report.type === 'confirmed') services.dispatches.deletePayload(of);
      const where = { session: report.session, states: ['active'] as const };
      if (row && row.state !== 'active') await services.workers.change(report.worker, where, { state: row.state });
    },
    steps: [report],
  };
}

/** The cast's times of expiry are for tables, in which no time goes by. */
function lasting<D extends object>(dispatch: D): D {
  return 'expiresAt' in dispatch ? { ...dispatch, expiresAt: Number.MAX_SAFE_INTEGER } : dispatch;
}

/** Deleted together and found again by chance: the whole way from a lost record to the end of its job. */
const journeys: readonly Played[] = [
  {
    name: 'started, without any record, confirmed, and finished',
    steps: [
      said('started', { startedAt: 160 }),
      said('confirmed', { startedAt: 160, payload: PAYLOAD.d1 }),
      said('finished', { startedAt: 160, at: 500 }),
    ],
  },
  {
    name: 'the payload is missing where a start is sent again, and its owner has it',
    job: 'assigned',
    stands: async ({ services }) => services.dispatches.deletePayload('d1'),
    steps: [{ op: 'assign', key: KEY }, said('confirmed', { startedAt: 160, payload: PAYLOAD.d1 }), (plane) => plane.redrive()],
  },
  {
    name: 'the dispatch record is missing where its job ends',
    job: 'running',
    dispatches: { d1: 'absent' },
    steps: [said('finished', { startedAt: 150, at: 500 })],
  },
];

function said(type: 'started' | 'confirmed' | 'finished', more: object) {
  const fact = { key: KEY, dispatchId: 'd1', fingerprint: fingerprint('d1'), fence: FENCE, ...OWNER, at: 400 };
  return { type, ...fact, ...more } as never;
}

const scenarios = [...restoreTable.rows.flatMap(scenariosOf), ...journeys];

async function leftBy(scenario: Played, ...points: readonly Point[]) {
  const { plane, wasHit } = await play(scenario, points);
  const left = await leftAtRest(plane);
  return { ...left, records: `${left.records}\n${await payloads(plane)}`, wasHit };
}

async function payloads({ services }: ControlPlane): Promise<string> {
  const held = await Promise.all(Object.keys(PAYLOAD).map(async (of) => [of, await services.dispatches.payload(of)] as const));
  return held.map(([of, payload]) => `${of}: ${payload ? Buffer.from(payload) : 'no payload'}`).join('\n');
}

test.for(scenarios.map((scenario) => [scenario.name, scenario] as const))('whichever call fails, and however: %s', async ([, scenario]) => {
  const calm = await leftBy(scenario);
  expect(calm.records).not.toContain('"deadLettered": [\n  [\n   ');
  const failures: string[] = [];
  for (const point of await pointsOf(scenario)) {
    const left = await leftBy(scenario, point);
    if (!left.wasHit) continue;
    covered += 1;
    const otherwise = difference(calm, left);
    if (otherwise) failures.push(`${point.fault} ${point.times} at call ${point.call}, ${point.method}: ${otherwise}`);
  }
  expect(failures).toEqual([]);
});
