import { describe, expect, test } from 'vitest';
import { decideHolder, decideRestore, inWords } from '../../lib/resync/decide-restore.ts';
import { context, JOBS, JOBS_WITH_NEXT } from '../../protocol/cast.ts';
import { namedAt, restoreTable } from '../../protocol/restore.ts';
import { expand } from '../../protocol/table.ts';

describe.for(restoreTable.rows.map((row) => [row.when, row] as const))(
  '%s',
  ([, { report, dispatch, hasPayload, row, pool, ...table }]) => {
    test.for([...expand(table)])('%s: %s', ([column, expected]) => {
      const job = JOBS[column] ?? JOBS_WITH_NEXT[column];
      const other = report.type === 'confirmed' ? report.dispatchId : report.running.dispatchId;
      const named = job?.dispatchId === other ? undefined : namedAt(column);
      const snapshot = {
        ...(job ? { job } : {}),
        ...(dispatch ? { dispatch } : {}),
        hasPayload: hasPayload === true,
        ...(named ? { named } : {}),
        ...(row ? { row } : {}),
        pool: { state: pool ?? 'open', generation: 1 },
      };
      const decision = report.type === 'confirmed' ? decideRestore(snapshot, report, context()) : decideHolder(snapshot, report, context());
      expect(decision ? inWords(decision) : 'a report like any other').toBe(expected);
    });
  },
);
