import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, test } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import { poolConfigSchema, poolSettingsSchema } from '../../lib/aws/config.ts';
import { LAST_RECEIVE } from '../../lib/pool/batch.ts';
import { FUNCTION_MS } from '../../lib/resync/decide-recover.ts';
import { actionsOf, anApp, aPool, resourcesOf, statementsOf } from './synthesised.ts';

describe('nothing is lost', () => {
  test('an upgrade never replaces a table or a queue: their logical ids are these', () => {
    const { stack } = aPool();
    const ids = [...Object.keys(resourcesOf(stack, 'AWS::DynamoDB::Table')), ...Object.keys(resourcesOf(stack, 'AWS::SQS::Queue'))];
    expect(ids.toSorted()).toEqual([
      'FeedsJobsC6EE174F',
      'FeedsReportDeadLettersE39C12E0',
      'FeedsReportsB287D2CE',
      'FeedsRequestDeadLetters511E26DB',
      'FeedsRequests89CC67FC',
      'FeedsWorkers5553F690',
    ]);
  });

  test('tables outlive the stack, cannot be deleted by mistake and can be restored to any second', () => {
    const tables = Object.values(resourcesOf(aPool().stack, 'AWS::DynamoDB::Table'));
    expect(tables).toHaveLength(2);
    for (const { DeletionPolicy, UpdateReplacePolicy, Properties } of tables) {
      expect([DeletionPolicy, UpdateReplacePolicy]).toEqual(['Retain', 'Retain']);
      expect(Properties.DeletionProtectionEnabled).toBe(true);
      expect(Properties.PointInTimeRecoverySpecification).toEqual({ PointInTimeRecoveryEnabled: true });
      expect(Properties.TableName).toBeUndefined();
    }
  });

  test('a pool that is thrown away takes its tables along', () => {
    for (const { DeletionPolicy, Properties } of Object.values(
      resourcesOf(aPool({ removalPolicy: RemovalPolicy.DESTROY }).stack, 'AWS::DynamoDB::Table'),
    )) {
      expect(DeletionPolicy).toBe('Delete');
      expect(Properties.DeletionProtectionEnabled).toBe(false);
    }
  });

  test('a failed message comes back alone, and its healthy batch neighbours do not (F15)', () => {
    const sources = Object.values(resourcesOf(aPool().stack, 'AWS::Lambda::EventSourceMapping'));
    expect(sources).toHaveLength(2);
    for (const { Properties } of sources) expect(Properties.FunctionResponseTypes).toEqual(['ReportBatchItemFailures']);
  });

  test('no event filter deletes messages unseen (F48)', () => {
    for (const { Properties } of Object.values(resourcesOf(aPool().stack, 'AWS::Lambda::EventSourceMapping'))) {
      expect(Properties).not.toHaveProperty('FilterCriteria');
    }
  });

  test('no throttled function costs a message its receives: the source is limited, and not the function (F19)', () => {
    const { stack } = aPool({ maxConcurrency: 7 });
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::Lambda::Function'))) {
      expect(Properties).not.toHaveProperty('ReservedConcurrentExecutions');
    }
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::Lambda::EventSourceMapping'))) {
      expect(Properties.ScalingConfig.MaximumConcurrency).toBe(7);
    }
  });

  test('a message does not come again while its batch is still being handled (F1)', () => {
    const { stack } = aPool();
    const functions = resourcesOf(stack, 'AWS::Lambda::Function');
    const queues = resourcesOf(stack, 'AWS::SQS::Queue');
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::Lambda::EventSourceMapping'))) {
      const timeout = functions[Properties.FunctionName.Ref]?.Properties.Timeout;
      const visibility = queues[Properties.EventSourceArn['Fn::GetAtt'][0]]?.Properties.VisibilityTimeout;
      expect(visibility).toBeGreaterThanOrEqual(6 * timeout);
    }
  });

  test('whoever sends starts is over by the time that a recovery waits for it', () => {
    const { stack } = aPool();
    const functions = resourcesOf(stack, 'AWS::Lambda::Function');
    const sources = Object.values(resourcesOf(stack, 'AWS::Lambda::EventSourceMapping'));
    expect(sources).toHaveLength(2);
    for (const { Properties } of sources) {
      const timeout = functions[Properties.FunctionName.Ref]?.Properties.Timeout;
      expect(timeout * 1_000).toBeLessThanOrEqual(FUNCTION_MS);
    }
  });

  test('a message that cannot be handled is kept for 14 days, and SQS takes it no sooner than the function would (F19)', () => {
    const queues = resourcesOf(aPool().stack, 'AWS::SQS::Queue');
    const redrives = Object.values(queues).flatMap(({ Properties }) => Properties.RedrivePolicy ?? []);
    expect(redrives).toHaveLength(2);
    for (const { deadLetterTargetArn, maxReceiveCount } of redrives) {
      expect(maxReceiveCount).toBe(LAST_RECEIVE);
      expect(queues[deadLetterTargetArn['Fn::GetAtt'][0]]?.Properties.MessageRetentionPeriod).toBe(14 * 24 * 60 * 60);
    }
  });

  test('dead letters, failing functions and rounds, lost workers, jobs that wait and a silent sweep raise an alarm', () => {
    const { stack } = aPool();
    const topic = new Topic(stack, 'Oncall');
    new JobPool(stack, 'Loud', { alarms: { type: 'on', action: new SnsAction(topic) } });
    const template = Template.fromStack(stack);
    for (const queue of Object.keys(resourcesOf(stack, 'AWS::SQS::Queue')).filter((id) => id.includes('DeadLetters'))) {
      template.hasResourceProperties('AWS::CloudWatch::Alarm', {
        MetricName: 'ApproximateNumberOfMessagesVisible',
        Dimensions: [{ Name: 'QueueName', Value: { 'Fn::GetAtt': [queue, 'QueueName'] } }],
        Threshold: 0,
        ComparisonOperator: 'GreaterThanThreshold',
      });
    }
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'Invocations',
      Threshold: 1,
      ComparisonOperator: 'LessThanThreshold',
      TreatMissingData: 'breaching',
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'ExecutionsFailed',
      Threshold: 0,
      ComparisonOperator: 'GreaterThanThreshold',
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'worker-lost',
      Threshold: 0,
      ComparisonOperator: 'GreaterThanThreshold',
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'pending-age',
      Statistic: 'Maximum',
      Threshold: 300,
      ComparisonOperator: 'GreaterThanThreshold',
      TreatMissingData: 'notBreaching',
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      MetricName: 'recovering',
      Statistic: 'Maximum',
      Threshold: 0,
      ComparisonOperator: 'GreaterThanThreshold',
      Period: 300,
      EvaluationPeriods: 6,
      TreatMissingData: 'notBreaching',
    });
    // Of four functions, in each of two pools.
    template.resourcePropertiesCountIs('AWS::CloudWatch::Alarm', { MetricName: 'Errors' }, 8);
    const { length: all } = Object.keys(template.findResources('AWS::CloudWatch::Alarm'));
    template.resourcePropertiesCountIs('AWS::CloudWatch::Alarm', { AlarmActions: Match.anyValue() }, all / 2);
  });

  test('alarms can be switched off', () => {
    const { pool, stack } = aPool({ alarms: { type: 'off' } });
    expect(pool.alarms).toEqual([]);
    expect(resourcesOf(stack, 'AWS::CloudWatch::Alarm')).toEqual({});
  });
});

