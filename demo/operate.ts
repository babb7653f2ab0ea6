import { GetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { connect, type Outcome } from 'holdfast/client';
import { serve } from './peer.ts';
import type { StartBody } from './scenario.ts';

const connected = connect();

const methods = {
  /** What a client is told that starts this and waits. */
  async start({ key, payload, dispatchId }: StartBody): Promise<Outcome> {
    const dispatch = await (await connected).start(key, payload, { dispatchId });
    return dispatch.outcome();
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
