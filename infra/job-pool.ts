import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import type { Alarm, Dashboard, IAlarmAction, IMetric, IWidget, Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { IEventBus, OnEventOptions, Rule } from 'aws-cdk-lib/aws-events';
import { type IGrantable, type IManagedPolicy, ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { StringParameter } from 'aws-cdk-lib/aws-ssm';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct, type IConstruct } from 'constructs';
import { configParameter, type PoolConfig, variable } from '../lib/aws/config.ts';
import { DEFAULT_SETTINGS, type PoolSettings, type RestartPolicy } from '../lib/pool/settings.ts';
import { makeAlarms } from './alarms.ts';
import { checkCount, checkDuration, checkOnlyPoolOfItsName, checkPoolName, defaultPoolName, refuse } from './checks.ts';
import { jobChangeRule } from './events.ts';
import { makeFunctions, type PoolFunctions } from './functions.ts';
import { attach, equip, type GrantName, makePolicies, type PoolPolicies, policyName } from './grants.ts';
import { dashboardWidgets, deadLettersMetric, makeDashboard, type PoolMetric, poolMetric } from './metrics.ts';
import { DEAD_LETTER_RETENTION, makeResources, QUEUE_RETENTION } from './resources.ts';
import { makeResyncMachine } from './resync-machine.ts';

export interface JobPoolProps {
  /**
   * Names the pool in its account and region: 1 to 32 of `a-z`, `0-9` and `-`. It must be the only pool of that name there, and
   * another name is another pool.
   *
   * @default made from the construct's path: `Shop/Feeds` is `shop-feeds`
   */
  readonly poolName?: string;
  /**
   * How long a worker may go on running its jobs without having renewed, 3 to 90 seconds. A worker renews every third of it. Shorter
   * means that a lost worker's jobs run elsewhere sooner, and that a shorter outage makes workers stop them.
   *
   * @default 30 seconds
   */
  readonly lease?: Duration;
  /**
   * How long the outcome and end of a dispatch are remembered, and with them the protection against its replay. At least 19 days:
   * longer than a request can wait in its queue (4 days) and in the dead-letter queue (14 days).
   *
   * @default 30 days
   */
  readonly retention?: Duration;
  /**
   * What becomes of a job that fails by itself and does not ask to be tried again.
   *
   * @default never started again
   */
  readonly restart?: Restart;
  /**
   * How many batches of requests, and of reports, are handled at once, 2 to 1000. What comes faster waits in its queue.
   *
   * @default 50
   */
  readonly maxConcurrency?: number;
  /**
   * What becomes of the two tables when the pool is removed or replaced. With `DESTROY` they go too, and are not protected against deletion;
   * for pools that are thrown away.
   *
   * @default RemovalPolicy.RETAIN, under generated names, so that a new deployment never meets the old tables
   */
  readonly removalPolicy?: RemovalPolicy;
  /**
   * Alarms on what somebody has to look at: dead letters, jobs that wait, functions that go on failing, no sweep for 5 minutes,
   * a recovery that nobody finishes.
   *
   * @default on, without an action
   */
  readonly alarms?: { readonly type: 'on'; readonly action?: IAlarmAction } | { readonly type: 'off' };
  /**
   * Where each change of a job, a dispatch and a worker is published, once it is durable. It turns on the streams of the two tables and
   * adds a function; what was there before is not told.
   *
   * @default none: each event costs what EventBridge and the function ask for it
   */
  readonly events?: IEventBus;
}

export type Restart =
  | { readonly type: 'never' }
  | {
      readonly type: 'on-failure';
      /** How often a job is started in all, 1 to 100. */
      readonly maxAttempts: number;
      /**
       * Wait before the first restart, 1 second to 5 minutes; it doubles each time, up to 5 minutes.
       *
       * @default 1 second
       */
      readonly backoff?: Duration;
    };

/** A pool made here or elsewhere: whom it lets in, and what a process needs to find it. */
export interface IJobPool extends IConstruct {
  readonly poolName: string;
  /** For a process that is no Lambda function: `{ HOLDFAST_POOL }`. */
  readonly environment: { readonly [name: string]: string };
  /** Lets the grantee start and stop jobs and notify them. A Lambda function also gets its environment; so with every grant. */
  grantProduce(grantee: IGrantable): void;
  /** Lets the grantee run jobs as a worker. */
  grantWork(grantee: IGrantable): void;
  /** Lets the grantee read jobs, dispatches and workers, and wait for outcomes and ends. */
  grantObserve(grantee: IGrantable): void;
  /**
   * Lets the grantee do all that a producer and an observer may, drain, evict and resync workers, and look through, redrive and remove
   * dead letters.
   */
  grantOperate(grantee: IGrantable): void;
  /** One of the things that the pool's functions count or measure; over 5 minutes a sum, of a gauge the maximum, unless the options say otherwise. */
  metric(name: PoolMetric, options?: MetricOptions): Metric;
  /** Jobs that run, as the workers' last heartbeats have it; measured once a minute while a worker is there or a job waits. */
  metricRunning(options?: MetricOptions): Metric;
  /** Jobs that wait and are due, 1,000 at most; likewise. */
  metricPending(options?: MetricOptions): Metric;
  /** For how many seconds the oldest of these has been due; likewise. */
  metricPendingAge(options?: MetricOptions): Metric;
  /** Workers that were given up on. */
  metricWorkersLost(options?: MetricOptions): Metric;
  /**
   * A rule for the changes of this pool's jobs: all of them, or those that `eventPattern` leaves, such as
   * `{ detail: { to: ['ended'], why: ['failed'] } }`. Refused where no bus is known: that of the pool, or the one that it was imported with.
   */
  onJobChange(id: string, options?: OnEventOptions): Rule;
}

abstract class GrantingPool extends Construct implements IJobPool {
  abstract readonly poolName: string;

  get environment(): { readonly [name: string]: string } {
    return { [variable.pool]: this.poolName };
  }

  grantProduce(grantee: IGrantable): void {
    this.#grant('produce', grantee);
  }

  grantWork(grantee: IGrantable): void {
    this.#grant('work', grantee);
  }

  grantObserve(grantee: IGrantable): void {
    this.#grant('observe', grantee);
  }

  grantOperate(grantee: IGrantable): void {
    this.#grant('operate', grantee);
  }

  metric(name: PoolMetric, options?: MetricOptions): Metric {
    return poolMetric(this.poolName, name, options);
  }

  metricRunning(options?: MetricOptions): Metric {
    return this.metric('running', options);
  }

  metricPending(options?: MetricOptions): Metric {
    return this.metric('pending', options);
  }

  metricPendingAge(options?: MetricOptions): Metric {
    return this.metric('pending-age', options);
  }

  metricWorkersLost(options?: MetricOptions): Metric {
    return this.metric('worker-lost', options);
  }

  onJobChange(id: string, options?: OnEventOptions): Rule {
    const { eventBus, poolName } = this;
    const unknown = `it is not known on which bus the pool "${poolName}" tells its changes`;
    if (!eventBus) refuse(this, unknown, 'give `events`, to the pool or to `fromPoolName`');
    return jobChangeRule(this, id, { eventBus, poolName }, options);
  }

  protected abstract readonly eventBus: IEventBus | undefined;

  protected abstract policyOf(grant: GrantName): IManagedPolicy;

  /** What a Lambda function that was let in finds in its environment. */
  protected abstract functionEnvironment(): { readonly [name: string]: string };

  #grant(grant: GrantName, grantee: IGrantable): void {
    attach(this.policyOf(grant), policyName(this, this.poolName, grant), grantee);
    equip(grantee, this.poolName, this.functionEnvironment());
  }
}