describe('nobody gets in', () => {
  test('no statement allows an action by wildcard', () => {
    const { stack } = aPool();
    const allowed = statementsOf(resourcesOf(stack)).filter(({ Effect }) => Effect === 'Allow');
    expect(allowed.length).toBeGreaterThan(20);
    expect(allowed.flatMap(actionsOf).filter((action) => action.includes('*'))).toEqual([]);
  });

  test('the only resource named by wildcard is the inboxes, by the name of this pool up to its end', () => {
    const { stack } = aPool({ poolName: 'feeds' });
    const resources = statementsOf(resourcesOf(stack))
      .filter(({ Effect, Resource }) => Effect === 'Allow' && JSON.stringify(Resource ?? '').includes('*'))
      .flatMap(({ Resource }) => (Array.isArray(Resource) ? Resource : [Resource]))
      .filter((resource) => JSON.stringify(resource).includes('*') && resource !== '*')
      .map((resource) => resource['Fn::Join'][1].at(-1));
    expect(new Set(resources)).toEqual(new Set([':holdfast-feeds_*']));
  });

  test('no action is allowed on everything but those for which the service knows nothing narrower', () => {
    const { stack } = aPool();
    const onEverything = statementsOf(resourcesOf(stack)).filter(({ Effect, Resource }) => Effect === 'Allow' && Resource === '*');
    const actions = new Set(onEverything.flatMap(actionsOf));
    expect([...actions].filter((action) => !action.startsWith('logs:')).toSorted()).toEqual(['sqs:ListQueues', 'states:SendTaskSuccess']);
    const logging = [...actions].filter((action) => action.startsWith('logs:'));
    expect(logging.filter((action) => !/LogDeliver|ResourcePolic|DescribeLogGroups/.test(action))).toEqual([]);
  });

  test('no role holds a policy that AWS wrote', () => {
    const { stack } = aPool();
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::IAM::Role'))) expect(Properties.ManagedPolicyArns).toBeUndefined();
  });

  test('queues refuse plain http, and are encrypted', () => {
    const { stack } = aPool();
    const queues = resourcesOf(stack, 'AWS::SQS::Queue');
    for (const { Properties } of Object.values(queues)) expect(Properties.SqsManagedSseEnabled).toBe(true);
    const refusing = Object.values(resourcesOf(stack, 'AWS::SQS::QueuePolicy')).filter(({ Properties }) =>
      Properties.PolicyDocument.Statement.some(
        ({ Effect, Condition }: { Effect: string; Condition?: { Bool?: Record<string, string> } }) =>
          Effect === 'Deny' && Condition?.Bool?.['aws:SecureTransport'] === 'false',
      ),
    );
    const covered = refusing.flatMap(({ Properties }) => Properties.Queues).map(({ Ref }) => Ref);
    expect(covered.toSorted()).toEqual(Object.keys(queues).toSorted());
  });
});

