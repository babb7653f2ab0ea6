import { expect, test } from 'vitest';
import type { RequestBatchSender } from '../../lib/client/ports.ts';
import type { RequestSender } from '../../lib/pool/ports.ts';
import { groupIdOf, parseRequest, type Request } from '../../lib/wire/index.ts';
import { aKey, aName, aStart, at } from './samples.ts';

export interface RequestsSetup {
  readonly requests: RequestSender;
  readonly batches: RequestBatchSender;
  /** Takes what is on the queue now and deletes it; `group` is whatever stands for the key there. */
  readonly take: () => Promise<readonly { readonly body: string; readonly group: string }[]>;
  /** Default: a key's group is its hash. */
  readonly groupOf?: (key: string) => string;
}

/** What clients and use cases rely on, of any sender of requests. `setup` may give every test the same queue. */
export function requestsConformance(name: string, setup: () => RequestsSetup | Promise<RequestsSetup>): void {
  const kinds = (key: string): readonly Request[] => [
    aStart({ key, expiresAt: at, ifBusy: 'replace' }),
    { op: 'stop', key },
    { op: 'stop', key, dispatchId: aName('d') },
    { op: 'notify', key, payload: new Uint8Array([255, 0]), id: aName('n') },
    { op: 'assign', key },
    { op: 'move', key, fence: at },
  ];

  /** What came for `key` until `count` did. */
  async function taken({ take, groupOf = groupIdOf }: RequestsSetup, key: string, count: number): Promise<readonly Request[]> {
    const mine: Request[] = [];
    await expect
      .poll(
        async () => {
          for (const { body, group } of await take()) {
            const parsed = parseRequest(body);
            if (!parsed.ok) throw new Error(parsed.refusal.message);
            if (parsed.value.key !== key) continue;
            expect(group).toBe(groupOf(key));
            mine.push(parsed.value);
          }
          return mine.length;
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThanOrEqual(count);
    return mine;
  }

  test(`${name}: sends every kind of request as it is, in order`, async () => {
    const given = await setup();
    const key = aKey();
    for (const request of kinds(key)) await given.requests.send([request]);
    expect(await taken(given, key, 6)).toMatchObject(kinds(key).map(({ op }) => ({ op })));
  });

  test(`${name}: loses no repetition: not of a request, nor of one with the same dispatch id (F6)`, async () => {
    const given = await setup();
    const start = aStart();
    const other = { ...start, payload: new Uint8Array([9]) };
    for (const request of [start, start, other]) await given.requests.send([request]);
    expect(await given.batches.send([start, other])).toEqual([undefined, undefined]);
    expect(await taken(given, start.key, 5)).toEqual([start, start, other, start, other]);
  });

  test(`${name}: sends many at once, in order, as many calls as it takes`, async () => {
    const given = await setup();
    const key = aKey();
    const requests = Array.from({ length: 27 }, (_, index) => aStart({ key, dispatchId: `${index}` }));
    expect(await given.batches.send(requests)).toEqual(requests.map(() => undefined));
    expect(await taken(given, key, 27)).toEqual(requests);
  });

  test(`${name}: sends together what is too large for one call`, async () => {
    const given = await setup();
    const key = aKey();
    const requests = Array.from({ length: 5 }, () => aStart({ key, payload: new Uint8Array(262_144).fill(200) }));
    expect(await given.batches.send(requests)).toEqual(requests.map(() => undefined));
    expect(await taken(given, key, 5)).toEqual(requests);
  });

  test(`${name}: sends nothing of nothing`, async () => {
    const { batches } = await setup();
    expect(await batches.send([])).toEqual([]);
  });
}
