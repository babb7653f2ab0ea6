import { GetQueueAttributesCommand, type GetQueueAttributesCommandInput, type SQSClient } from '@aws-sdk/client-sqs';
import type { Depth, QueueGauges } from '../resync/recover.ts';
import type { PoolConfig } from './config.ts';
import { isMissingQueue, translate, translated } from './errors.ts';
import { inboxUrl } from './sqs-inboxes.ts';

export interface SqsGaugesOptions {
  readonly sqs: SQSClient;
  readonly config: Pick<PoolConfig, 'poolName' | 'requestQueueUrl' | 'reportQueueUrl'>;
}

/** How full the pool's queues are. */
export function sqsGauges({ sqs, config }: SqsGaugesOptions): QueueGauges {
  async function depthOf(QueueUrl: string): Promise<Depth> {
    const { Attributes: of = {} } = await sqs.send(new GetQueueAttributesCommand(depthParams(QueueUrl)));
    const taken = Number(of.ApproximateNumberOfMessagesNotVisible ?? 0) + Number(of.ApproximateNumberOfMessagesDelayed ?? 0);
    return { waiting: Number(of.ApproximateNumberOfMessages ?? 0), taken };
  }
  return {
    requests: () => translated('request queue', () => depthOf(config.requestQueueUrl)),
    reports: () => translated('report queue', () => depthOf(config.reportQueueUrl)),
    async inbox(session) {
      try {
        return await depthOf(inboxUrl(config, session));
      } catch (error) {
        if (isMissingQueue(error)) return { waiting: 0, taken: 0 };
        throw translate(`inbox of session "${session}"`, error);
      }
    },
  };
}

function depthParams(QueueUrl: string): GetQueueAttributesCommandInput {
  return {
    QueueUrl,
    AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesDelayed'],
  };
}
