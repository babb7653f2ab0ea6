import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, type IAlarmAction, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { PoolFunctions } from './functions.ts';
import { poolMetric } from './metrics.ts';
import type { PoolResources } from './resources.ts';

/** What somebody has to look at; each says what it means and where to look. */
export function makeAlarms(
  scope: Construct,
  poolName: string,
  pool: PoolResources,
  { functions, resyncMachine }: { readonly functions: PoolFunctions; readonly resyncMachine: StateMachine },
  action?: IAlarmAction,
): readonly Alarm[] {
  const deadLetters = (id: string, queue: IQueue, what: string) =>
    new Alarm(scope, id, {
      alarmDescription: `Holdfast pool ${poolName}: ${what} that could not be handled wait in the dead-letter queue, each with its reason.`,
      // Visible messages, because a message that SQS moves there itself never counts as sent.
      metric: queue.metricApproximateNumberOfMessagesVisible({ period: Duration.minutes(1), statistic: 'Maximum' }),
      threshold: 0,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  const failing = Object.entries(functions).map(
    ([name, fn]) =>
      new Alarm(scope, `${name.charAt(0).toUpperCase()}${name.slice(1)}Failing`, {
        alarmDescription: `Holdfast pool ${poolName}: the ${name} function fails again and again; its log says why.`,
        metric: fn.metricErrors({ period: Duration.minutes(1), statistic: 'Sum' }),
        threshold: 0,
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluationPeriods: 5,
        datapointsToAlarm: 3,
        treatMissingData: TreatMissingData.NOT_BREACHING,
      }),
  );
  // Where the bus refuses events one by one, the function does not fail: what it could not tell comes again, and gets older.
  const late = (events: IFunction) =>
    new Alarm(scope, 'EventsLate', {
      alarmDescription: `Holdfast pool ${poolName}: changes are told 10 minutes late or later; the log of the events function says why.`,
      metric: events.metric('IteratorAge', { period: Duration.minutes(1), statistic: 'Maximum' }),
      threshold: Duration.minutes(10).toMilliseconds(),
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  const alarms = [
    deadLetters('DeadRequestsWaiting', pool.requestDeadLetters, 'requests'),
    deadLetters('DeadReportsWaiting', pool.reportDeadLetters, 'reports'),
    new Alarm(scope, 'SweepSilent', {
      alarmDescription: `Holdfast pool ${poolName}: no sweep for 5 minutes, so waiting jobs are not placed.`,
      metric: functions.sweep.metricInvocations({ period: Duration.minutes(5), statistic: 'Sum' }),
      threshold: 1,
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.BREACHING,
    }),
    new Alarm(scope, 'RoundsFailing', {
      alarmDescription: `Holdfast pool ${poolName}: executions of the resync state machine fail; silent workers may not be given up on.`,
      metric: resyncMachine.metricFailed({ period: Duration.minutes(5), statistic: 'Sum' }),
      threshold: 0,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    }),
    new Alarm(scope, 'WorkersLost', {
      alarmDescription: `Holdfast pool ${poolName}: a worker fell silent for a full lease; its jobs run elsewhere now.`,
      metric: poolMetric(poolName, 'worker-lost', { period: Duration.minutes(5) }),
      threshold: 0,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    }),
    new Alarm(scope, 'JobsWaiting', {
      alarmDescription: `Holdfast pool ${poolName}: a job has been due for 5 minutes and no worker is given it; mostly none has room.`,
      // Measured once a minute, at the end of a run: of single minutes some have no value.
      metric: poolMetric(poolName, 'pending-age', { period: Duration.minutes(5) }),
      threshold: Duration.minutes(5).toSeconds(),
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    }),
    new Alarm(scope, 'RecoveryUnfinished', {
      alarmDescription: `Holdfast pool ${poolName}: it has been recovering for 30 minutes and assigns nothing; whoever called recover() may have died, and another call goes on.`,
      metric: poolMetric(poolName, 'recovering', { period: Duration.minutes(5) }),
      threshold: 0,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 6,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    }),
    ...failing,
    ...(pool.eventDeadLetters ? [deadLetters('DeadEventsWaiting', pool.eventDeadLetters, 'changes')] : []),
    ...(functions.events ? [late(functions.events)] : []),
  ];
  if (action) for (const alarm of alarms) alarm.addAlarmAction(action);
  return alarms;
}
