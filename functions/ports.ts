import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { awsClients } from '../lib/aws/clients.ts';
import { poolConfigSchema, variable } from '../lib/aws/config.ts';
import { loadPoolSettings, required } from '../lib/aws/load-config.ts';
import { poolPorts } from '../lib/aws/ports.ts';
import { sqsBatch } from '../lib/aws/sqs-source.ts';
import { systemIds as ids } from '../lib/aws/system.ts';
import { type Delivery, processBatch } from '../lib/pool/batch.ts';
import type { ResyncSettings } from '../lib/resync/run-round.ts';
import { telemetry } from './telemetry.ts';

/** Made once per cold start; a deployment that lacks something fails here, before it takes a message. */
export const config = poolConfigSchema.parse(JSON.parse(required(process.env, variable.poolConfig)));
export const settings = loadPoolSettings(process.env);
export const clients = awsClients(config);
export const ports = poolPorts(config, telemetry, clients);
/** For who looks at beats: rows as they are, and not as they were some seconds ago. */
export const freshPorts = poolPorts(config, telemetry, clients, { maxAgeMs: 0 });
export const resyncSettings: ResyncSettings = { leaseMs: config.leaseMs, roundTimeoutMs: config.leaseMs, maxSilentRounds: 3 };

/** Handles the records of one invocation, and answers which of them must stay on their queue. */
export async function consumeBatch(
  { Records: records }: SQSEvent,
  consume: (delivery: Delivery) => Promise<void>,
  queues: { readonly queueUrl: string; readonly deadLetterQueueUrl: string },
): Promise<SQSBatchResponse> {
  const { deliveries, source } = sqsBatch(records, { sqs: clients.sqs, ...queues, ids });
  const failed = await processBatch(deliveries, consume, source, telemetry);
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}
