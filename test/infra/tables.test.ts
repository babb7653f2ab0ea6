import { expect, test } from 'vitest';
import { byOwner, jobsTable, pending, pendingShards, workersTable } from '../../lib/aws/tables.ts';
import { aPool, resourcesOf } from './synthesised.ts';

/** How many values an attribute takes where it says into which partition a write goes: as many as there are records, or so many. */
const values: Record<string, 'one per record' | 'one per worker' | number> = {
  pk: 'one per record',
  [byOwner.partitionKey.name]: 'one per worker',
  [pending.partitionKey.name]: pendingShards,
};
/** What one partition takes: writes a second. */
const partitionWrites = 1_000;
/** Starts a second that one pool must take; each that has to wait is written to the index of waiting jobs, and taken out of it. */
const startsPerSecond = 1_500;

test('no partition takes all writes of a pool, in no table and no index (F47)', () => {
  const keys = [jobsTable, workersTable].flatMap(({ partitionKey, indexes }) => [
    partitionKey.name,
    ...indexes.map((index) => index.partitionKey.name),
  ]);
  for (const name of keys) {
    const count = values[name];
    expect(count, `how many values "${name}" takes is not said here`).toBeDefined();
    if (typeof count === 'number') expect(count * partitionWrites).toBeGreaterThanOrEqual(2 * startsPerSecond);
  }
});

test('the tables are made as the adapters read and write them', () => {
  const { stack } = aPool();
  const [jobs, workers] = Object.values(resourcesOf(stack, 'AWS::DynamoDB::Table')).map(({ Properties }) => Properties);
  for (const [made, layout] of [
    [jobs, jobsTable],
    [workers, workersTable],
  ] as const) {
    const key = ({ partitionKey, sortKey }: { partitionKey: { name: string }; sortKey?: { name: string } }) => [
      { AttributeName: partitionKey.name, KeyType: 'HASH' },
      ...(sortKey ? [{ AttributeName: sortKey.name, KeyType: 'RANGE' }] : []),
    ];
    expect(made.KeySchema).toEqual(key(layout));
    expect(made.TimeToLiveSpecification).toEqual('ttl' in layout ? { AttributeName: layout.ttl, Enabled: true } : undefined);
    expect(made.BillingMode).toBe('PAY_PER_REQUEST');
    const indexes = layout.indexes.map((index) => ({
      IndexName: index.name,
      KeySchema: key(index),
      Projection: { ProjectionType: 'KEYS_ONLY' },
    }));
    expect(made.GlobalSecondaryIndexes ?? []).toEqual(indexes);
    const attributes = [layout, ...layout.indexes].flatMap((each) => [each.partitionKey, ...('sortKey' in each ? [each.sortKey] : [])]);
    for (const { name, type } of attributes) {
      expect(made.AttributeDefinitions).toContainEqual({ AttributeName: name, AttributeType: type });
    }
  }
});
