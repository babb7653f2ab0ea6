import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { JobPool } from './job-pool.ts';

/**
 * One pool in a stack of its own: `npx cdk deploy -c pool=feeds`. Context, all of it optional: `pool` names it (default `holdfast`),
 * `leaseSeconds` sets its lease, `maxConcurrency` how many batches of a queue are handled at once, `eventBus` names the bus to tell changes on
 * (`default` is there in every account), `removalPolicy=destroy` lets its tables go with the stack.
 */
const app = new App();

function context(name: string): string | undefined {
  const value: unknown = app.node.tryGetContext(name);
  return value === undefined ? undefined : String(value);
}

const poolName = context('pool') ?? 'holdfast';
const leaseSeconds = context('leaseSeconds');
const maxConcurrency = context('maxConcurrency');
const eventBus = context('eventBus');
const removalPolicy = context('removalPolicy') ?? 'retain';
if (removalPolicy !== 'retain' && removalPolicy !== 'destroy') {
  throw new Error(`context removalPolicy is "${removalPolicy}"; it must be "retain" or "destroy"`);
}

const stack = new Stack(app, `Holdfast-${poolName}`, { description: `Holdfast pool ${poolName}` });
const pool = new JobPool(stack, 'Pool', {
  poolName,
  ...(leaseSeconds !== undefined && { lease: Duration.seconds(Number(leaseSeconds)) }),
  ...(maxConcurrency !== undefined && { maxConcurrency: Number(maxConcurrency) }),
  ...(eventBus !== undefined && { events: EventBus.fromEventBusName(stack, 'EventBus', eventBus) }),
  removalPolicy: removalPolicy === 'destroy' ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
});
new CfnOutput(stack, 'PoolName', { value: pool.poolName, description: 'Give processes this as HOLDFAST_POOL' });
new CfnOutput(stack, 'RequestQueueUrl', { value: pool.requestQueue.queueUrl, description: 'Where producers without the client send' });
new CfnOutput(stack, 'RequestDeadLetterQueueUrl', {
  value: pool.deadLetterQueues.requests.queueUrl,
  description: 'Where requests go that cannot be handled, each with its reason',
});
