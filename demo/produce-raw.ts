/** A producer as it would be in any language: it knows the name of a queue and the JSON of a request, and nothing of Holdfast. */
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { GetParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import { serve } from './peer.ts';

const batchSize = 10;
const sqs = new SQSClient();
const requestQueue = findRequestQueue();

const methods = {
  /** Sends each line of an NDJSON file as it is, and answers how many the queue has. */
  async send(file: string): Promise<number> {
    const QueueUrl = await requestQueue;
    const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
    let sent = 0;
    for (let from = 0; from < lines.length; from += batchSize) {
      const Entries = lines.slice(from, from + batchSize).map((MessageBody, index) => ({
        Id: String(index),
        MessageBody,
        MessageGroupId: createHash('sha256').update(keyOf(MessageBody)).digest('hex'),
        MessageDeduplicationId: randomUUID(),
      }));
      const { Successful = [], Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
      if (Failed.length > 0) throw new Error(`${Failed.length} requests were not taken, the first because ${Failed[0]?.Message}`);
      sent += Successful.length;
    }
    return sent;
  },
};
export type RawProducer = typeof methods;
serve(methods);

async function findRequestQueue(): Promise<string> {
  const name = `/holdfast/${process.env.HOLDFAST_POOL}/config`;
  const { Parameter } = await new SSMClient().send(new GetParameterCommand({ Name: name }));
  return JSON.parse(Parameter?.Value ?? '{}').requestQueueUrl;
}

/** The key, where the line has one; anything else will do, for it is refused. */
function keyOf(line: string): string {
  try {
    return String(JSON.parse(line).key);
  } catch {
    return line;
  }
}