/**
 * A pool of workers that run keyed, long-running jobs, each key on exactly one worker.
 *
 *     const pool = new JobPool(this, 'Feeds');
 *     pool.grantProduce(api);                 // a Lambda function, which also gets its environment
 *     pool.grantWork(task.taskRole);          // workers: give their container `pool.environment`
 */
export class JobPool extends GrantingPool {
  readonly poolName: string;
  readonly jobsTable: Table;
  readonly workersTable: Table;
  readonly requestQueue: Queue;
  readonly reportQueue: Queue;
  /**
   * Where requests and reports go that could not be handled, each with the reason as its message attribute; and changes that could not be
   * told, where they are told at all.
   */
  readonly deadLetterQueues: { readonly requests: Queue; readonly reports: Queue; readonly events?: Queue };
  readonly functions: PoolFunctions;
  /** Times resync rounds: asks a silent worker what it runs, and gives up on it after a full lease. */
  readonly resyncMachine: StateMachine;
  /** Empty where `alarms` is off. */
  readonly alarms: readonly Alarm[];
  protected readonly eventBus: IEventBus | undefined;
  readonly #config: string;
  readonly #policies: PoolPolicies;

  /**
   * A pool of another stack or app, in this stack's account and region. Nothing is looked up: a name is all that a grant needs.
   *
   * A grantee that was itself imported has to be given the policy where it is made. `events` is the bus that the pool was given, for rules.
   */
  static fromPoolName(scope: Construct, id: string, poolName: string, known: Pick<JobPoolProps, 'events'> = {}): IJobPool {
    return new ImportedPool(scope, id, poolName, known.events);
  }

