import { type AttributeValue, type DynamoDBClient, PutItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import * as z from 'zod';
import type { Commit } from '../pool/ports.ts';
import type { RoundStore } from '../resync/ports.ts';
import type { AskedPage, Round } from '../resync/round.ts';
import { read, type Written } from './conditional-write.ts';
import { conditionFailure, translate, translated } from './errors.ts';
import { expressed } from './expression.ts';
import { type Attributes, decode, type Item, json, toItem, toSeconds, version } from './item.ts';

/** Rounds are forgotten a day after they were opened; whoever looks for one by then finds the row pointing at another. */
const keptMs = 24 * 60 * 60 * 1_000;

export interface DynamoRoundsOptions {
  readonly dynamo: DynamoDBClient;
  /** Name of the Jobs table. */
  readonly table: string;
}

/**
 * Rounds and what they ask. The head's `state` is what every change is conditional on; the pages of the answer that were applied are
 * a set of their own type, which pages that arrive side by side can be added to without reading it.
 *
 * A change that is tried again after its response was lost finds what it wants in place: arming and closing say so by the item
 * that comes back, and a page that was added counts as applied.
 */
export function dynamoRounds({ dynamo, table }: DynamoRoundsOptions): RoundStore {
  const nameOf = (token: string) => `round "${token}"`;

  async function update(
    token: string,
    UpdateExpression: string,
    ConditionExpression: string,
    values: Record<string, unknown>,
  ): Promise<Written> {
    const { applied, ...plain } = values as Attributes & { readonly applied?: number };
    const params = expressed({ UpdateExpression, ConditionExpression }, plain);
    const page: Record<string, AttributeValue> = applied === undefined ? {} : { ':applied': { NS: [String(applied)] } };
    const ExpressionAttributeValues = { ...params.ExpressionAttributeValues, ...page };
    const returning = { ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const;
    try {
      const command = new UpdateItemCommand({
        TableName: table,
        Key: toItem(headKey(token)),
        ...params,
        ExpressionAttributeValues,
        ...returning,
      });
      return { won: true, item: (await dynamo.send(command)).Attributes };
    } catch (error) {
      const failure = conditionFailure(error);
      if (!failure) throw translate(nameOf(token), error);
      return { won: false, item: failure.item ?? (await read(dynamo, nameOf(token), table, toItem(headKey(token)))) };
    }
  }

  const changed = ({ won, item }: Written): { readonly outcome: 'won' | 'lost'; readonly current?: Round } => ({
    outcome: won ? 'won' : 'lost',
    ...(item ? { current: decodeRound(item) } : {}),
  });

  return {
    async get(token) {
      const item = await read(dynamo, nameOf(token), table, toItem(headKey(token)));
      return item && decodeRound(item);
    },
    async open(round) {
      await translated(nameOf(round.token), () => dynamo.send(new PutItemCommand({ TableName: table, Item: toItem(encodeRound(round)) })));
    },
    async ask(pages) {
      for (const page of pages) {
        const Item = toItem({ ...pageKey(page), v: version, jobs: JSON.stringify(page.jobs), ttl: toSeconds(timeOf(page.token) + keptMs) });
        await translated(nameOf(page.token), () => dynamo.send(new PutItemCommand({ TableName: table, Item })));
      }
    },
    async page(token, page) {
      const item = await read(dynamo, nameOf(token), table, toItem(pageKey({ token, page })));
      return item && { token, page, ...decode(`page ${page} of ${nameOf(token)}`, pageSchema, item) };
    },
    async arm(token, { asked, deadline, taskToken }): Promise<Commit<Round>> {
      const sets = [
        '#state = :armed',
        '#asked = :asked',
        '#deadline = :deadline',
        ...(taskToken === undefined ? [] : ['#taskToken = :taskToken']),
      ];
      return changed(await update(token, `SET ${sets.join(', ')}`, IS_OPEN, { ...OPEN, asked, deadline, taskToken }));
    },
    async apply(token, { page, pages, skipped, counts }) {
      // Counts are named by rules, which are words and not attribute names; they stand in one text per page.
      const set = `SET #pages = :pages, #${countsName(page)} = :counts ADD #applied :applied, #skipped :skipped`;
      const values = { armed: 'armed', pages, skipped, page, counts: JSON.stringify(counts), applied: page };
      return changed(await update(token, set, '#state = :armed AND NOT contains(#applied, :page)', values));
    },
    async extend(token, deadline) {
      await update(token, 'SET #deadline = :deadline', IS_OPEN, { ...OPEN, deadline });
    },
    async close(token, to) {
      return changed(await update(token, 'SET #state = :to', IS_OPEN, { ...OPEN, to }));
    },
  };
}

const IS_OPEN = '(#state = :open OR #state = :armed)';
const OPEN = { open: 'open', armed: 'armed' };

function headKey(token: string): { readonly pk: string; readonly sk: string } {
  return { pk: `round#${token}`, sk: 'head' };
}

function pageKey({ token, page }: Pick<AskedPage, 'token' | 'page'>): { readonly pk: string; readonly sk: string } {
  return { pk: `round#${token}`, sk: `page#${page}` };
}

function countsName(page: number): string {
  return `counts${page}`;
}

function encodeRound({ applied: _, counts: __, ...round }: Round): Attributes {
  return { ...headKey(round.token), v: version, ...round, ttl: toSeconds(round.openedAt + keptMs) };
}

function decodeRound(item: Item): Round {
  const applied = new Set((item.applied?.NS ?? []).map(Number));
  const counts: Record<string, number> = {};
  for (const page of applied) {
    const ofPage = JSON.parse(item[countsName(page)]?.S ?? '{}') as Record<string, number>;
    for (const [rule, count] of Object.entries(ofPage)) counts[rule] = (counts[rule] ?? 0) + count;
  }
  const { applied: _, ...plain } = item;
  return { ...decode(`round "${item.token?.S}"`, roundSchema, plain), applied, counts };
}

/** A token is a ULID. */
function timeOf(token: string): number {
  const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  return [...token.slice(0, 10)].reduce((time, char) => time * 32 + Math.max(0, digits.indexOf(char)), 0);
}

const text = z.string();
const int = z.int();

const roundSchema: z.ZodType<Omit<Round, 'applied' | 'counts'>> = z.object({
  token: text,
  worker: text,
  session: text,
  state: z.enum(['open', 'armed', 'resolved', 'closed']),
  beat: int,
  openedAt: int,
  deadline: int,
  taskToken: text.optional(),
  asked: int,
  pages: int.optional(),
  skipped: int,
});

const pageSchema: z.ZodType<Pick<AskedPage, 'jobs'>> = z.object({
  jobs: json(z.array(z.object({ key: text, fence: int, running: z.boolean() }))),
});
