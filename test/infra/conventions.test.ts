import { Stack, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterEach, expect, test, vi } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import { anApp, aPool } from './synthesised.ts';

afterEach(() => vi.unstubAllEnvs());

test("CloudFormation's own rules find nothing", () => {
  vi.stubEnv('CDK_VALIDATION', 'true');
  const app = anApp({ '@aws-cdk/core:validateAgainstDefaultRules': true });
  new JobPool(new Stack(app, 'Shop'), 'Feeds');
  expect(() => app.synth()).not.toThrow();
});

test('the AWS Solutions rules find nothing but the wildcard that inboxes need', () => {
  const { app, pool } = aPool({ poolName: 'feeds' });
  const id = 'AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:holdfast-feeds_*]';
  const reason = 'Each worker session has an inbox of its own, made at run time under a prefix that no other pool can have';
  for (const name of ['RequestRole', 'ReportRole', 'WorkPolicy']) Validations.of(pool.node.findChild(name)).acknowledge({ id, reason });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  expect(() => app.synth()).not.toThrow();
});
