import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { type Attributes, toItem } from './item.ts';

interface Expressions {
  readonly UpdateExpression?: string;
  readonly ConditionExpression?: string;
  readonly KeyConditionExpression?: string;
}

interface Placeholders {
  readonly ExpressionAttributeNames: Record<string, string>;
  readonly ExpressionAttributeValues: Record<string, AttributeValue>;
}

/** The expressions with what their placeholders stand for: `#name` is the attribute of that name, `:name` the value given for it. */
export function expressed<E extends Expressions>(expressions: E, values: Attributes): E & Placeholders {
  const names = Object.values(expressions).flatMap((expression: string) => expression.match(/#\w+/g) ?? []);
  return {
    ...expressions,
    ExpressionAttributeNames: Object.fromEntries(names.map((name) => [name, name.slice(1)])),
    ExpressionAttributeValues: Object.fromEntries(Object.entries(toItem(values)).map(([name, value]) => [`:${name}`, value])),
  };
}

/** `SET` for each attribute that is defined. */
export function setting(attributes: Attributes): string {
  const defined = Object.keys(toItem(attributes));
  return `SET ${defined.map((name) => `#${name} = :${name}`).join(', ')}`;
}
