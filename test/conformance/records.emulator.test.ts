import { afterAll } from 'vitest';
import { dynamoDispatches } from '../../lib/aws/dynamo-dispatches.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { dynamoRecords } from '../../lib/aws/dynamo-records.ts';
import { dynamoRegistry } from '../../lib/aws/dynamo-workers.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { recordsConformance } from './records.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { jobsTable, workersTable, retentionMs } = pool.config;
const observer = await pool.clientsOf(['records']);
const { dynamo } = await pool.clientsOf(['jobs', 'dispatches', 'registry']);

recordsConformance('DynamoDB', () => ({
  records: dynamoRecords({ dynamo: observer.dynamo, jobsTable, workersTable, clock }),
  jobs: dynamoJobs({ dynamo, table: jobsTable, retentionMs, clock, ids }),
  dispatches: dynamoDispatches({ dynamo, table: jobsTable, clock, ids }),
  registry: dynamoRegistry({ dynamo, table: workersTable, ids }),
  clock,
  retentionMs,
}));
