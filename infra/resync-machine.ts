import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { PolicyDocument, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFn } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  Choice,
  Condition,
  DefinitionBody,
  IntegrationPattern,
  JsonPath,
  LogLevel,
  StateMachine,
  StateMachineType,
  Succeed,
  TaskInput,
  Timeout,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import type { Construct } from 'constructs';
import { allow } from './permissions.ts';
import { machineName } from './resources.ts';

/**
 * Times one worker's resync rounds. It carries ids and counts, never jobs, and decides nothing: each step answers which one is next
 * (`Step` in `lib/resync/run-round.ts`).
 *
 *     open ──► arm (waits for the answer) ──► done
 *      ▲        ├─ fails ─► wait ─┐
 *      │        └─ time is up ────┴─► expire ──► again: open │ behind: wait, expire │ lost: reassign │ revoked: wait a lease, lose, reassign
 *      └──────── gone ──────────┘
 *
 * Standard, because it waits, and because a name is started once. A step that fails is tried again; where an execution fails all
 * the same, the sweep starts another.
 */
export function makeResyncMachine(scope: Construct, poolName: string, lease: Duration, resync: LambdaFn): StateMachine {
  const subject = { 'worker.$': '$.worker', 'session.$': '$.session' };
  const step = (id: string, payload: Record<string, unknown>) =>
    retried(
      new LambdaInvoke(scope, id, {
        lambdaFunction: resync,
        payload: TaskInput.fromObject(payload),
        payloadResponseOnly: true,
        resultPath: '$.step',
        retryOnServiceExceptions: false,
      }),
    );
  const open = step('Open', { task: 'open', ...subject, 'silence.$': '$.step.silence' });
  const expire = step('Expire', {
    task: 'expire',
    'token.$': '$.step.token',
    'silence.$': '$.step.silence',
    waitedSeconds: lease.toSeconds(),
  });
  const lose = step('Lose', { task: 'lose', ...subject });
  const reassign = step('Reassign', { task: 'reassign', ...subject, 'step.$': '$.step' });
  const arm = retried(
    new LambdaInvoke(scope, 'Arm', {
      lambdaFunction: resync,
      integrationPattern: IntegrationPattern.WAIT_FOR_TASK_TOKEN,
      payload: TaskInput.fromObject({ task: 'arm', 'token.$': '$.step.token', taskToken: JsonPath.taskToken }),
      taskTimeout: Timeout.duration(lease),
      resultPath: '$.woken',
      retryOnServiceExceptions: false,
    }),
  );
  const behind = new Wait(scope, 'Behind', { time: WaitTime.duration(lease) });
  const wait = new Wait(scope, 'WaitLease', { time: WaitTime.secondsPath('$.step.waitSeconds') });
  const later = new Wait(scope, 'BetweenWalks', { time: WaitTime.secondsPath('$.step.afterSeconds') });
  const done = new Succeed(scope, 'Done');

  const next = new Choice(scope, 'Next')
    .when(Condition.stringEquals('$.step.next', 'arm'), arm)
    .when(Condition.stringEquals('$.step.next', 'open'), open)
    .when(Condition.stringEquals('$.step.next', 'behind'), behind)
    .when(Condition.stringEquals('$.step.next', 'wait'), wait)
    .when(Condition.stringEquals('$.step.next', 'reassign'), later)
    .otherwise(done);
  for (const each of [open, expire, lose, reassign]) each.next(next);
  arm.addCatch(expire, { errors: ['States.Timeout'], resultPath: '$.timeout' });
  // Nobody could ask: a lease is waited for all the same, for a worker that does not beat in that time is dead.
  arm.addCatch(behind, { errors: ['States.ALL'], resultPath: '$.failure' });
  arm.next(new Choice(scope, 'Woken').when(Condition.stringEquals('$.woken.result', 'gone'), open).otherwise(done));
  behind.next(expire);
  wait.next(lose);
  later.next(reassign);

  const name = machineName(poolName);
  const logGroup = new LogGroup(scope, 'ResyncMachineLog', {
    // Who may write to a log group is one short document for the whole account, in which this prefix stands once.
    logGroupName: `/aws/vendedlogs/states/${name}`,
    retention: RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new Role(scope, 'ResyncMachineRole', {
    assumedBy: new ServicePrincipal('states.amazonaws.com'),
    inlinePolicies: {
      resync: new PolicyDocument({ statements: [allow(['lambda:InvokeFunction'], resync.functionArn), allow(deliverLogs, '*')] }),
    },
  });
  return new StateMachine(scope, 'ResyncMachine', {
    stateMachineName: name,
    stateMachineType: StateMachineType.STANDARD,
    definitionBody: DefinitionBody.fromChainable(open),
    // As it is: CDK would add every version of the function.
    role: role.withoutPolicyUpdates(),
    // No data: input holds worker ids, which belong to the pool's own log.
    logs: { destination: logGroup, level: LogLevel.ALL, includeExecutionData: false },
    // Far longer than any round; an execution that lasts so long is stuck.
    timeout: Duration.days(1),
  });
}

/** What it takes to write to a log; the service knows no narrower resource for any of it. */
const deliverLogs = [
  'logs:CreateLogDelivery',
  'logs:DeleteLogDelivery',
  'logs:DescribeLogGroups',
  'logs:DescribeResourcePolicies',
  'logs:GetLogDelivery',
  'logs:ListLogDeliveries',
  'logs:PutResourcePolicy',
  'logs:UpdateLogDelivery',
] as const;

function retried(task: LambdaInvoke): LambdaInvoke {
  task.addRetry({ errors: ['States.TaskFailed'], interval: Duration.seconds(2), backoffRate: 2, maxAttempts: 3 });
  return task;
}
