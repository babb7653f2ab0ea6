import type { SQSClient } from '@aws-sdk/client-sqs';
import { encodeReport, type Report } from '../wire/index.ts';
import type { ReportSender } from '../worker/ports.ts';
import { translated } from './errors.ts';
import { type Message, sendInBatches } from './sqs-batch.ts';

/** The report queue: standard, because reports may come in any order and any number of times. */
export function sqsReports({ sqs, queueUrl }: { readonly sqs: SQSClient; readonly queueUrl: string }): ReportSender {
  return {
    async send(reports) {
      const messages = await Promise.all(reports.map((report) => translated(nameOf(report), async () => messageOf(report))));
      const [error] = (await sendInBatches(sqs, queueUrl, messages)).filter((result) => result !== undefined);
      if (error) throw error;
    },
  };
}

function messageOf(report: Report): Message {
  return { what: nameOf(report), body: encodeReport(report) };
}

function nameOf(report: Report): string {
  return 'key' in report ? `report "${report.type}" of "${report.key}"` : `report "${report.type}"`;
}
