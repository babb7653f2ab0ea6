import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { PolicyDocument, type PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Code, EventSourceMapping, Function as LambdaFn, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { variable } from '../lib/aws/config.ts';
import { byOwner, pending } from '../lib/aws/tables.ts';
import { feedWrites, type Telling, tellStatements } from './events.ts';
import { METRIC_NAMESPACE } from './metrics.ts';
import { allow, indexArn, sendMessages } from './permissions.ts';
import { CONSUMER_TIMEOUT, type PoolResources } from './resources.ts';

export interface PoolFunctions {
  readonly request: LambdaFn;
  readonly report: LambdaFn;
  readonly sweep: LambdaFn;
  /** The steps of resync rounds, for the state machine. */
  readonly resync: LambdaFn;
  /** Tells what was written to the tables; only where the pool was given a bus. */
  readonly events?: LambdaFn;
}

export function makeFunctions(
  scope: Construct,
  poolName: string,
  pool: PoolResources,
  poolEnvironment: Readonly<Record<string, string>>,
  maxConcurrency: number,
  telling: Telling | undefined,
): PoolFunctions {
  const environment = {
    ...poolEnvironment,
    // The dimension of every metric, and a field of every log line.
    POWERTOOLS_SERVICE_NAME: poolName,
    POWERTOOLS_METRICS_NAMESPACE: METRIC_NAMESPACE,
    NODE_OPTIONS: '--enable-source-maps',
  };
  const jobs = pool.jobsTable.tableArn;
  const workers = pool.workersTable.tableArn;
  const decide = [
    allow(['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'], jobs),
    allow(['dynamodb:GetItem', 'dynamodb:Scan'], workers),
    allow(sendMessages, pool.requestQueue.queueArn),
    allow(['sqs:SendMessage'], pool.inboxArns),
  ];
  const owned = allow(['dynamodb:Query'], indexArn(pool.jobsTable, byOwner));
  const startRounds = allow(['states:StartExecution'], pool.machineArn);
  // The service knows no narrower resource: a task token names its execution, and nobody else has it.
  const wakeRounds = allow(['states:SendTaskSuccess'], '*');

  const request = makeFunction(scope, 'request', { timeout: CONSUMER_TIMEOUT, memorySize: 256 }, environment, [
    ...decide,
    ...consume(pool.requestQueue, pool.requestDeadLetters),
  ]);
  const report = makeFunction(scope, 'report', { timeout: CONSUMER_TIMEOUT, memorySize: 256 }, environment, [
    ...decide,
    owned,
    allow(['dynamodb:Query'], indexArn(pool.jobsTable, pending)),
    allow(['dynamodb:UpdateItem'], workers),
    // A restoration looks at the pool's record and at the worker's row in its transaction.
    allow(['dynamodb:ConditionCheckItem'], jobs, workers),
    startRounds,
    wakeRounds,
    ...consume(pool.reportQueue, pool.reportDeadLetters),
  ]);
  // It stays up all of each minute while a worker is active, so its memory is what it costs; the last pass of a minute may take longer.
  const sweep = makeFunction(scope, 'sweep', { timeout: Duration.seconds(75), memorySize: 192 }, environment, [
    allow(['dynamodb:GetItem'], jobs),
    allow(['dynamodb:Query'], indexArn(pool.jobsTable, byOwner), indexArn(pool.jobsTable, pending)),
    allow(['dynamodb:Scan', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'], workers),
    allow(sendMessages, pool.requestQueue.queueArn),
    allow(['sqs:DeleteQueue'], pool.inboxArns),
    // The service knows no narrower resource; what it tells are names.
    allow(['sqs:ListQueues'], '*'),
    startRounds,
  ]);
  const resync = makeFunction(scope, 'resync', { timeout: Duration.minutes(1), memorySize: 512 }, environment, [
    allow(['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], jobs),
    allow(['dynamodb:GetItem', 'dynamodb:UpdateItem'], workers),
    owned,
    allow(sendMessages, pool.requestQueue.queueArn),
    allow(['sqs:SendMessage'], pool.inboxArns),
    wakeRounds,
  ]);

  feed(request, pool.requestQueue, maxConcurrency);
  feed(report, pool.reportQueue, maxConcurrency);
  new Rule(scope, 'EveryMinute', {
    description: 'Sweeps the pool',
    schedule: Schedule.rate(Duration.minutes(1)),
    // The next minute's sweep is the retry.
    targets: [new LambdaFunction(sweep, { retryAttempts: 0, maxEventAge: Duration.minutes(1) })],
  });
  if (!telling) return { request, report, sweep, resync };

  const { bus, deadLetters } = telling;
  const where = { [variable.eventBus]: bus.eventBusArn, [variable.eventDeadLetterQueue]: deadLetters.queueUrl };
  const size = { timeout: Duration.minutes(1), memorySize: 256 };
  const events = makeFunction(scope, 'events', size, { ...environment, ...where }, tellStatements(pool, telling));
  feedWrites(events, pool, deadLetters);
  return { request, report, sweep, resync, events };
}

function makeFunction(
  scope: Construct,
  name: keyof PoolFunctions,
  size: { readonly timeout: Duration; readonly memorySize: number },
  environment: Readonly<Record<string, string>>,
  statements: readonly PolicyStatement[],
): LambdaFn {
  const id = name.charAt(0).toUpperCase() + name.slice(1);
  const logGroup = new LogGroup(scope, `${id}Log`, { retention: RetentionDays.ONE_MONTH, removalPolicy: RemovalPolicy.DESTROY });
  const log = allow(['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn);
  const role = new Role(scope, `${id}Role`, {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    inlinePolicies: { [name]: new PolicyDocument({ statements: [...statements, log] }) },
  });
  return new LambdaFn(scope, `${id}Function`, {
    description: `Holdfast: ${name}`,
    runtime: Runtime.NODEJS_24_X,
    architecture: Architecture.ARM_64,
    code: Code.fromAsset(bundleOf(name)),
    handler: 'index.handler',
    ...size,
    environment: { ...environment },
    role,
    logGroup,
  });
}

function bundleOf(name: keyof PoolFunctions): string {
  // By the package's own name, so that it is found from the sources and from the published package alike.
  const root = dirname(createRequire(import.meta.url).resolve('holdfast/package.json'));
  const folder = join(root, 'dist', 'functions', name);
  if (!existsSync(folder)) throw new Error(`the function "${name}" is not bundled at ${folder}; run \`npm run bundle\` first`);
  return folder;
}

/** What a queue's function needs of it: the source's polling, backoff by visibility, and dead-lettering by the function itself. */
function consume(queue: IQueue, deadLetters: IQueue): readonly PolicyStatement[] {
  return [
    allow(['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes', 'sqs:ChangeMessageVisibility'], queue.queueArn),
    allow(['sqs:SendMessage'], deadLetters.queueArn),
  ];
}

/**
 * No event filter: what a filter lets fall is deleted unseen. Concurrency is limited at the source, and never at the function: a throttled
 * function costs receives.
 */
function feed(fn: LambdaFn, queue: IQueue, maxConcurrency: number): void {
  new EventSourceMapping(fn, 'Source', {
    target: fn,
    eventSourceArn: queue.queueArn,
    batchSize: 10,
    reportBatchItemFailures: true,
    maxConcurrency,
  });
}
