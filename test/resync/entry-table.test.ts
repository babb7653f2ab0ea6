import { describe, expect, test } from 'vitest';
import { jobInWords, summarize } from '../../lib/pool/decision.ts';
import { decideEntry } from '../../lib/resync/decide-entry.ts';
import { context, JOBS, JOBS_WITH_NEXT } from '../../protocol/cast.ts';
import { entryTable } from '../../protocol/entries.ts';
import { expand } from '../../protocol/table.ts';

describe.for(entryTable.rows.map((row) => [row.when, row] as const))('%s', ([, { entry, asked, by, row, dispatch, ...table }]) => {
  test.for([...expand(table)])('%s: %s', ([column, expected]) => {
    const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
    const snapshot = { ...(job ? { job } : {}), ...(row ? { row } : {}), ...(dispatch ? { dispatch } : {}) };
    const decision = decideEntry(snapshot, entry, { ...by, at: 500, ...(asked ? { asked } : {}) }, context());
    expect(summarize(decision)).toBe(expected.replace('{job}', job ? jobInWords(job) : ''));
    // R8: what waits again carries no owner into its next assignment.
    if (decision.next?.status === 'pending') expect(decision.next).not.toHaveProperty('owner');
  });
});
