import { expect, test, vi } from 'vitest';
import type { JobStore, RequestSender } from '../../lib/pool/ports.ts';
import type { PoolState } from '../../lib/pool/worker.ts';
import type { PoolRecord, QueueGauges, RecoverPorts } from '../../lib/resync/recover.ts';
import type { Inboxes, ReportSender } from '../../lib/worker/ports.ts';
import { aKey, aName, anAssigned, anEnded, aPending, aRunning, at } from './samples.ts';

export interface RecoverPortsSetup {
  /** Of a pool that nobody wrote a record of yet. */
  readonly pool: PoolRecord;
  readonly gauges: QueueGauges;
  readonly owned: RecoverPorts['owned'];
  readonly jobs: JobStore;
  /** What gauges measure; nobody else puts anything there. */
  readonly requests: RequestSender;
  readonly reports: ReportSender;
  readonly inboxes: Inboxes;
  readonly command: (session: string) => Promise<unknown>;
}

const TAKEN = { timeout: 10_000, interval: 100 };

/** What a recovery relies on, of whatever it runs on. `setup` gives every test the same. */
export function recoverPortsConformance(name: string, setup: () => RecoverPortsSetup): void {
  test(`${name}: the pool's record is written only over the one that was read, none being open in generation 1`, async () => {
    const { pool } = setup();
    const first: PoolState = { state: 'open', generation: 1 };
    const second: PoolState = { state: 'recovering', generation: 2 };
    expect(await pool.get()).toEqual(first);
    expect(await pool.change(second, first)).toBe(false);
    const won = await Promise.all(Array.from({ length: 5 }, () => pool.change(first, second)));
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await pool.get()).toEqual(second);
    expect(await pool.change(first, { state: 'closed', generation: 1 })).toBe(false);
    expect(await pool.change({ ...second, generation: 3 }, first)).toBe(false);
    expect(await pool.change(second, first)).toBe(true);
    expect(await pool.change(first, { state: 'open', generation: 4 })).toBe(true);
    expect(await pool.get()).toEqual({ state: 'open', generation: 4 });
  });

  test(`${name}: gauges tell what waits from what was taken, and an inbox that is not there is empty`, async () => {
    const { gauges, requests, reports, inboxes, command } = setup();
    const session = aName('s');
    const becomes = (look: () => Promise<unknown>, waiting: number, taken = 0) =>
      vi.waitFor(async () => expect(await look()).toEqual({ waiting, taken }), TAKEN);
    expect(await gauges.inbox(session)).toEqual({ waiting: 0, taken: 0 });
    await inboxes.create(session);
    await becomes(() => gauges.inbox(session), 0);
    await command(session);
    await becomes(() => gauges.inbox(session), 1);
    const received = await inboxes.receive(session, 1_000);
    if (received === 'no-inbox') throw new Error('the inbox is not there');
    expect(await gauges.inbox(session)).toEqual({ waiting: 0, taken: 1 });
    await inboxes.delete(
      session,
      received.map(({ receipt }) => receipt),
    );
    await becomes(() => gauges.inbox(session), 0);

    await becomes(gauges.requests, 0);
    await becomes(gauges.reports, 0);
    await requests.send([{ op: 'assign', key: aKey() }]);
    await reports.send([1, 2].map(() => ({ type: 'left', worker: aName('w'), session, at })));
    await becomes(gauges.requests, 1);
    await becomes(gauges.reports, 2);
  });

  test(`${name}: every owned key is found with its worker, and no other`, async () => {
    const { owned, jobs } = setup();
    const assigned = anAssigned();
    const running = Array.from({ length: 150 }, () => aRunning({ owner: assigned.owner }));
    const others = [aPending(), anEnded({ recordedAt: Date.now() })];
    await Promise.all([assigned, ...running, ...others].map((job) => jobs.commit(job, undefined)));
    const found = async () => {
      const items = [];
      let cursor: string | undefined;
      do {
        const page = await owned(cursor);
        items.push(...page.items);
        cursor = page.cursor;
      } while (cursor !== undefined);
      return items.sort((one, other) => (one.key < other.key ? -1 : 1));
    };
    const expected = [assigned, ...running].map(({ key, owner }) => ({ key, worker: owner.worker }));
    await vi.waitFor(async () => expect(await found()).toEqual(expected.sort((one, other) => (one.key < other.key ? -1 : 1))), TAKEN);
  });
}
