import { describe, expect, test } from 'vitest';
import { decideOwnerLost } from '../../lib/pool/decide-owner-lost.ts';
import { decideReport, namedByReport } from '../../lib/pool/decide-report.ts';
import { decideRequest, namedByRequest } from '../../lib/pool/decide-request.ts';
import { type Decision, type Effect, summarize } from '../../lib/pool/decision.ts';
import { type Dispatch, settle } from '../../lib/pool/dispatch.ts';
import { isOwned, type Job } from '../../lib/pool/job.ts';
import { context, dispatch, JOBS, JOBS_WITH_NEXT } from '../../protocol/cast.ts';
import { reportTable } from '../../protocol/reports.ts';
import { requestTable } from '../../protocol/requests.ts';

/** The records of one key, as a function finds them and leaves them behind. */
interface Records {
  readonly job?: Job;
  readonly dispatches: ReadonlyMap<string, Dispatch>;
}

function records(job: Job | undefined, ...known: readonly (Dispatch | undefined)[]): Records {
  const dispatches = new Map(known.flatMap((record) => (record ? [[record.dispatchId, record]] : [])));
  return { ...(job ? { job } : {}), dispatches };
}

function afterEffects(dispatches: ReadonlyMap<string, Dispatch>, effects: readonly Effect[]): ReadonlyMap<string, Dispatch> {
  const after = new Map(dispatches);
  for (const effect of effects) {
    if (effect.type === 'admit') after.set(effect.dispatch.dispatchId, effect.dispatch);
    if (effect.type !== 'settle') continue;
    const settled = settle(after.get(effect.settlement.dispatchId), effect.settlement, 9_000);
    if (settled) after.set(settled.dispatchId, settled);
  }
  return after;
}

/** What a function leaves behind that dies right after its commit, and what one leaves that does everything but delete its message. */
function left(
  { job, dispatches }: Records,
  { before = [], next, effects = [] }: Decision,
): { readonly dying: Records; readonly done: Records } {
  const committed = next ?? job;
  const dying = { ...(committed ? { job: committed } : {}), dispatches: afterEffects(dispatches, before) };
  return { dying, done: { ...dying, dispatches: afterEffects(dying.dispatches, effects) } };
}

/** Counting is not an effect that anybody waits for. */
function words(decision: Decision): string {
  return summarize({ ...decision, effects: (decision.effects ?? []).filter(({ type }) => type !== 'count') });
}

function expectHealed(before: Records, decide: (records: Records) => Decision): void {
  const first = decide(before);
  const { dying, done } = left(before, first);
  const again = decide(dying);
  expect(again.next, 'a second delivery after the commit changes nothing').toBeUndefined();
  expect(words(again), 'and yields the same effects').toBe(words({ rule: '', effects: first.effects ?? [] }));
  expect(decide(done).next, 'nor does one after the effects').toBeUndefined();
}

describe('a request decided again', () => {
  const cases = requestTable.rows.flatMap((row) =>
    row.columns.map((column) => {
      const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
      const next = row.next === 'missing' || !job?.next ? undefined : (row.next ?? dispatch('d3', 'admitted'));
      return { name: `${row.when}, ${column}`, row, before: records(job, next, row.dispatch) };
    }),
  );
  test.for(cases)('$name', ({ row, before }) => {
    const known = {
      ...context(),
      ...(row.workers ? { workers: row.workers } : {}),
      pool: { state: row.pool ?? 'open', generation: row.generation ?? 1 },
    };
    const decide = ({ job, dispatches }: Records): Decision => {
      const named = namedByRequest(row.request, job);
      const [request, next] = [named.dispatch, named.next].map((id) => (id === undefined ? undefined : dispatches.get(id)));
      return decideRequest(
        { ...(job ? { job } : {}), ...(request ? { dispatch: request } : {}), ...(next ? { next } : {}) },
        row.request,
        known,
      );
    };
    const first = decide(before);
    // These two go on where the first delivery left off, and come to rest in the decision after.
    const progresses = first.again || first.next?.status === 'ended';
    if (progresses) return expectHealed(left(before, first).dying, decide);
    expectHealed(before, decide);
  });
});

describe('a report decided again', () => {
  const cases = reportTable.rows.flatMap((row) =>
    row.columns.map((column) => {
      const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
      const own = row.dispatch?.dispatchId === 'd1' ? undefined : dispatch('d1', job && 'startedAt' in job ? 'started' : 'admitted');
      return { name: `${row.when}, ${column}`, row, before: records(job, own, row.dispatch, row.holder) };
    }),
  );
  test.for(cases)('$name', ({ row, before }) => {
    expectHealed(before, ({ job, dispatches }) => {
      const named = namedByReport(row.report, job);
      const [record, holder] = [named.dispatch, named.holder].map((id) => (id === undefined ? undefined : dispatches.get(id)));
      return decideReport(
        { ...(job ? { job } : {}), ...(record ? { dispatch: record } : {}), ...(holder ? { holder } : {}) },
        row.report,
        context(),
      );
    });
  });
});

describe('an owner found lost', () => {
  const owned = Object.entries({ ...JOBS, ...JOBS_WITH_NEXT }).flatMap(([name, job]) => (job && isOwned(job) ? [{ name, job }] : []));
  test.for(owned)('$name: the message that found it finishes the work when it comes again', ({ job }) => {
    for (const op of ['start', 'stop', 'notify', 'assign', 'move'] as const) {
      const decision = decideOwnerLost(job, op, context());
      expect(decision.next?.status).not.toBe(job.status === 'assigned' ? 'running' : job.status === 'stopping' ? 'stopping' : 'releasing');
      if (decision.next?.status === 'pending') expect(decision.next).not.toHaveProperty('owner');
    }
  });
});
