import middy from '@middy/core';
import type { DynamoDBBatchResponse } from 'aws-lambda';
import { changeIn, type StreamRecord } from '../lib/aws/change-record.ts';
import { variable } from '../lib/aws/config.ts';
import { eventBridgeBus, eventBridgeClient } from '../lib/aws/eventbridge-bus.ts';
import { required } from '../lib/aws/load-config.ts';
import { streamBatch } from '../lib/aws/stream-source.ts';
import { systemIds as ids } from '../lib/aws/system.ts';
import { type Delivery, processBatch } from '../lib/pool/batch.ts';
import { tellChange } from '../lib/pool/tell-change.ts';
import { clients, config, ports } from './ports.ts';
import { observed, telemetry } from './telemetry.ts';

const options = { sqs: clients.sqs, ids, deadLetterQueueUrl: required(process.env, variable.eventDeadLetterQueue) };
const bus = eventBridgeBus({ eventBridge: eventBridgeClient(config), bus: required(process.env, variable.eventBus) });
const tellPorts = { ...ports, bus };

/** Tells on the pool's bus what was written to its tables, in order per record. */
export const handler = middy(async (event: { readonly Records: readonly StreamRecord[] }): Promise<DynamoDBBatchResponse> => {
  const { deliveries, source } = streamBatch(event.Records, options);
  const tell = async ({ body }: Delivery) => tellChange(tellPorts, config.poolName, changeIn(JSON.parse(body)));
  const failed = await processBatch(deliveries, tell, source, telemetry);
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}).use(observed());
