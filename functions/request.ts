import middy from '@middy/core';
import type { SQSEvent } from 'aws-lambda';
import { variable } from '../lib/aws/config.ts';
import { required } from '../lib/aws/load-config.ts';
import { consumeRequest } from '../lib/pool/consume-request.ts';
import { config, consumeBatch, ports, settings } from './ports.ts';
import { observed } from './telemetry.ts';

const queues = {
  queueUrl: config.requestQueueUrl,
  deadLetterQueueUrl: required(process.env, variable.requestDeadLetterQueue),
};

/** Requests, in order per key. It alone assigns jobs, and it alone declares an owner lost. */
export const handler = middy((event: SQSEvent) => consumeBatch(event, (delivery) => consumeRequest(ports, settings, delivery), queues)).use(
  observed(),
);
