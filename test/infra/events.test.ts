import { Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, test } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import { tellingWrites } from '../../lib/aws/change-record.ts';
import { actionsOf, anApp, resourcesOf, type Statement, statementsOf } from './synthesised.ts';

/** A pool that tells its changes on a bus of its own stack. */
function aTellingPool() {
  const stack = new Stack(anApp(), 'Shop');
  const bus = new EventBus(stack, 'Bus');
  return { stack, bus, pool: new JobPool(stack, 'Feeds', { poolName: 'feeds', events: bus }) };
}

function aSilentPool() {
  const stack = new Stack(anApp(), 'Shop');
  return { stack, pool: new JobPool(stack, 'Feeds', { poolName: 'feeds' }) };
}

const sourcesOf = (stack: Stack) =>
  Object.values(resourcesOf(stack, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => Properties);
const streamOf = (table: string) => ({ 'Fn::GetAtt': [table, 'StreamArn'] });

test('a pool that is given a bus, or has it taken away, keeps its tables, its queues and all else that it had', () => {
  const silent = resourcesOf(aSilentPool().stack);
  const telling = resourcesOf(aTellingPool().stack);
  const changed: string[] = [];
  for (const [id, resource] of Object.entries(silent)) {
    if (JSON.stringify(telling[id]) !== JSON.stringify(resource)) changed.push(id);
  }
  // Its tables get streams, and operators may look at one more dead-letter queue.
  const [jobs, workers] = Object.keys(resourcesOf(aSilentPool().stack, 'AWS::DynamoDB::Table'));
  const withoutHash = changed.map((id) => id.slice(0, -8));
  expect(withoutHash.toSorted()).toEqual(['FeedsJobs', 'FeedsOperatePolicy', 'FeedsWorkers']);
  for (const id of [jobs, workers] as string[]) {
    const { StreamSpecification: stream, ...rest } = telling[id]?.Properties ?? {};
    expect(stream).toEqual({ StreamViewType: 'NEW_AND_OLD_IMAGES' });
    expect({ ...telling[id], Properties: rest }).toEqual(silent[id]);
  }
});

test('without a bus there is no stream, no function and no queue for events, and so nothing to pay', () => {
  const { stack, pool } = aSilentPool();
  expect(JSON.stringify(Template.fromStack(stack).toJSON())).not.toMatch(/StreamSpecification|PutEvents|ListStreams|HOLDFAST_EVENT/);
  expect(Object.keys(pool.functions)).not.toContain('events');
  expect(Object.keys(pool.deadLetterQueues)).toEqual(['requests', 'reports']);
});

describe('what is written is told, and holds back nobody', () => {
  test('from the beginning of each stream, in order, what fails alone and for half of the time that the stream keeps it', () => {
    const { stack, pool } = aTellingPool();
    const [jobs, workers] = Object.keys(resourcesOf(stack, 'AWS::DynamoDB::Table')) as [string, string];
    const sources = sourcesOf(stack).filter(({ StartingPosition }) => StartingPosition !== undefined);
    expect(sources.map(({ EventSourceArn }) => EventSourceArn)).toEqual([streamOf(jobs), streamOf(workers)]);
    for (const source of sources) {
      expect(source).toMatchObject({
        StartingPosition: 'TRIM_HORIZON',
        FunctionResponseTypes: ['ReportBatchItemFailures'],
        BisectBatchOnFunctionError: true,
        MaximumRecordAgeInSeconds: 12 * 60 * 60,
        MaximumRetryAttempts: 10_000,
        DestinationConfig: { OnFailure: { Destination: stack.resolve(pool.deadLetterQueues.events?.queueArn) } },
      });
      // Per shard one batch at a time: more would need to keep the writes of a record together.
      expect(source.ParallelizationFactor).toBeUndefined();
    }
  });

  test('through filters that leave out what tells nothing, such as the heartbeats of every worker', () => {
    const { stack } = aTellingPool();
    const filters = sourcesOf(stack).flatMap(({ FilterCriteria }) => (FilterCriteria ? [FilterCriteria.Filters] : []));
    const patterns = filters.map((each) => each.map(({ Pattern }: { Pattern: string }) => JSON.parse(Pattern)));
    expect(patterns).toEqual([tellingWrites.jobs, tellingWrites.workers]);
  });

  test('the function finds the bus and its dead-letter queue, and time for a whole batch', () => {
    const { stack, bus, pool } = aTellingPool();
    const [id] = Object.keys(resourcesOf(stack, 'AWS::Lambda::Function')).filter((name) => name.startsWith('FeedsEvents'));
    const { Environment, Timeout } = resourcesOf(stack, 'AWS::Lambda::Function')[id as string]?.Properties ?? {};
    expect(Environment.Variables).toMatchObject({
      HOLDFAST_EVENT_BUS: stack.resolve(bus.eventBusArn),
      HOLDFAST_EVENT_DLQ_URL: stack.resolve(pool.deadLetterQueues.events?.queueUrl),
    });
    expect(Timeout).toBe(60);
  });

  test('what is given up, is told late or makes the function fail raises an alarm', () => {
    const { stack } = aTellingPool();
    const template = Template.fromStack(stack);
    const [queue] = Object.keys(resourcesOf(stack, 'AWS::SQS::Queue')).filter((id) => id.includes('EventDeadLetters'));
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'ApproximateNumberOfMessagesVisible',
      Dimensions: [{ Name: 'QueueName', Value: { 'Fn::GetAtt': [queue, 'QueueName'] } }],
      Threshold: 0,
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', { MetricName: 'IteratorAge', Threshold: 600_000, Statistic: 'Maximum' });
    template.resourcePropertiesCountIs('AWS::CloudWatch::Alarm', { MetricName: 'Errors' }, 5);
  });
});

test('the function may read the streams, publish on this bus, read the generation and put aside what it cannot tell, and no more', () => {
  const { stack, bus, pool } = aTellingPool();
  const [id] = Object.keys(resourcesOf(stack, 'AWS::IAM::Role')).filter((name) => name.startsWith('FeedsEventsRole'));
  const role = Object.fromEntries(Object.entries(resourcesOf(stack)).filter(([name]) => name === id));
  const [jobs, workers] = Object.keys(resourcesOf(stack, 'AWS::DynamoDB::Table')) as [string, string];
  const resourcesFor = (statement: Statement) => JSON.stringify(statement.Resource);
  const allowed = statementsOf(role).map((statement) => [actionsOf(statement), resourcesFor(statement)]);
  const arn = (value: string | undefined) => JSON.stringify(stack.resolve(value));
  expect(allowed).toEqual([
    [['dynamodb:GetItem'], arn(pool.jobsTable.tableArn)],
    [['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'], JSON.stringify([streamOf(jobs), streamOf(workers)])],
    [['dynamodb:ListStreams'], '"*"'],
    [['events:PutEvents'], arn(bus.eventBusArn)],
    [['sqs:SendMessage'], arn(pool.deadLetterQueues.events?.queueArn)],
    [['logs:CreateLogStream', 'logs:PutLogEvents'], expect.stringContaining('FeedsEventsLog')],
  ]);
  // Nothing that CDK's constructs would add by themselves.
  expect(Object.keys(resourcesOf(stack, 'AWS::IAM::Policy')).filter((name) => name.includes('Events'))).toEqual([]);
});

describe('a rule for the changes of jobs', () => {
  const ofFeeds = { source: ['holdfast'], 'detail-type': ['Holdfast Job Change'] };

  test('is on the bus of the pool, for this pool, and narrower where the pattern says so', () => {
    const { stack, bus, pool } = aTellingPool();
    const queue = new Queue(stack, 'Failures');
    const eventPattern = { detail: { to: ['ended'], why: ['failed'] } };
    pool.onJobChange('Failed', { eventPattern, target: new SqsQueue(queue), description: 'Failed feeds' });
    pool.onJobChange('Any');
    const template = Template.fromStack(stack);
    template.hasResourceProperties('AWS::Events::Rule', {
      EventBusName: stack.resolve(bus.eventBusName),
      EventPattern: { ...ofFeeds, detail: { pool: ['feeds'], to: ['ended'], why: ['failed'] } },
      Targets: [Match.objectLike({ Arn: stack.resolve(queue.queueArn) })],
      Description: 'Failed feeds',
    });
    template.hasResourceProperties('AWS::Events::Rule', {
      EventPattern: { ...ofFeeds, detail: { pool: ['feeds'] } },
      Targets: Match.absent(),
    });
  });

  test('of an imported pool is on the bus that is named with it', () => {
    const stack = new Stack(anApp(), 'Audit');
    const events = EventBus.fromEventBusName(stack, 'Bus', 'company');
    JobPool.fromPoolName(stack, 'Feeds', 'feeds', { events }).onJobChange('Any');
    Template.fromStack(stack).hasResourceProperties('AWS::Events::Rule', {
      EventBusName: 'company',
      EventPattern: Match.objectLike(ofFeeds),
    });
  });

  test('is refused where no bus is known, with what to do about it', () => {
    const stack = new Stack(anApp(), 'Shop');
    const fact = /Shop\/.*: it is not known on which bus the pool "feeds" tells its changes; give `events`/;
    expect(() => aSilentPool().pool.onJobChange('Any')).toThrow(fact);
    expect(() => JobPool.fromPoolName(stack, 'Imported', 'feeds').onJobChange('Any')).toThrow(fact);
  });
});
