import { decideOwnerLost } from '../../lib/pool/decide-owner-lost.ts';
import { decideReport } from '../../lib/pool/decide-report.ts';
import { decideRequest } from '../../lib/pool/decide-request.ts';
import type { Job } from '../../lib/pool/job.ts';
import { isOwnerLost } from '../../lib/pool/worker.ts';
import { decideEntry } from '../../lib/resync/decide-entry.ts';
import { decideHolder, decideRestore } from '../../lib/resync/decide-restore.ts';
import { CLAIMS } from '../../lib/testing/claims.ts';
import { FAULT_KINDS } from '../../lib/testing/faults.ts';
import { context, dispatch, JOBS, JOBS_WITH_NEXT, OWNER } from '../../protocol/cast.ts';
import { entryTable } from '../../protocol/entries.ts';
import { OWNED_JOBS, OWNER_ROWS, ownerLostTable, ownerRowTable } from '../../protocol/owners.ts';
import { reportTable } from '../../protocol/reports.ts';
import { requestTable } from '../../protocol/requests.ts';
import { namedAt, restoreTable } from '../../protocol/restore.ts';
import { runtimeTable } from '../../protocol/runtime.ts';
import { cellOf, type Table, type TableRow, usedCells } from '../../protocol/table.ts';
import { MET } from './met.ts';
import { DEEDS } from './plots.ts';
import { MISHAP_KINDS } from './profiles.ts';
import type { SimulationResult } from './simulate.ts';
import { IMPOSSIBLE, UNREACHED } from './unreached.ts';

/**
 * What a run has to reach: each kind of fault and mishap, each deed of a plot, each claim of the checker, and what the tables of the protocol speak of: each message
 * at each status of a record, each rule, each effect, what the worker runtime does with a command, and each way in which a round's time ends.
 */
export function expected(): ReadonlySet<string> {
  return new Set([
    ...FAULT_KINDS.map((kind) => `fault: ${kind}`),
    ...MISHAP_KINDS.map((kind) => `mishap: ${kind}`),
    ...DEEDS.map((deed) => `plot: ${deed}`),
    ...Object.keys(CLAIMS).map((claim) => `claim: ${claim}`),
    ...linesOfTables().flatMap(({ by }) => [...by].flatMap(partsOf)),
  ]);
}

/** What a run reached, and how often. */
export function reached({ injected, judged, met }: Pick<SimulationResult, 'injected' | 'judged' | 'met'>): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  const count = (name: string, by: number) => times.set(name, (times.get(name) ?? 0) + by);
  for (const kind of FAULT_KINDS) count(`fault: ${kind}`, injected.get(kind) ?? 0);
  for (const kind of MISHAP_KINDS) count(`mishap: ${kind}`, injected.get(kind) ?? 0);
  for (const deed of DEEDS) count(`plot: ${deed}`, injected.get(`plot: ${deed}`) ?? 0);
  for (const [claim, by] of judged) count(`claim: ${claim}`, by);
  for (const [name, by] of met) for (const part of partsOf(name)) count(part, by);
  return times;
}

/** What was expected, not reached, and is not known to be out of reach. */
export function missing(result: Pick<SimulationResult, 'injected' | 'judged' | 'met'>): readonly string[] {
  const times = reached(result);
  const known = new Set([...UNREACHED, ...IMPOSSIBLE].flatMap(({ names }) => names));
  return [...expected()].filter((name) => !times.get(name) && !known.has(name));
}

