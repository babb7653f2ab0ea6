import { type Duration, Stack, Token } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/** Names and limits are refused while the app is synthesised, where the message can still name the construct and what to change. */
export function refuse(construct: IConstruct, fact: string, change: string): never {
  throw new Error(`${construct.node.path}: ${fact}; ${change}`);
}

/** `Shop/Feeds` → `shop-feeds`; of a longer path the end is kept, and a hash of it all. */
export function defaultPoolName({ node }: IConstruct): string {
  const name = node.path.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  return name.length <= 32 ? name : `${name.slice(-23)}-${node.addr.slice(-8)}`;
}

/**
 * Inboxes are named `holdfast-<pool>_<session>.fifo` and must fit the 80 characters of a queue's name; without `_` in a pool's
 * name no pool's grants reach the inboxes of another.
 */
export function checkPoolName(construct: IConstruct, poolName: string): void {
  if (Token.isUnresolved(poolName) || /^[a-z0-9-]{1,32}$/.test(poolName)) return;
  refuse(construct, `the pool name "${poolName}" is not 1 to 32 of a-z, 0-9 and "-"`, 'set `poolName` to a name that is');
}

const poolsByApp = new WeakMap<IConstruct, Map<string, string>>();

/** Policies, the parameter and inboxes carry the pool's name, so in one account and region it must be the only one of it. */
export function checkOnlyPoolOfItsName(construct: IConstruct, poolName: string): void {
  if (Token.isUnresolved(poolName)) return;
  const app = construct.node.root;
  const pools = poolsByApp.get(app) ?? new Map<string, string>();
  poolsByApp.set(app, pools);
  const { account, region } = Stack.of(construct);
  const place = [account, region].map((part) => (Token.isUnresolved(part) ? '' : part)).join('/');
  const other = pools.get(`${place}/${poolName}`);
  if (other !== undefined) {
    const change = 'give one of them another `poolName` (or their stacks different accounts or regions)';
    refuse(construct, `the pool name "${poolName}" is taken by ${other}`, change);
  }
  pools.set(`${place}/${poolName}`, construct.node.path);
}

/** Both ends belong to the allowed range. A duration that is only known at deployment is not looked at. */
export function checkDuration(construct: IConstruct, name: string, value: Duration, least: Duration, most?: Duration): void {
  if (value.isUnresolved()) return;
  const fits = value.toMilliseconds() >= least.toMilliseconds() && value.toMilliseconds() <= (most ?? value).toMilliseconds();
  if (fits) return;
  const range = most ? `between ${inWords(least)} and ${inWords(most)}` : `at least ${inWords(least)}`;
  refuse(construct, `\`${name}\` is ${inWords(value)}`, `it must be ${range}`);
}

export function checkCount(construct: IConstruct, name: string, value: number, least: number, most: number): void {
  if (Token.isUnresolved(value) || (Number.isInteger(value) && value >= least && value <= most)) return;
  refuse(construct, `\`${name}\` is ${value}`, `it must be a whole number from ${least} to ${most}`);
}

function inWords(duration: Duration): string {
  return duration.toHumanString();
}
