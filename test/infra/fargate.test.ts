import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Cluster, ContainerImage, FargateService, FargateTaskDefinition, LogDrivers } from 'aws-cdk-lib/aws-ecs';
import { expect, test } from 'vitest';
import { aPool, resourcesOf } from './synthesised.ts';

test('workers on Fargate hold the grant to work, find the pool, and have time to hand their jobs back', () => {
  const { app, pool } = aPool({ poolName: 'feeds' });
  const stack = new Stack(app, 'Workers');
  const cluster = new Cluster(stack, 'Cluster', { vpc: new Vpc(stack, 'Vpc', { natGateways: 0 }) });
  const task = new FargateTaskDefinition(stack, 'Worker', { cpu: 512, memoryLimitMiB: 1_024 });
  task.addContainer('worker', {
    image: ContainerImage.fromRegistry('public.ecr.aws/docker/library/node:24-slim'),
    command: ['node', 'worker.js'],
    environment: { ...pool.environment, HOLDFAST_CAPACITY: '200', HOLDFAST_HEALTH_PORT: '8080' },
    stopTimeout: Duration.seconds(30),
    healthCheck: { command: ['CMD', 'node', '-e', "fetch('http://localhost:8080/livez').then(r => process.exit(r.ok ? 0 : 1))"] },
    logging: LogDrivers.awsLogs({ streamPrefix: 'feeds' }),
  });
  pool.grantWork(task.taskRole);
  new FargateService(stack, 'Service', { cluster, taskDefinition: task, desiredCount: 3, minHealthyPercent: 100 });

  const [definition] = Object.values(resourcesOf(stack, 'AWS::ECS::TaskDefinition'));
  const container = definition?.Properties.ContainerDefinitions[0];
  expect(container.Environment).toContainEqual({ Name: 'HOLDFAST_POOL', Value: 'feeds' });
  expect(container.StopTimeout).toBeGreaterThanOrEqual(25 + 5);
  const role = resourcesOf(stack, 'AWS::IAM::Role')[definition?.Properties.TaskRoleArn['Fn::GetAtt'][0]];
  expect(role?.Properties.ManagedPolicyArns).toEqual([{ 'Fn::ImportValue': expect.stringContaining('FeedsWorkPolicy') }]);
  Template.fromStack(stack).hasResourceProperties('AWS::ECS::Service', {
    DesiredCount: 3,
    DeploymentConfiguration: { MinimumHealthyPercent: 100 },
  });
});
