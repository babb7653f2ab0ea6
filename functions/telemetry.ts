import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import type { MiddlewareObj } from '@middy/core';
import type { Telemetry } from '../lib/pool/ports.ts';

/** Pool name (`service`) and namespace come from the environment that the construct sets. */
const logger = new Logger();
const metrics = new Metrics();

/** A line per decision, counts and gauges as embedded metrics in the same log. Keys and workers stand in lines, never in dimensions. */
export const telemetry: Telemetry = {
  decided: ({ decision, ...facts }) => logger.info(decision, facts),
  count: (name) => void metrics.addMetric(name, MetricUnit.Count, 1),
  gauge: (name, value) => void metrics.addMetric(name, name === 'pending-age' ? MetricUnit.Seconds : MetricUnit.Count, value),
  failed: ({ message: messageId, receiveCount, reason, error }) =>
    logger.warn(reason, { messageId, receiveCount, ...(error instanceof Error ? { error } : { thrown: String(error) }) }),
};

/** Names the invocation in each line, and writes the metrics once it ends, well or not. */
export function observed(): MiddlewareObj[] {
  return [injectLambdaContext(logger), { after: publish, onError: publish }];
}

function publish(): void {
  if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics();
}
