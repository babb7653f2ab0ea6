import middy from '@middy/core';
import type { SQSEvent } from 'aws-lambda';
import { variable } from '../lib/aws/config.ts';
import { required } from '../lib/aws/load-config.ts';
import { consumeReport } from '../lib/resync/consume-report.ts';
import { config, consumeBatch, ports, settings } from './ports.ts';
import { observed } from './telemetry.ts';

const queues = {
  queueUrl: config.reportQueueUrl,
  deadLetterQueueUrl: required(process.env, variable.reportDeadLetterQueue),
};

/** What workers say, in any order and any number of times. */
export const handler = middy((event: SQSEvent) => consumeBatch(event, (delivery) => consumeReport(ports, settings, delivery), queues)).use(
  observed(),
);
