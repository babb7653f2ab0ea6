import { expect, test } from 'vitest';
import { indexUnits, itemSize, queryUnits, queueRequests, readUnits, writeUnits } from '../../bench/billing.ts';
import { byOwner, pending } from '../../lib/aws/tables.ts';

const ofSize = (bytes: number) => ({ text: { S: 'x'.repeat(bytes - 'text'.length) } });

test('an item is as large as its names and values are in UTF-8', () => {
  expect(itemSize(undefined)).toBe(0);
  expect(itemSize({ pk: { S: 'job#é' }, v: { B: Uint8Array.of(0, 1, 2) }, flag: { BOOL: true } })).toBe(2 + 6 + 1 + 3 + 4 + 1);
});

test.each([
  ['0', 1],
  ['1', 2],
  ['1900000000000', 2],
  ['1900000000001', 8],
  ['-12', 3],
  ['100', 2],
])('the number %s takes %i bytes: one for every two significant digits, and one', (text, bytes) => {
  expect(itemSize({ n: { N: text } })).toBe(1 + bytes);
});

test('what the rules say nothing about is an error, not free', () => {
  expect(() => itemSize({ list: { L: [] } })).toThrow('no size is known');
});

test('a write is billed for the larger of the item before and after it, per started KB', () => {
  expect(writeUnits(undefined, ofSize(1_024))).toBe(1);
  expect(writeUnits(undefined, ofSize(1_025))).toBe(2);
  expect(writeUnits(ofSize(2_049), ofSize(10))).toBe(3);
  expect(writeUnits(ofSize(262_144), undefined)).toBe(256);
});

test('a write that finds nothing, or fails its condition on nothing, is billed all the same', () => {
  expect(writeUnits(undefined, undefined)).toBe(1);
});

test('a consistent read is billed per started 4 KB, and one that finds nothing as one', () => {
  expect([undefined, ofSize(4_096), ofSize(4_097)].map(readUnits)).toEqual([1, 1, 2]);
});

test('a query of an index is billed half, for all that it gives together', () => {
  expect(queryUnits([])).toBe(0.5);
  expect(queryUnits([ofSize(3_000), ofSize(3_000)])).toBe(1);
});

test('an index is written where its entry appears, goes or moves, and not where it stays', () => {
  const job = { pk: { S: 'job#k' }, sk: { S: 'head' }, status: { S: 'running' } };
  const owned = (owner: string) => ({ ...job, owner: { S: owner } });
  expect(indexUnits(byOwner, job, job)).toBe(0);
  expect(indexUnits(byOwner, undefined, owned('w1'))).toBe(1);
  expect(indexUnits(byOwner, owned('w1'), { ...owned('w1'), status: { S: 'stopping' } })).toBe(0);
  expect(indexUnits(byOwner, owned('w1'), owned('w2'))).toBe(2);
  expect(indexUnits(byOwner, owned('w1'), job)).toBe(1);
});

test('an item that lacks one of the keys of an index is not in it', () => {
  const waiting = { pk: { S: 'job#k' }, sk: { S: 'head' }, pendingShard: { N: '1' } };
  expect(indexUnits(pending, undefined, waiting)).toBe(0);
  expect(indexUnits(pending, undefined, { ...waiting, dueAt: { N: '1900000000000' } })).toBe(1);
});

test('a call of a queue is billed per started 64 KB', () => {
  expect([0, 65_536, 65_537, 262_144].map(queueRequests)).toEqual([1, 1, 2, 4]);
});
