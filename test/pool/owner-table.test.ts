import { describe, expect, test } from 'vitest';
import { decideOwnerLost } from '../../lib/pool/decide-owner-lost.ts';
import { summarize } from '../../lib/pool/decision.ts';
import { isOwnerLost } from '../../lib/pool/worker.ts';
import { context, OWNER } from '../../protocol/cast.ts';
import { OWNED_JOBS, OWNER_ROWS, ownerLostTable, ownerRowTable } from '../../protocol/owners.ts';
import { expand } from '../../protocol/table.ts';

describe.for(ownerRowTable.rows.map((row) => [row.when, row] as const))('%s', ([, row]) => {
  test.for([...expand(row)])('%s: %s', ([column, expected]) => {
    expect(isOwnerLost(OWNER_ROWS[column], OWNER) ? 'owner lost' : 'send').toBe(expected);
  });
});

describe.for(ownerLostTable.rows.map((row) => [row.when, row] as const))('owner lost, %s', ([, row]) => {
  const cells = [...expand(row)].flatMap(([column, expected]) => row.ops.map((op) => [column, op, expected] as const));
  test.for(cells)('%s, %s: %s', ([column, op, expected]) => {
    const job = OWNED_JOBS[column];
    if (!job) throw new Error(`no such job: ${column}`);
    expect(summarize(decideOwnerLost(job, op, { ...context(), ...(row.workers ? { workers: row.workers } : {}) }))).toBe(expected);
  });
});
