import { DeleteItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll } from 'vitest';
import { dynamoDispatches } from '../../lib/aws/dynamo-dispatches.ts';
import { dynamoJobs } from '../../lib/aws/dynamo-jobs.ts';
import { dynamoRestores } from '../../lib/aws/dynamo-restores.ts';
import { dynamoRegistry, dynamoWorkers } from '../../lib/aws/dynamo-workers.ts';
import { toItem, version } from '../../lib/aws/item.ts';
import { systemClock as clock, systemIds as ids } from '../../lib/aws/system.ts';
import { poolKey } from '../../lib/aws/worker-item.ts';
import type { PoolState } from '../../lib/pool/worker.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { restoreStoreConformance } from './restore-store.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { jobsTable, workersTable, retentionMs } = pool.config;
const { dynamo } = await pool.clientsOf(['restores']);
const operator = await pool.clientsOf(['operate']);
const others = await pool.clientsOf(['jobs', 'dispatches', 'workers', 'registry']);
const restores = dynamoRestores({ dynamo, jobsTable, workersTable, retentionMs, clock, ids });
const { recovered } = dynamoRestores({ dynamo: operator.dynamo, jobsTable, workersTable, retentionMs, clock, ids });
const jobs = dynamoJobs({ dynamo: others.dynamo, table: jobsTable, retentionMs, clock, ids });
const dispatches = dynamoDispatches({ dynamo: others.dynamo, table: jobsTable, clock, ids });
const workers = dynamoWorkers({ dynamo: others.dynamo, jobsTable, workersTable, clock, ids });
const registry = dynamoRegistry({ dynamo: others.dynamo, table: workersTable, ids });

async function setPool(state: PoolState | undefined): Promise<void> {
  const command = state
    ? new PutItemCommand({ TableName: jobsTable, Item: toItem({ ...poolKey, v: version, ...state }) })
    : new DeleteItemCommand({ TableName: jobsTable, Key: toItem(poolKey) });
  await pool.root.dynamo.send(command as PutItemCommand);
}

restoreStoreConformance('DynamoDB', () => ({ restores, recovered, jobs, dispatches, workers, registry, setPool, clock }));
