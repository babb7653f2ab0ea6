import { afterAll } from 'vitest';
import { dynamoRegistry, dynamoWorkers } from '../../lib/aws/dynamo-workers.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { registryConformance } from './registry.ts';
import { workerStoreConformance } from './worker-store.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { jobsTable, workersTable } = pool.config;
const controlPlane = await pool.clientsOf(['workers']);
const worker = await pool.clientsOf(['registry']);
const workers = dynamoWorkers({ dynamo: controlPlane.dynamo, jobsTable, workersTable, clock, ids });
const registry = dynamoRegistry({ dynamo: worker.dynamo, table: workersTable, ids });

workerStoreConformance('DynamoDB', () => ({ workers, registry }));
registryConformance('DynamoDB', () => ({ workers, registry }));