  constructor(scope: Construct, id: string, props: JobPoolProps = {}) {
    super(scope, id);
    const { lease = Duration.seconds(30), retention = Duration.days(30), restart = { type: 'never' } } = props;
    const { poolName = defaultPoolName(this), removalPolicy = RemovalPolicy.RETAIN, alarms = { type: 'on' }, maxConcurrency = 50 } = props;
    const { events: bus } = props;
    checkPoolName(this, poolName);
    checkOnlyPoolOfItsName(this, poolName);
    checkDuration(this, 'lease', lease, Duration.seconds(3), Duration.seconds(90));
    checkDuration(this, 'retention', retention, QUEUE_RETENTION.plus(DEAD_LETTER_RETENTION).plus(Duration.days(1)));
    checkCount(this, 'maxConcurrency', maxConcurrency, 2, 1_000);
    if (restart.type === 'on-failure') {
      checkCount(this, 'restart.maxAttempts', restart.maxAttempts, 1, 100);
      if (restart.backoff) checkDuration(this, 'restart.backoff', restart.backoff, Duration.seconds(1), Duration.minutes(5));
    }

    const resources = makeResources(this, poolName, { removalPolicy, tells: bus !== undefined });
    const { requestDeadLetters, reportDeadLetters, eventDeadLetters } = resources;
    const settings: PoolSettings = { ...DEFAULT_SETTINGS, retentionMs: retention.toMilliseconds(), restart: restartPolicy(restart) };
    const stack = Stack.of(this);
    const config: PoolConfig = {
      v: 1,
      poolName,
      region: stack.region,
      requestQueueUrl: resources.requestQueue.queueUrl,
      reportQueueUrl: resources.reportQueue.queueUrl,
      resyncMachineArn: resources.machineArn,
      jobsTable: resources.jobsTable.tableName,
      workersTable: resources.workersTable.tableName,
      leaseMs: lease.toMilliseconds(),
      retentionMs: settings.retentionMs,
    };
    this.#config = stack.toJsonString(config);
    const parameter = new StringParameter(this, 'Config', {
      parameterName: configParameter(poolName),
      description: `What a process needs to connect to the Holdfast pool ${poolName}`,
      simpleName: false,
      stringValue: this.#config,
    });

    this.poolName = poolName;
    this.jobsTable = resources.jobsTable;
    this.workersTable = resources.workersTable;
    this.requestQueue = resources.requestQueue;
    this.reportQueue = resources.reportQueue;
    this.deadLetterQueues = {
      ...{ requests: requestDeadLetters, reports: reportDeadLetters },
      ...(eventDeadLetters && { events: eventDeadLetters }),
    };
    this.eventBus = bus;
    const environment = {
      [variable.poolConfig]: this.#config,
      [variable.poolSettings]: stack.toJsonString(settings),
      [variable.requestDeadLetterQueue]: requestDeadLetters.queueUrl,
      [variable.reportDeadLetterQueue]: reportDeadLetters.queueUrl,
    };
    const telling = bus && eventDeadLetters && { bus, deadLetters: eventDeadLetters };
    this.functions = makeFunctions(this, poolName, resources, environment, maxConcurrency, telling);
    this.resyncMachine = makeResyncMachine(this, poolName, lease, this.functions.resync);
    this.#policies = makePolicies(this, poolName, resources, parameter);
    this.alarms = alarms.type === 'on' ? makeAlarms(this, poolName, resources, this, alarms.action) : [];
  }

  /** Messages that wait in the dead-letter queues, all of them together. */
  metricDeadLetters(options?: MetricOptions): IMetric {
    return deadLettersMetric(Object.values(this.deadLetterQueues), options);
  }

  /** What shows whether the pool is well: jobs that run and wait, queues and their age, dead letters, functions, and what was refused or lost. */
  dashboardWidgets(): IWidget[] {
    return dashboardWidgets(this);
  }

  /** A dashboard of its own; it costs money beyond an account's first three. */
  addDashboard(name?: string): Dashboard {
    return makeDashboard(this, name);
  }

  protected policyOf(grant: GrantName): IManagedPolicy {
    return this.#policies[grant];
  }

  protected functionEnvironment(): { readonly [name: string]: string } {
    return { ...this.environment, [variable.poolConfig]: this.#config };
  }
}

class ImportedPool extends GrantingPool {
  readonly poolName: string;
  protected readonly eventBus: IEventBus | undefined;

  constructor(scope: Construct, id: string, poolName: string, eventBus: IEventBus | undefined) {
    super(scope, id);
    checkPoolName(this, poolName);
    this.poolName = poolName;
    this.eventBus = eventBus;
  }

  protected policyOf(grant: GrantName): IManagedPolicy {
    const id = `${grant}-policy`;
    const made = this.node.tryFindChild(id) as IManagedPolicy | undefined;
    return made ?? ManagedPolicy.fromManagedPolicyName(this, id, policyName(this, this.poolName, grant));
  }

  protected functionEnvironment(): { readonly [name: string]: string } {
    return this.environment;
  }
}

function restartPolicy(restart: Restart): RestartPolicy {
  if (restart.type === 'never') return restart;
  const { type, maxAttempts, backoff } = restart;
  return { type, maxAttempts, ...(backoff && { backoffMs: backoff.toMilliseconds() }) };
}
