import { afterAll } from 'vitest';
import { sqsReports } from '../../lib/aws/sqs-reports.ts';
import { sqsRequestBatches, sqsRequests } from '../../lib/aws/sqs-requests.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { adapterPool } from '../support/adapter-pool.ts';
import { reportsConformance } from './reports.ts';
import { requestsConformance } from './requests.ts';

const pool = await adapterPool();
afterAll(() => pool.remove());

const { requestQueueUrl, reportQueueUrl } = pool.config;
const producer = await pool.clientsOf(['requests']);
const worker = await pool.clientsOf(['reports']);
const requests = sqsRequests({ sqs: producer.sqs, queueUrl: requestQueueUrl, ids });
const batches = sqsRequestBatches({ sqs: producer.sqs, queueUrl: requestQueueUrl, ids });
const reports = sqsReports({ sqs: worker.sqs, queueUrl: reportQueueUrl });

requestsConformance('SQS', () => ({
  requests,
  batches,
  take: async () =>
    (await pool.take(requestQueueUrl)).map(({ Body: body = '', Attributes: { MessageGroupId: group = '' } = {} }) => ({ body, group })),
}));
reportsConformance('SQS', () => ({
  reports,
  take: async () => (await pool.take(reportQueueUrl)).map(({ Body: body = '' }) => ({ body })),
}));
