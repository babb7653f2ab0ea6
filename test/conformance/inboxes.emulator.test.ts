import { afterAll } from 'vitest';
import { removeInbox, sqsCommands, sqsInboxes } from '../../lib/aws/sqs-inboxes.ts';
import { systemIds as ids, systemTimer as timer } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { inboxesConformance } from './inboxes.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const place = pool.config;
const controlPlane = await pool.clientsOf(['commands', 'removeInbox']);
const worker = await pool.clientsOf(['inboxes']);
const inboxes = sqsInboxes({ sqs: worker.sqs, place, timer, ids });
const commands = sqsCommands({ sqs: controlPlane.sqs, place, ids });

inboxesConformance('SQS', () => ({ inboxes, commands, remove: (session) => removeInbox(controlPlane.sqs, place, session) }));
