import { Duration } from 'aws-cdk-lib';
import { type EventPattern, type IEventBus, type OnEventOptions, Rule } from 'aws-cdk-lib/aws-events';
import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { EventSourceMapping, FilterCriteria, type IFunction, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { tellingWrites } from '../lib/aws/change-record.ts';
import { eventSource, type PoolEvent } from '../lib/wire/index.ts';
import { allow } from './permissions.ts';
import type { PoolResources } from './resources.ts';

/** Where a pool's changes are told, and where those go that could not be. */
export interface Telling {
  readonly bus: IEventBus;
  readonly deadLetters: IQueue;
}

/**
 * How long a change is tried to be told. Half of what the stream keeps: whoever is alarmed has the other half to read from it what was
 * given up. Records that no try can help never last so long: the function dead-letters them at once.
 */
const MAX_RECORD_AGE = Duration.hours(12);
/** The most that can be said: age is to decide. */
const MAX_RETRIES = 10_000;

/** What the function needs beside the pool's generation: the streams, the bus, and somewhere to put what cannot be told. */
export function tellStatements(pool: PoolResources, { bus, deadLetters }: Telling): readonly PolicyStatement[] {
  const streams = [pool.jobsTable, pool.workersTable].map(({ tableStreamArn }) => tableStreamArn ?? '');
  return [
    allow(['dynamodb:GetItem'], pool.jobsTable.tableArn),
    allow(['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'], ...streams),
    // The service knows no narrower resource; what it tells are names.
    allow(['dynamodb:ListStreams'], '*'),
    allow(['events:PutEvents'], bus.eventBusArn),
    allow(['sqs:SendMessage'], deadLetters.queueArn),
  ];
}

/**
 * Feeds the function with what was written. Per shard one batch at a time, so the writes of a record come in their order; one that fails
 * comes again with what is behind it, and neither the tables nor whoever writes to them waits for it.
 */
export function feedWrites(fn: IFunction, pool: PoolResources, deadLetters: IQueue): void {
  const sources = [
    ['Jobs', pool.jobsTable, tellingWrites.jobs],
    ['Workers', pool.workersTable, tellingWrites.workers],
  ] as const;
  for (const [id, { tableStreamArn }, filters] of sources) {
    new EventSourceMapping(fn, id, {
      target: fn,
      eventSourceArn: tableStreamArn,
      // From its beginning: what is written while the source is being made is told too.
      startingPosition: StartingPosition.TRIM_HORIZON,
      batchSize: 100,
      reportBatchItemFailures: true,
      bisectBatchOnError: true,
      maxRecordAge: MAX_RECORD_AGE,
      retryAttempts: MAX_RETRIES,
      onFailure: { bind: () => ({ destination: deadLetters.queueArn }) },
      filters: filters.map((pattern) => FilterCriteria.filter(pattern)),
    });
  }
}

/** A rule for changes of jobs of one pool, narrowed by what the options' pattern says. */
export function jobChangeRule(
  scope: Construct,
  id: string,
  { eventBus, poolName }: { readonly eventBus: IEventBus; readonly poolName: string },
  { target, eventPattern, crossStackScope, ...named }: OnEventOptions = {},
): Rule {
  const detailType: PoolEvent['detail-type'] = 'Holdfast Job Change';
  const ofPool: EventPattern = { source: [eventSource], detailType: [detailType], detail: { pool: [poolName] } };
  const rule = new Rule(crossStackScope ?? scope, id, { ...named, eventBus, eventPattern: ofPool });
  rule.addEventPattern(eventPattern);
  rule.addTarget(target);
  return rule;
}
