import { Dashboard, GraphWidget, type IMetric, type IWidget, MathExpression, Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Count, Gauge } from '../lib/pool/ports.ts';
import type { JobPool } from './job-pool.ts';

/** What the pool's functions count and measure, each a metric of the namespace `Holdfast`, with the pool's name as its only dimension (`service`). */
export type PoolMetric = Count | Gauge;

export const METRIC_NAMESPACE = 'Holdfast';

export function poolMetric(poolName: string, name: PoolMetric, options?: MetricOptions): Metric {
  const statistic = name in GAUGES ? 'Maximum' : 'Sum';
  return new Metric({ namespace: METRIC_NAMESPACE, metricName: name, dimensionsMap: { service: poolName }, statistic, ...options });
}

const GAUGES: Readonly<Record<Gauge, true>> = { running: true, pending: true, 'pending-age': true, recovering: true };

export function deadLettersMetric(queues: readonly IQueue[], options?: MetricOptions): IMetric {
  const waiting = queues.map((queue, index) => [
    `queue${index}`,
    queue.metricApproximateNumberOfMessagesVisible({ statistic: 'Maximum', ...options }),
  ]);
  return new MathExpression({
    expression: waiting.map(([name]) => name).join(' + '),
    usingMetrics: Object.fromEntries(waiting),
    label: options?.label ?? 'dead letters',
    ...(options?.period && { period: options.period }),
  });
}

export function dashboardWidgets(pool: JobPool): IWidget[] {
  const { requestQueue, reportQueue, functions } = pool;
  const graph = (title: string, left: IMetric[], right: IMetric[] = []) => new GraphWidget({ title, left, right, width: 12 });
  const each = Object.entries(functions);
  return [
    graph(
      `${pool.poolName}: jobs that run, jobs that wait and are due, and for how many seconds the oldest`,
      [pool.metricRunning({ label: 'running' }), pool.metricPending({ label: 'pending' })],
      [pool.metricPendingAge({ label: 'oldest pending' })],
    ),
    graph(
      `${pool.poolName}: messages waiting, and the oldest one's age`,
      [
        requestQueue.metricApproximateNumberOfMessagesVisible({ label: 'requests' }),
        reportQueue.metricApproximateNumberOfMessagesVisible({ label: 'reports' }),
      ],
      [
        requestQueue.metricApproximateAgeOfOldestMessage({ label: 'oldest request' }),
        reportQueue.metricApproximateAgeOfOldestMessage({ label: 'oldest report' }),
      ],
    ),
    graph(`${pool.poolName}: dead letters`, [pool.metricDeadLetters()]),
    graph(
      `${pool.poolName}: function time p99, and errors`,
      each.map(([label, fn]) => fn.metricDuration({ label, statistic: 'p99' })),
      each.map(([label, fn]) => fn.metricErrors({ label: `${label} errors`, statistic: 'Sum' })),
    ),
    graph(
      `${pool.poolName}: refused, lost, dropped`,
      NOTABLE.map((name) => pool.metric(name)),
    ),
  ];
}

const NOTABLE: readonly PoolMetric[] = ['request-refused', 'owner-lost', 'command-dropped', 'notify-dropped', 'dead-lettered'];

export function makeDashboard(pool: JobPool, name?: string): Dashboard {
  return new Dashboard(pool, 'Dashboard', {
    ...(name !== undefined && { dashboardName: name }),
    widgets: pool.dashboardWidgets().map((widget) => [widget]),
  });
}
