import { afterAll } from 'vitest';
import { dynamoDispatches } from '../../lib/aws/dynamo-dispatches.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { jobStoreConformance } from './job-store.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { dynamo } = await pool.clientsOf(['jobs']);
const { jobsTable: table, retentionMs } = pool.config;
const others = await pool.clientsOf(['dispatches']);
const dispatches = dynamoDispatches({ dynamo: others.dynamo, table, clock, ids });
const jobs = dynamoJobs({ dynamo, table, retentionMs, clock, ids });

jobStoreConformance('DynamoDB', () => ({ jobs, dispatches, clock, retentionMs }));
