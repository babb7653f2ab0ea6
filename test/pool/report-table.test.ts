import { describe, expect, test } from 'vitest';
import { decideReport } from '../../lib/pool/decide-report.ts';
import { jobInWords, summarize } from '../../lib/pool/decision.ts';
import { context, JOBS, JOBS_WITH_NEXT } from '../../protocol/cast.ts';
import { reportTable } from '../../protocol/reports.ts';
import { expand } from '../../protocol/table.ts';

describe.for(reportTable.rows.map((row) => [row.when, row] as const))('%s', ([, row]) => {
  const cells = [...expand(row)];
  test.for(cells)('%s: %s', ([column, expected]) => {
    const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
    const snapshot = {
      ...(job ? { job } : {}),
      ...(row.dispatch ? { dispatch: row.dispatch } : {}),
      ...(row.holder ? { holder: row.holder } : {}),
    };
    const decision = decideReport(snapshot, row.report, context());
    expect(summarize(decision)).toBe(expected.replace('{job}', job ? jobInWords(job) : ''));
  });
});