describe('what processes find', () => {
  /** The JSON text of the parameter or variable, with each reference to another resource as `<id>`. */
  function text(value: string | { 'Fn::Join': [string, readonly (string | object)[]] }): string {
    if (typeof value === 'string') return value;
    const [separator, parts] = value['Fn::Join'];
    return parts.map((part) => (typeof part === 'string' ? part : `<${Object.values(part).flat().join('.')}>`)).join(separator);
  }

  test('the parameter and the functions hold the same configuration, as its reader wants it', () => {
    const { stack, pool } = aPool({ poolName: 'feeds', lease: Duration.seconds(12), retention: Duration.days(60) });
    const [parameter] = Object.values(resourcesOf(stack, 'AWS::SSM::Parameter'));
    expect(parameter?.Properties.Name).toBe('/holdfast/feeds/config');
    const config = poolConfigSchema.parse(JSON.parse(text(parameter?.Properties.Value)));
    const ref = (construct: { node: { defaultChild?: unknown } }) =>
      stack.resolve((construct.node.defaultChild as { ref: string }).ref).Ref;
    expect(config).toEqual({
      v: 1,
      poolName: 'feeds',
      region: '<AWS::Region>',
      requestQueueUrl: `<${ref(pool.requestQueue)}>`,
      reportQueueUrl: `<${ref(pool.reportQueue)}>`,
      resyncMachineArn: 'arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:stateMachine:holdfast-feeds-resync',
      jobsTable: `<${ref(pool.jobsTable)}>`,
      workersTable: `<${ref(pool.workersTable)}>`,
      leaseMs: 12_000,
      retentionMs: 60 * 24 * 60 * 60 * 1_000,
    });
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::Lambda::Function'))) {
      expect(Properties.Environment.Variables.HOLDFAST_POOL_CONFIG).toEqual(parameter?.Properties.Value);
    }
  });

  test('the restart policy and the retention reach the functions', () => {
    const { stack } = aPool({
      restart: { type: 'on-failure', maxAttempts: 7, backoff: Duration.seconds(2) },
      retention: Duration.days(60),
    });
    for (const { Properties } of Object.values(resourcesOf(stack, 'AWS::Lambda::Function'))) {
      const settings = poolSettingsSchema.parse(JSON.parse(text(Properties.Environment.Variables.HOLDFAST_POOL_SETTINGS)));
      expect(settings.restart).toEqual({ type: 'on-failure', maxAttempts: 7, backoffMs: 2_000 });
      expect(settings.retentionMs).toBe(60 * 24 * 60 * 60 * 1_000);
    }
  });

  test('functions run on Node 24 and arm64, and their logs end', () => {
    const { stack } = aPool();
    const functions = Object.values(resourcesOf(stack, 'AWS::Lambda::Function'));
    expect(functions).toHaveLength(4);
    for (const { Properties } of functions) {
      expect([Properties.Runtime, Properties.Architectures]).toEqual(['nodejs24.x', ['arm64']]);
      const log = resourcesOf(stack, 'AWS::Logs::LogGroup')[Properties.LoggingConfig.LogGroup.Ref];
      expect(log?.Properties.RetentionInDays).toBeGreaterThan(0);
    }
  });

  test('the sweep runs every minute', () => {
    const { stack, pool } = aPool();
    Template.fromStack(stack).hasResourceProperties('AWS::Events::Rule', {
      ScheduleExpression: 'rate(1 minute)',
      Targets: [Match.objectLike({ Arn: stack.resolve(pool.functions.sweep.functionArn) })],
    });
  });
});

