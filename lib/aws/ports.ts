import type { ClientPorts } from '../client/ports.ts';
import type { Telemetry } from '../pool/ports.ts';
import type { ResyncPorts } from '../resync/ports.ts';
import type { WorkerPorts } from '../worker/ports.ts';
import { type AwsClients, awsClients } from './clients.ts';
import type { PoolConfig } from './config.ts';
import { dynamoDispatches } from './dynamo-dispatches.ts';
import { dynamoJobs } from './dynamo-jobs.ts';
import { dynamoPool, ownedKeysOfAll } from './dynamo-pool.ts';
import { dynamoRecords } from './dynamo-records.ts';
import { dynamoRestores } from './dynamo-restores.ts';
import { dynamoRounds } from './dynamo-rounds.ts';
import { dynamoRegistry, dynamoWorkers } from './dynamo-workers.ts';
import { sfnMachine } from './sfn-machine.ts';
import { sqsGauges } from './sqs-gauges.ts';
import { sqsCommands, sqsInboxes, sqsInboxKeeper } from './sqs-inboxes.ts';
import { sqsReports } from './sqs-reports.ts';
import { sqsRequestBatches, sqsRequests } from './sqs-requests.ts';
import { systemClock as clock, systemIds as ids, systemTimer as timer } from './system.ts';

/** What the functions work with. Make it once: it remembers workers and pool state for `maxAgeMs`, default 5 000. */
export function poolPorts(
  config: PoolConfig,
  telemetry: Telemetry,
  { dynamo, sqs, sfn }: AwsClients = awsClients(config),
  { maxAgeMs }: { readonly maxAgeMs?: number } = {},
): ResyncPorts {
  const { jobsTable, workersTable, retentionMs, requestQueueUrl, resyncMachineArn } = config;
  return {
    jobs: dynamoJobs({ dynamo, table: jobsTable, retentionMs, clock, ids }),
    dispatches: dynamoDispatches({ dynamo, table: jobsTable, clock, ids }),
    workers: dynamoWorkers({ dynamo, workersTable, jobsTable, clock, ids, ...(maxAgeMs === undefined ? {} : { maxAgeMs }) }),
    commands: sqsCommands({ sqs, place: config, ids }),
    requests: sqsRequests({ sqs, queueUrl: requestQueueUrl, ids }),
    inboxes: sqsInboxKeeper({ sqs, place: config }),
    rounds: dynamoRounds({ dynamo, table: jobsTable }),
    restores: dynamoRestores({ dynamo, jobsTable, workersTable, retentionMs, clock, ids }),
    machine: sfnMachine({ sfn, stateMachineArn: resyncMachineArn }),
    ids,
    clock,
    telemetry,
  };
}

/** What a worker process works with. */
export function workerPorts(config: PoolConfig, { dynamo, sqs }: AwsClients = awsClients(config)): WorkerPorts {
  return {
    registry: dynamoRegistry({ dynamo, table: config.workersTable, ids }),
    inboxes: sqsInboxes({ sqs, place: config, timer, ids }),
    reports: sqsReports({ sqs, queueUrl: config.reportQueueUrl }),
    clock,
    timer,
    ids,
  };
}

/** What a client process works with. */
export function clientPorts(config: PoolConfig, { dynamo, sqs, sfn }: AwsClients = awsClients(config)): ClientPorts {
  const { jobsTable, workersTable, retentionMs, leaseMs, requestQueueUrl, resyncMachineArn } = config;
  return {
    requests: sqsRequestBatches({ sqs, queueUrl: requestQueueUrl, ids }),
    records: dynamoRecords({ dynamo, jobsTable, workersTable, clock }),
    operate: {
      workers: dynamoWorkers({ dynamo, workersTable, jobsTable, clock, ids }),
      rounds: dynamoRounds({ dynamo, table: jobsTable }),
      machine: sfnMachine({ sfn, stateMachineArn: resyncMachineArn }),
      pool: dynamoPool({ dynamo, table: jobsTable, ids }),
      gauges: sqsGauges({ sqs, config }),
      owned: (cursor) => ownedKeysOfAll(dynamo, jobsTable, cursor),
      restores: dynamoRestores({ dynamo, jobsTable, workersTable, retentionMs, clock, ids }),
      leaseMs,
    },
    clock,
    timer,
    ids,
  };
}
