import { describe, expect, test } from 'vitest';
import { decideReport, type JobReport } from '../../lib/pool/decide-report.ts';
import { jobInWords, summarize } from '../../lib/pool/decision.ts';
import { decideEntry } from '../../lib/resync/decide-entry.ts';
import type { ResyncEntry } from '../../lib/wire/index.ts';
import { context, FENCE, fingerprint, JOBS, JOBS_WITH_NEXT, KEY, OWNER } from '../../protocol/cast.ts';
import { entryTable } from '../../protocol/entries.ts';
import { expand } from '../../protocol/table.ts';

const OPEN = { state: 'open', generation: 1 } as const;

describe.for(entryTable.rows.map((row) => [row.when, row] as const))(
  '%s',
  ([, { entry, asked, by, row, dispatch, pool = 'open', generation = 1, ...table }]) => {
    test.for([...expand(table)])('%s: %s', ([column, expected]) => {
      const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
      const records = { ...(job ? { job } : {}), ...(row ? { row } : {}), ...(dispatch ? { dispatch } : {}) };
      const snapshot = { ...records, pool: { state: pool, generation } };
      const decision = decideEntry(snapshot, entry, { ...by, at: 500, ...(asked ? { asked } : {}) }, context());
      expect(summarize(decision)).toBe(expected.replace('{job}', job ? jobInWords(job) : ''));
      // R8: what waits again carries no owner into its next assignment.
      if (decision.next?.status === 'pending') expect(decision.next).not.toHaveProperty('owner');
    });
  },
);

test('R4: an end that a round brings is decided as the report of its kind, and leaves the same behind', () => {
  const known = { key: KEY, fence: FENCE, dispatchId: 'd1', fingerprint: fingerprint('d1') };
  const error = { code: 'boom', message: 'it broke', retryable: false };
  const pairs: readonly (readonly [ResyncEntry, JobReport])[] = [
    [
      { ...known, state: 'succeeded', startedAt: 160, finishedAt: 400 },
      { ...known, ...OWNER, type: 'finished', at: 400, startedAt: 160 },
    ],
    [
      { ...known, state: 'failed', startedAt: 160, finishedAt: 400, error },
      { ...known, ...OWNER, type: 'finished', at: 400, startedAt: 160, error },
    ],
    [
      { ...known, state: 'start-failed', finishedAt: 400, error },
      { ...known, ...OWNER, type: 'start-failed', at: 400, error },
    ],
    [
      { ...known, state: 'stopped', finishedAt: 400 },
      { ...known, ...OWNER, type: 'stopped', at: 400 },
    ],
    [
      { ...known, state: 'released', finishedAt: 400 },
      { ...known, ...OWNER, type: 'released', at: 400 },
    ],
  ];
  for (const [entry, report] of pairs) {
    for (const job of Object.values({ ...JOBS, ...JOBS_WITH_NEXT })) {
      const snapshot = job ? { job } : {};
      expect(decideEntry({ ...snapshot, pool: OPEN }, entry, { ...OWNER, at: 500 }, context())).toEqual(
        decideReport(snapshot, report, context()),
      );
    }
  }
});