/** `report started × running, next: started at running: settle d started` speaks of a message at a status, a rule, and effects. */
function partsOf(name: string): readonly string[] {
  const [, what, column = '', rule, done = ''] = /^(.+?) × ([^:]+): (?:(.+?): )?(.*)$/.exec(name) ?? [];
  if (what === undefined) return [name];
  const status = column.split(/, | \(/)[0];
  if (rule === undefined) return [what === 'owner’s row' ? name : `${what} × ${status}`];
  return [`${what} × ${status}`, `rule: ${rule}`, ...done.split('; ').flatMap(effectsOf)];
}

function effectsOf(done: string): readonly string[] {
  const [, effect] =
    /^(admit|settle|send\(\w+\)|tell \w+|assign|check the owner|restore|count [\w-]+|fail: [\w-]+|decide again|→ \w+)/.exec(done) ?? [];
  return effect === undefined ? [] : [`effect: ${effect}`];
}

/** A line of `docs/protocol.md`: reached by any of the decisions that it speaks of. */
export interface Line {
  readonly name: string;
  readonly by: ReadonlySet<string>;
}

/** Every line of the tables, with what the deciders themselves answer there. */
export function linesOfTables(): readonly Line[] {
  /** Of what the request table decides: which message has a command sent to the owner of a job, and what the job is then. */
  const sends = new Set<string>();
  return [
    ...linesOf(requestTable, ({ request, dispatch: read, next: waits, workers, pool = 'open', generation = 1 }, column) => {
      const job = jobAt(column);
      const next = waits === 'missing' || job?.next === undefined ? undefined : (waits ?? dispatch('d3', 'admitted'));
      const snapshot = { ...(job && { job }), ...(read && { dispatch: read }), ...(next && { next }) };
      const of = { ...context(), ...(workers && { workers }), pool: { state: pool, generation } };
      const decision = decideRequest(snapshot, request, of);
      for (const effect of decision.effects ?? [])
        if (effect.type === 'send' || effect.type === 'check-owner') sends.add(`${request.op} × ${effect.job.status}`);
      return MET.decideRequest([snapshot, request, of], decision);
    }),
    ...linesOf(reportTable, ({ report, dispatch: read, holder }, column) => {
      const job = jobAt(column);
      const snapshot = { ...(job && { job }), ...(read && { dispatch: read }), ...(holder && { holder }) };
      return MET.decideReport([snapshot, report, context()], decideReport(snapshot, report, context()));
    }),
    ...linesOf(ownerRowTable, (_, column) => {
      const row = OWNER_ROWS[column];
      return MET.isOwnerLost([row, OWNER], isOwnerLost(row, OWNER));
    }),
    ...linesOf(ownerLostTable, ({ ops, workers }, column) => {
      const job = OWNED_JOBS[column];
      const of = { ...context(), ...(workers && { workers }) };
      // A stop of what runs is committed before its owner is looked at, which then is the owner of a job that is stopping.
      return job
        ? ops
            .filter((op) => sends.has(`${op} × ${job.status}`))
            .flatMap((op) => MET.decideOwnerLost([job, op, of], decideOwnerLost(job, op, of)))
        : [];
    }),
    ...linesOf(entryTable, ({ entry, asked, by, row, dispatch: read, pool = 'open', generation = 1 }, column) => {
      const job = jobAt(column);
      const records = { ...(job && { job }), ...(row && { row }), ...(read && { dispatch: read }) };
      const snapshot = { ...records, pool: { state: pool, generation } };
      const answering = { ...by, at: 500, ...(asked && { asked }) };
      return MET.decideEntry([snapshot, entry, answering, context()], decideEntry(snapshot, entry, answering, context()));
    }),
    ...linesOf(restoreTable, ({ report, dispatch: read, hasPayload, row, pool }, column) => {
      const job = jobAt(column);
      const other = report.type === 'confirmed' ? report.dispatchId : report.running.dispatchId;
      const named = job?.dispatchId === other ? undefined : namedAt(column);
      const snapshot = {
        ...{ ...(job && { job }), ...(read && { dispatch: read }), ...(named && { named }), ...(row && { row }) },
        ...{ hasPayload: hasPayload === true, pool: { state: pool ?? 'open', generation: 1 } },
      };
      if (report.type === 'confirmed') return MET.decideRestore([snapshot, report, context()], decideRestore(snapshot, report, context()));
      return MET.decideHolder([snapshot, report, context()], decideHolder(snapshot, report, context()));
    }),
    ...runtimeTable.rows.flatMap(({ meets }) => {
      const all = RUNTIME[meets];
      if (!all) throw new Error(`coverage: nothing tells whether the worker met "${meets}"`);
      return all.map((name) => ({ name: `${runtimeTable.title} | ${meets} | ${name}`, by: new Set([name]) }));
    }),
    ...['stale', 'gone', 'lost', 'wait', 'behind', 'again', 'revoke'].map((outcome) => ({
      name: `End of a round’s time | ${outcome}`,
      by: new Set([`round expires: ${outcome}`]),
    })),
  ];
}

/** What the worker runtime does with a command, row by row of its table, in the words of met.ts and probes.ts. */
const RUNTIME: Readonly<Record<string, readonly string[]>> = {
  'start: nothing running, fence above every fence ended here, room, not draining': [
    'worker, start: start',
    'worker tells: job-started',
    'worker tells: job-start-failed',
  ],
  'start: same dispatch and fingerprint running': ['worker, start: keep the old fence', 'worker, start: keep the new fence'],
  'start: same dispatch, other fingerprint': ['worker, start: refuse, fingerprint-mismatch'],
  'start: another dispatch running': ['worker, start: drop', 'worker, start: refuse, key-busy'],
  'start: fence ended here': [
    'worker, start: repeat finished',
    'worker, start: repeat stopped',
    'worker, start: repeat released',
    'worker, start: repeat start-failed',
    'worker, start: repeat refused',
  ],
  'start: never seen, at or below a fence ended here': ['worker, start: answer stopped', 'worker, start: answer released'],
  'start: over capacity, or draining': ['worker, start: refuse, at-capacity', 'worker, start: refuse, draining'],
  'stop / release of fence f': ['stop', 'release'].flatMap((op) => [
    `worker, ${op}: end what is up`,
    `worker, ${op}: end what is up, under a lower fence`,
    `worker, ${op}: end what is not up`,
    `worker, ${op}: repeat refused`,
    `worker, ${op}: drop`,
  ]),
  'stop meets a start not yet returned': ['stop', 'release', 'hand-back'].map((kind) => `worker, ${kind}: interrupts a start`),
  'stop fails or passes its deadline': ['worker tells: job-stop-failed'],
  'notify: nothing up, or other fence': ['worker drops: not-up', 'worker drops: stopping', 'worker tells: notify-failed'],
  'confirm: that fence is up': ['worker, confirm: confirmed'],
  'resync page': [
    ...['running', 'starting', 'unrecognized', 'succeeded', 'failed', 'start-failed', 'stopped', 'released', 'refused'].map(
      (state) => `worker, round: ${state}`,
    ),
    'worker drops: older-round',
  ],
  'hand-back (SIGTERM, drain)': ['worker tells: draining', 'worker tells: job-released', 'worker tells: left'],
  'inbox gone under a live session': ['worker, session over: no-inbox'],
  'session over': [
    ...['expired', 'replaced', 'evicted'].map((reason) => `worker, session over: ${reason}`),
    'worker tells: overrun',
    'worker drops: other-session',
  ],
  'a round that does not name a key': ['worker: an end is forgotten'],
};

function linesOf<Row extends TableRow>(
  { title, rows }: Table<Row>,
  decided: (row: Row, column: string) => readonly string[],
): readonly Line[] {
  return rows.flatMap((row) => {
    const lines = usedCells(row).map((cell) => ({
      name: `${title} | ${row.when} | ${cell[0]} → ${cell[1]}`,
      by: new Set(row.columns.filter((column) => cellOf(row, column) === cell).flatMap((column) => decided(row, column))),
    }));
    return lines.filter(({ by }) => by.size > 0);
  });
}

function jobAt(column: string): Job | undefined {
  return JOBS[column] ?? JOBS_WITH_NEXT[column];
}
