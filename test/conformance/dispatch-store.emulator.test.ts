import { afterAll } from 'vitest';
import { dynamoDispatches } from '../../lib/aws/dynamo-dispatches.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { dispatchStoreConformance } from './dispatch-store.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { dynamo } = await pool.clientsOf(['dispatches']);
const dispatches = dynamoDispatches({ dynamo, table: pool.config.jobsTable, clock, ids });

dispatchStoreConformance('DynamoDB', () => ({ dispatches, clock }));
