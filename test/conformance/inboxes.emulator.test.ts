import { afterAll } from 'vitest';
import { sqsCommands, sqsInboxes, sqsInboxKeeper } from '../../lib/aws/sqs-inboxes.ts';
import { systemIds as ids, systemTimer as timer } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { inboxesConformance } from './inboxes.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const place = pool.config;
const controlPlane = await pool.clientsOf(['commands', 'keeper']);
const worker = await pool.clientsOf(['inboxes']);
const inboxes = sqsInboxes({ sqs: worker.sqs, place, timer, ids });
const commands = sqsCommands({ sqs: controlPlane.sqs, place, ids });

const keeper = sqsInboxKeeper({ sqs: controlPlane.sqs, place });

inboxesConformance('SQS', () => ({ inboxes, commands, keeper }));
