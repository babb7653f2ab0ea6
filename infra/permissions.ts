import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IndexLayout } from '../lib/aws/tables.ts';

/** Every statement is written by hand: the grants of CDK's constructs include scans, key actions and queue attributes that nobody here needs. */
export function allow(actions: readonly string[], ...resources: readonly string[]): PolicyStatement {
  return new PolicyStatement({ actions: [...actions], resources: [...resources] });
}

/** Of a table, only what stands under these partition keys; `*` for anything. An endpoint that does not know the condition takes it to hold. */
export function allowUnder(keys: readonly string[], actions: readonly string[], { tableArn }: ITable): PolicyStatement {
  const statement = allow(actions, tableArn);
  statement.addCondition('ForAllValues:StringLike', { 'dynamodb:LeadingKeys': keys });
  return statement;
}

/**
 * To send and to delete one by one or in batches. On AWS the single action covers both; other endpoints that speak SQS and enforce
 * policies ask for a batch by its own name.
 */
export const sendMessages = ['sqs:SendMessage', 'sqs:SendMessageBatch'] as const;
export const deleteMessages = ['sqs:DeleteMessage', 'sqs:DeleteMessageBatch'] as const;

export function indexArn({ tableArn }: ITable, { name }: IndexLayout): string {
  return `${tableArn}/index/${name}`;
}
