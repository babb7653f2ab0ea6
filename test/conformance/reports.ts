import { expect, test } from 'vitest';
import { parseReport, type Report } from '../../lib/wire/index.ts';
import type { ReportSender } from '../../lib/worker/ports.ts';
import { aKey, aName, at } from './samples.ts';

export interface ReportsSetup {
  readonly reports: ReportSender;
  /** Takes what is on the queue now and deletes it. */
  readonly take: () => Promise<readonly { readonly body: string }[]>;
}

/** What the worker runtime relies on, of any `ReportSender`. `setup` may give every test the same queue. */
export function reportsConformance(name: string, setup: () => ReportsSetup | Promise<ReportsSetup>): void {
  function fact(worker: string) {
    return { key: aKey(), dispatchId: aName('d'), fingerprint: 'f'.repeat(64), fence: at, worker, session: 's', at };
  }

  /** What came from `worker` until `count` did. */
  async function taken({ take }: ReportsSetup, worker: string, count: number): Promise<readonly Report[]> {
    const mine: Report[] = [];
    await expect
      .poll(
        async () => {
          for (const { body } of await take()) {
            const parsed = parseReport(body);
            if (!parsed.ok) throw new Error(parsed.refusal.message);
            if (parsed.value.worker === worker) mine.push(parsed.value);
          }
          return mine.length;
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThanOrEqual(count);
    return mine;
  }

  test(`${name}: enqueues every report as it is, in as many calls as it takes`, async () => {
    const given = await setup();
    const worker = aName('w');
    const reports: readonly Report[] = [
      { type: 'registered', worker, session: 's', at },
      ...Array.from({ length: 24 }, (_, index) => ({ ...fact(worker), type: 'started', startedAt: at + index }) as const),
      { ...fact(worker), type: 'finished', startedAt: at, result: { text: 'ö\u0000', list: [1.5, null] } },
      { type: 'left', worker, session: 's', at },
    ];
    await given.reports.send(reports);
    const came = await taken(given, worker, reports.length);
    expect(came).toHaveLength(reports.length);
    expect(came).toEqual(expect.arrayContaining([...reports]));
  });

  test(`${name}: enqueues together what is too large for one call`, async () => {
    const given = await setup();
    const worker = aName('w');
    const payload = new Uint8Array(262_144).fill(200);
    const confirmed = Array.from({ length: 5 }, () => ({ ...fact(worker), type: 'confirmed', startedAt: at, payload }) as const);
    await given.reports.send(confirmed);
    expect(await taken(given, worker, 5)).toEqual(expect.arrayContaining(confirmed));
  });

  test(`${name}: enqueues nothing of nothing`, async () => {
    const { reports } = await setup();
    await expect(reports.send([])).resolves.toBeUndefined();
  });
}
