import { type AttributeValue, type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { decodeTime } from 'ulid';
import * as z from 'zod';
import type { AppliedPage, RoundStore } from '../resync/ports.ts';
import type { AskedPage, Round } from '../resync/round.ts';
import { type Put, putIf, read, type Update, updateIf } from './conditional-write.ts';
import { translated } from './errors.ts';
import { expressed, setting } from './expression.ts';
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
 * a set of their own type, which pages that arrive side by side can be added to without reading it. Only with its page are counts
 * added, so none counts twice; each rule has one attribute, so a round of a thousand pages stays small and its pages cheap.
 *
 * A change that is tried again after its response was lost finds what it wants in place: arming and closing say so by the item
 * that comes back, and a page that was added counts as applied.
 */
export function dynamoRounds({ dynamo, table }: DynamoRoundsOptions): RoundStore {
  const nameOf = (token: string) => `round "${token}"`;
  const put = (token: string, Item: Record<string, AttributeValue>) =>
    translated(nameOf(token), () => dynamo.send(new PutItemCommand({ TableName: table, Item })));

  async function change(token: string, params: ChangeParams): Promise<Changed> {
    const { won, item } = await updateIf(dynamo, nameOf(token), { TableName: table, Key: toItem(headKey(token)), ...params });
    return { outcome: won ? 'won' : 'lost', ...(item ? { current: decodeRound(item) } : {}) };
  }

  return {
    async get(token) {
      const item = await read(dynamo, nameOf(token), table, toItem(headKey(token)));
      return item && decodeRound(item);
    },
    async open(round) {
      await put(round.token, toItem(encodeRound(round)));
    },
    async ask(pages) {
      for (let from = 0; from < pages.length; from += putsAtOnce) {
        await Promise.all(pages.slice(from, from + putsAtOnce).map((page) => putIf(dynamo, nameOf(page.token), askParams(table, page))));
      }
    },
    async page(token, page) {
      const item = await read(dynamo, nameOf(token), table, toItem(pageKey({ token, page })));
      return item && { token, page, ...decode(`page ${page} of ${nameOf(token)}`, pageSchema, item) };
    },
    arm: (token, armed) => change(token, whereOpen({ state: 'armed', ...armed })),
    apply: (token, page) => change(token, applyParams(page)),
    async extend(token, deadline) {
      await change(token, whereOpen({ deadline }));
    },
    close: (token, to) => change(token, whereOpen({ state: to })),
  };
}

/** Pages are written one by one, because they may be large, and not one after the other. */
const putsAtOnce = 25;

type Changed = Awaited<ReturnType<RoundStore['close']>>;
type ChangeParams = Omit<Update, 'TableName' | 'Key'>;

function whereOpen(set: Attributes): ChangeParams {
  const ConditionExpression = '#state IN (:isOpen, :isArmed)';
  return expressed({ UpdateExpression: setting(set), ConditionExpression }, { ...set, isOpen: 'open', isArmed: 'armed' });
}

function applyParams({ page, pages, skipped, counts }: AppliedPage): ChangeParams {
  const counted = Object.entries(counts).map(([rule, count], index) => ({ place: `count${index}`, rule, count }));
  const adding = ['#applied :applied', '#skipped :skipped', ...counted.map(({ place }) => `#${place} :${place}`)];
  const UpdateExpression = `SET #pages = :pages ADD ${adding.join(', ')}`;
  const ConditionExpression = '#state = :armed AND NOT contains(#applied, :page)';
  const values = { armed: 'armed', page, pages, skipped, ...Object.fromEntries(counted.map(({ place, count }) => [place, count])) };
  const params = expressed({ UpdateExpression, ConditionExpression }, values);
  // Rules are words, with spaces in them, which a placeholder cannot hold and an attribute's name can.
  const names = Object.fromEntries(counted.map(({ place, rule }) => [`#${place}`, countPrefix + rule]));
  return {
    ...params,
    ExpressionAttributeNames: { ...params.ExpressionAttributeNames, ...names },
    ExpressionAttributeValues: { ...params.ExpressionAttributeValues, ':applied': { NS: [String(page)] } },
  };
}

/** Fails, and that is no failure, where the page was asked before. */
function askParams(TableName: string, page: AskedPage): Put {
  return { TableName, Item: toItem(encodePage(page)), ConditionExpression: 'attribute_not_exists(pk)' };
}

function headKey(token: string): { readonly pk: string; readonly sk: string } {
  return { pk: `round#${token}`, sk: 'head' };
}

function pageKey({ token, page }: Pick<AskedPage, 'token' | 'page'>): { readonly pk: string; readonly sk: string } {
  return { pk: `round#${token}`, sk: `page#${page}` };
}

/** What the names of attributes begin with that hold a count; the rule follows. */
const countPrefix = 'count ';

function encodeRound({ applied: _, counts: __, ...round }: Round): Attributes {
  return { ...headKey(round.token), v: version, ...round, ttl: toSeconds(round.openedAt + keptMs) };
}

function encodePage({ token, page, jobs }: AskedPage): Attributes {
  return { ...pageKey({ token, page }), v: version, jobs: JSON.stringify(jobs), ttl: toSeconds(decodeTime(token) + keptMs) };
}

function decodeRound(item: Item): Round {
  const { applied, ...plain } = item;
  const counts = Object.entries(plain).flatMap(([name, { N: count }]) =>
    name.startsWith(countPrefix) ? [[name.slice(countPrefix.length), Number(count)] as const] : [],
  );
  const round = decode(`round "${item.token?.S}"`, roundSchema, plain);
  return { ...round, applied: new Set((applied?.NS ?? []).map(Number)), counts: Object.fromEntries(counts) };
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
