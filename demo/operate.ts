import { GetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { connect, type Outcome, type ResyncReport } from 'holdfast/client';
import { serve } from './peer.ts';
import type { StartBody } from './scenario.ts';

const timeoutMs = 60_000;
const connected = connect();

const methods = {
  /** What a client is told that starts this and waits. */
  async start({ key, payload, dispatchId }: StartBody): Promise<Outcome> {
    const dispatch = await (await connected).start(key, payload, { dispatchId });
    return dispatch.outcome();
  },
  /** Has a worker asked what it really runs; resolves once its whole answer was applied. */
  async resync(workerId: string): Promise<ResyncReport> {
    return (await connected).worker(workerId).resync({ timeoutMs });
  },
  /** How many messages wait in a dead-letter queue. */
  async deadLetters(QueueUrl: string): Promise<number> {
    const wanted = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] });
    const { Attributes } = await new SQSClient().send(wanted);
    return Number(Attributes?.ApproximateNumberOfMessages);
  },
};
export type Operator = typeof methods;
serve(methods);
