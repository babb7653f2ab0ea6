import { expect, test } from 'vitest';
import type { CommandSender, InboxKeeper } from '../../lib/pool/ports.ts';
import { type Command, parseCommand } from '../../lib/wire/index.ts';
import type { Inboxes } from '../../lib/worker/ports.ts';
import { aKey, aName, at } from './samples.ts';

export interface InboxesSetup {
  readonly inboxes: Inboxes;
  /** The control plane's side. */
  readonly commands: CommandSender;
  /** The sweep's side. */
  readonly keeper: InboxKeeper;
}

/** What worker runtime and use cases rely on, of any inboxes. `setup` may give every test the same ones. */
export function inboxesConformance(name: string, setup: () => InboxesSetup | Promise<InboxesSetup>): void {
  function aStop(session: string, key = aKey(), fence = at) {
    return { op: 'stop', session, key, dispatchId: aName('d'), fingerprint: 'f'.repeat(64), fence, reason: 'moved' } as const;
  }

  async function created() {
    const given = await setup();
    const session = aName('s');
    await given.inboxes.create(session);
    return { ...given, session };
  }

  /** Takes and deletes until `count` commands came. */
  async function take(inboxes: Inboxes, session: string, count: number): Promise<readonly Command[]> {
    const taken: Command[] = [];
    await expect
      .poll(
        async () => {
          const received = await inboxes.receive(session, 1_000);
          if (received === 'no-inbox') throw new Error('no inbox');
          for (const { body } of received) {
            const parsed = parseCommand(body);
            if (!parsed.ok) throw new Error(parsed.refusal.message);
            taken.push(parsed.value);
          }
          await inboxes.delete(
            session,
            received.map(({ receipt }) => receipt),
          );
          return taken.length;
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThanOrEqual(count);
    return taken;
  }

  test(`${name}: hands every kind of command over as it was sent, once`, async () => {
    const { inboxes, commands, session } = await created();
    const job = { session, key: aKey(), dispatchId: aName('d'), fingerprint: 'f'.repeat(64), fence: at };
    const sent: readonly Command[] = [
      { ...job, op: 'start', payload: new Uint8Array([0, 10, 200]), attempt: 2 },
      { ...job, op: 'stop', reason: 'stop-requested' },
      { ...job, op: 'release', reason: 'worker-draining' },
      { op: 'notify', session, key: job.key, fence: at, id: aName('n'), payload: new Uint8Array() },
      { op: 'resync', session, round: aName('r'), beat: 7, page: 1, pages: 1, jobs: [{ key: job.key, fence: at, running: true }] },
      { op: 'confirm', session, key: job.key, fence: at },
    ];
    for (const command of sent) expect(await commands.send(command)).toBe('sent');
    const taken = await take(inboxes, session, sent.length);
    expect(taken).toHaveLength(sent.length);
    expect(taken).toEqual(expect.arrayContaining([...sent]));
    expect(await inboxes.receive(session, 0)).toEqual([]);
  });

  test(`${name}: keeps the order of a key's commands (F15)`, async () => {
    const { inboxes, commands, session } = await created();
    const keys = [aKey(), aKey(), aKey()];
    const fences = Array.from({ length: 8 }, (_, index) => at + index);
    await Promise.all(
      keys.map(async (key) => {
        for (const fence of fences) await commands.send(aStop(session, key, fence));
      }),
    );
    const taken = await take(inboxes, session, keys.length * fences.length);
    const fencesOf = (key: string) => taken.flatMap((command) => ('key' in command && command.key === key ? [command.fence] : []));
    expect(keys.map(fencesOf)).toEqual(keys.map(() => fences));
  });

  test(`${name}: delivers the same command as often as it is sent (F6)`, async () => {
    const { inboxes, commands, session } = await created();
    const command = aStop(session);
    for (let sends = 0; sends < 3; sends += 1) await commands.send(command);
    expect(await take(inboxes, session, 3)).toEqual([command, command, command]);
  });

  test(`${name}: carries the largest payload`, async () => {
    const { inboxes, commands, session } = await created();
    const { reason: _, ...job } = aStop(session);
    const start = { ...job, op: 'start', payload: new Uint8Array(262_144).fill(255), attempt: 1 } as const;
    await commands.send(start);
    expect(await take(inboxes, session, 1)).toEqual([start]);
  });

  test(`${name}: hands over at most ten at a time`, async () => {
    const { inboxes, commands, session } = await created();
    await Promise.all(Array.from({ length: 23 }, () => commands.send(aStop(session))));
    const received = await inboxes.receive(session, 1_000);
    expect(received.length).toBeLessThanOrEqual(10);
    expect(received.length).toBeGreaterThan(0);
  });

  test(`${name}: gives no session the commands of another`, async () => {
    const { inboxes, commands, session } = await created();
    const other = aName('s');
    await inboxes.create(other);
    await commands.send(aStop(other));
    expect(await inboxes.receive(session, 0)).toEqual([]);
    expect(await take(inboxes, other, 1)).toHaveLength(1);
  });

  test(`${name}: says where there is no inbox, before and after`, async () => {
    const { inboxes, commands, keeper } = await setup();
    const session = aName('s');
    expect(await commands.send(aStop(session))).toBe('no-inbox');
    expect(await inboxes.receive(session, 0)).toBe('no-inbox');
    await inboxes.create(session);
    expect(await commands.send(aStop(session))).toBe('sent');
    await keeper.remove(session);
    expect(await commands.send(aStop(session))).toBe('no-inbox');
    expect(await inboxes.receive(session, 0)).toBe('no-inbox');
    await inboxes.delete(session, ['a receipt of before']);
    await keeper.remove(session);
  });

  test(`${name}: finds the session of every inbox, and of none that was removed`, async () => {
    const { inboxes, keeper } = await setup();
    const sessions = Array.from({ length: 4 }, () => aName('s'));
    await Promise.all(sessions.map((session) => inboxes.create(session)));
    const found = async () => {
      const mine: string[] = [];
      for await (const session of keeper.sessions()) if (sessions.includes(session)) mine.push(session);
      return mine.sort();
    };
    await expect.poll(found, { timeout: 20_000 }).toEqual([...sessions].sort());
    const [removed = '', ...rest] = sessions;
    await keeper.remove(removed);
    await expect.poll(found, { timeout: 20_000 }).toEqual([...rest].sort());
  });

  test(`${name}: creating an inbox again keeps what is in it`, async () => {
    const { inboxes, commands, session } = await created();
    await commands.send(aStop(session));
    await inboxes.create(session);
    expect(await take(inboxes, session, 1)).toHaveLength(1);
  });

  test(`${name}: deletes any number at once`, async () => {
    const { inboxes, commands, session } = await created();
    await Promise.all(Array.from({ length: 15 }, () => commands.send(aStop(session))));
    const receipts: string[] = [];
    await expect
      .poll(
        async () => {
          const received = await inboxes.receive(session, 1_000);
          if (received !== 'no-inbox') receipts.push(...received.map(({ receipt }) => receipt));
          return receipts.length;
        },
        { timeout: 20_000 },
      )
      .toBe(15);
    await inboxes.delete(session, receipts);
    await inboxes.delete(session, []);
    expect(await inboxes.receive(session, 0)).toEqual([]);
  });
}
