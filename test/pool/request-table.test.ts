import { describe, expect, test } from 'vitest';
import { decideRequest } from '../../lib/pool/decide-request.ts';
import { jobInWords, summarize } from '../../lib/pool/decision.ts';
import { withNext } from '../../lib/pool/transitions.ts';
import { context, dispatch, JOBS, JOBS_WITH_NEXT } from '../../protocol/cast.ts';
import { requestTable } from '../../protocol/requests.ts';
import { expand } from '../../protocol/table.ts';

describe.for(requestTable.rows.map((row) => [row.when, row] as const))('%s', ([, row]) => {
  const cells = [...expand(row)];
  test.for(cells)('%s: %s', ([column, expected]) => {
    const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
    const next = row.next === 'missing' || job?.next === undefined ? undefined : (row.next ?? dispatch('d3', 'admitted'));
    const snapshot = { ...(job ? { job } : {}), ...(row.dispatch ? { dispatch: row.dispatch } : {}), ...(next ? { next } : {}) };
    const decision = decideRequest(snapshot, row.request, {
      ...context(),
      ...(row.workers ? { workers: row.workers } : {}),
      pool: { state: row.pool ?? 'open', generation: row.generation ?? 1 },
    });
    expect(summarize(decision)).toBe(expected.replace('{job}', job ? jobInWords(withNext(job, undefined)) : ''));
  });
});