test('several pools live in one stack, each with names of its own', () => {
  const stack = new Stack(anApp(), 'Shop');
  new JobPool(stack, 'Feeds');
  new JobPool(stack, 'Orders');
  const names = Object.values(resourcesOf(stack, 'AWS::SSM::Parameter')).map(({ Properties }) => Properties.Name);
  expect(names).toEqual(['/holdfast/shop-feeds/config', '/holdfast/shop-orders/config']);
});

test('what the pool counts and measures is to be had as metrics, under its name and no other dimension', () => {
  const { pool } = aPool({ poolName: 'feeds' });
  expect(pool.metric('owner-lost').toMetricConfig().metricStat).toMatchObject({
    namespace: 'Holdfast',
    metricName: 'owner-lost',
    dimensions: [{ name: 'service', value: 'feeds' }],
    statistic: 'Sum',
  });
  expect(pool.metricWorkersLost()).toEqual(pool.metric('worker-lost'));
  const gauges = [pool.metricRunning(), pool.metricPending(), pool.metricPendingAge()];
  const named = ['running', 'pending', 'pending-age'].map((metricName) => ({
    metricName,
    statistic: 'Maximum',
    dimensions: { service: 'feeds' },
  }));
  expect(gauges).toMatchObject(named);
});

test('a dashboard, which costs money, is there only where it is asked for', () => {
  expect(resourcesOf(aPool().stack, 'AWS::CloudWatch::Dashboard')).toEqual({});
  const { stack, pool } = aPool();
  pool.addDashboard('feeds');
  const [dashboard] = Object.values(resourcesOf(stack, 'AWS::CloudWatch::Dashboard'));
  expect(dashboard?.Properties.DashboardName).toBe('feeds');
  expect(JSON.stringify(dashboard?.Properties.DashboardBody)).toContain('owner-lost');
});
