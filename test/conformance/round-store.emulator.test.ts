import { afterAll } from 'vitest';
import { dynamoRounds } from '../../lib/aws/dynamo-rounds.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { roundStoreConformance } from './round-store.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { dynamo } = await pool.clientsOf(['rounds']);
const rounds = dynamoRounds({ dynamo, table: pool.config.jobsTable });

roundStoreConformance('DynamoDB', () => ({ rounds, token: () => ids.next() }));
