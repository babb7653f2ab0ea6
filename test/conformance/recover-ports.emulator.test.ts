import { afterAll } from 'vitest';
import { clientPorts, poolPorts, workerPorts } from '../../lib/aws/ports.ts';
import { silent } from '../../lib/testing/memory-services.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { recoverPortsConformance } from './recover-ports.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { operate } = clientPorts(pool.config, await pool.clientsOf(['operate']));
const { jobs, requests, commands } = poolPorts(pool.config, silent, pool.root);
const { inboxes, reports } = workerPorts(pool.config, pool.root);

recoverPortsConformance('AWS', () => ({
  ...{ ...operate, jobs, requests, reports, inboxes },
  command: (session) => commands.send({ op: 'confirm', session, key: 'k', fence: 1 }),
}));
