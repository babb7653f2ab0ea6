import { Stack, Validations } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterEach, expect, test, vi } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import { anApp } from './synthesised.ts';

afterEach(() => vi.unstubAllEnvs());

test("CloudFormation's own rules find nothing", () => {
  vi.stubEnv('CDK_VALIDATION', 'true');
  const app = anApp({ '@aws-cdk/core:validateAgainstDefaultRules': true });
  const stack = new Stack(app, 'Shop');
  new JobPool(stack, 'Feeds', { events: EventBus.fromEventBusName(stack, 'Bus', 'default') });
  expect(() => app.synth()).not.toThrow();
});

test('the AWS Solutions rules find nothing but what a reason is given for here', () => {
  const app = anApp();
  const stack = new Stack(app, 'Shop');
  const pool = new JobPool(stack, 'Feeds', { poolName: 'feeds', events: EventBus.fromEventBusName(stack, 'Bus', 'default') });
  const acknowledge = (id: string, reason: string, ...names: string[]) => {
    for (const name of names) Validations.of(pool.node.findChild(name)).acknowledge({ id: `AwsSolutions-${id}`, reason });
  };
  acknowledge(
    'IAM5[Resource::arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:holdfast-feeds_*]',
    'Each worker session has an inbox of its own, made at run time under a prefix that no other pool can have',
    ...['RequestRole', 'ReportRole', 'SweepRole', 'ResyncRole', 'WorkPolicy', 'OperatePolicy'],
  );
  acknowledge(
    'IAM5[Resource::*]',
    'To list queues and streams, to wake an execution by its task token and to write to a log: the services know no narrower resource',
    ...['ReportRole', 'SweepRole', 'ResyncRole', 'EventsRole', 'ResyncMachineRole'],
  );
  acknowledge('SQS3', 'It is a dead-letter queue: that of the streams, where the rule does not look', 'EventDeadLetters');
  acknowledge('SF2', 'Its log has every event, and the records who decided what; nobody is made to pay for traces', 'ResyncMachine');
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  expect(() => app.synth()).not.toThrow();
});
