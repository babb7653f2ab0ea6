import { type App, ArnFormat, Stack } from 'aws-cdk-lib';
import { type IGrantable, Role, ServicePrincipal, User } from 'aws-cdk-lib/aws-iam';
import { Alias, Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { StringParameter } from 'aws-cdk-lib/aws-ssm';
import { describe, expect, test } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import { actions, type Resource } from '../../lib/aws/actions.ts';
import { jobsTable } from '../../lib/aws/tables.ts';
import { actionsOf, anApp, aPool, resourcesOf, statementsOf } from './synthesised.ts';

const ec2 = new ServicePrincipal('ec2.amazonaws.com');

function aFunction(stack: Stack): LambdaFunction {
  return new LambdaFunction(stack, 'Api', { runtime: Runtime.NODEJS_24_X, handler: 'index.handler', code: Code.fromInline('//') });
}

describe('a grant is never silently nothing', () => {
  const immutable: Record<string, (stack: Stack) => IGrantable> = {
    'a role of another account': (stack) => Role.fromRoleArn(stack, 'Grantee', 'arn:aws:iam::222222222222:role/api'),
    'a role that was imported as immutable': (stack) => Role.fromRoleName(stack, 'Grantee', 'api', { mutable: false }),
    'a role whose policies are managed elsewhere': (stack) => new Role(stack, 'Grantee', { assumedBy: ec2 }).withoutPolicyUpdates(),
    'a role made in a stack of another account': (stack) =>
      new Role(new Stack(stack.node.root as App, 'Else', { env: { account: '222222222222', region: 'us-east-1' } }), 'Grantee', {
        assumedBy: ec2,
      }),
    'a service': () => ec2,
  };
  for (const [name, grantee] of Object.entries(immutable)) {
    test(`${name} is refused, with what to do instead`, () => {
      const { stack, pool } = aPool({ poolName: 'feeds' }, { account: '111111111111', region: 'us-east-1' });
      expect(() => pool.grantWork(grantee(stack))).toThrow(/(Grantee|ec2).*; grant to .*, or attach "holdfast-feeds-us-east-1-work" to it/);
    });
  }

  test('an imported role takes no policy of an imported pool', () => {
    const stack = new Stack(anApp(), 'Api');
    const pool = JobPool.fromPoolName(stack, 'Feeds', 'feeds');
    expect(() => pool.grantProduce(Role.fromRoleName(stack, 'Grantee', 'api'))).toThrow(
      /Api\/Grantee: .* attach "holdfast-feeds-.*-produce" to it/,
    );
  });
});

describe('a grant attaches the managed policy of its name', () => {
  test('to a role, once, however often it is granted', () => {
    const { stack, pool } = aPool({ poolName: 'feeds' });
    const role = new Role(stack, 'Worker', { assumedBy: ec2 });
    pool.grantWork(role);
    pool.grantWork(role);
    const policies = resourcesOf(stack, 'AWS::IAM::ManagedPolicy');
    const attached = Object.entries(resourcesOf(stack, 'AWS::IAM::Role')).find(([id]) => id.startsWith('Worker'))?.[1].Properties
      .ManagedPolicyArns;
    expect(attached).toHaveLength(1);
    expect(policies[attached[0].Ref]?.Properties.ManagedPolicyName).toEqual({
      'Fn::Join': ['', ['holdfast-feeds-', { Ref: 'AWS::Region' }, '-work']],
    });
  });

  test('to a user', () => {
    const { stack, pool } = aPool();
    pool.grantObserve(new User(stack, 'Operator'));
    expect(Object.values(resourcesOf(stack, 'AWS::IAM::User'))[0]?.Properties.ManagedPolicyArns).toHaveLength(1);
  });

  test('to an imported role of this account, from the side of the policy', () => {
    const { stack, pool } = aPool();
    pool.grantWork(Role.fromRoleName(stack, 'Worker', 'irsa-worker'));
    const roles = Object.values(resourcesOf(stack, 'AWS::IAM::ManagedPolicy')).flatMap(({ Properties }) => Properties.Roles ?? []);
    expect(roles).toEqual(['irsa-worker']);
  });

  test('of a pool that is imported by name, without any look-up', () => {
    const stack = new Stack(anApp(), 'Api', { env: { account: '111111111111', region: 'eu-west-1' } });
    JobPool.fromPoolName(stack, 'Feeds', 'feeds').grantProduce(new Role(stack, 'Role', { assumedBy: ec2 }));
    const arns = Object.values(resourcesOf(stack, 'AWS::IAM::Role'))[0]?.Properties.ManagedPolicyArns;
    expect(arns).toEqual([
      { 'Fn::Join': ['', ['arn:', { Ref: 'AWS::Partition' }, ':iam::111111111111:policy/holdfast-feeds-eu-west-1-produce']] },
    ]);
  });

  test('to a role of another stack of the app', () => {
    const { app, pool } = aPool();
    const other = new Stack(app, 'Other');
    pool.grantObserve(new Role(other, 'Role', { assumedBy: ec2 }));
    expect(Object.values(resourcesOf(other, 'AWS::IAM::Role'))[0]?.Properties.ManagedPolicyArns).toHaveLength(1);
  });
});

describe('a function that is granted something finds the pool without being told', () => {
  test('of a pool made here: its configuration and its name', () => {
    const { stack, pool } = aPool({ poolName: 'feeds' });
    pool.grantProduce(aFunction(stack));
    const variables = environmentOf(stack, 'Api');
    expect(variables.HOLDFAST_POOL).toBe('feeds');
    expect(variables.HOLDFAST_POOL_CONFIG).toEqual(Object.values(resourcesOf(stack, 'AWS::SSM::Parameter'))[0]?.Properties.Value);
  });

  test('of an imported pool: its name, by which it reads the parameter', () => {
    const stack = new Stack(anApp(), 'Shop');
    JobPool.fromPoolName(stack, 'Feeds', 'feeds').grantProduce(aFunction(stack));
    expect(environmentOf(stack, 'Api')).toEqual({ HOLDFAST_POOL: 'feeds' });
  });

  test('of several pools: the one that was granted first', () => {
    const { stack, pool } = aPool({ poolName: 'feeds' });
    const api = aFunction(stack);
    pool.grantProduce(api);
    new JobPool(stack, 'Orders', { poolName: 'orders' }).grantProduce(api);
    pool.grantObserve(api);
    const { HOLDFAST_POOL: name, HOLDFAST_POOL_CONFIG: config } = environmentOf(stack, 'Api');
    expect(name).toBe('feeds');
    expect(JSON.stringify(config)).toContain(String.raw`\"poolName\":\"feeds\"`);
  });

  test('by an alias of it: permission alone', () => {
    const { stack, pool } = aPool();
    const api = aFunction(stack);
    pool.grantProduce(new Alias(stack, 'Live', { aliasName: 'live', version: api.currentVersion }));
    const role = Object.entries(resourcesOf(stack, 'AWS::IAM::Role')).find(([id]) => id.startsWith('Api'))?.[1];
    expect(JSON.stringify(role?.Properties.ManagedPolicyArns)).toContain('ProducePolicy');
  });

  function environmentOf(stack: Stack, id: string) {
    return Object.entries(resourcesOf(stack, 'AWS::Lambda::Function')).find(([name]) => name.startsWith(id))?.[1].Properties.Environment
      .Variables;
  }
});

describe('least privilege: who asks what of AWS is allowed that', () => {
  function grantOf(grant: string) {
    const { stack, pool } = aPool({ poolName: 'feeds' });
    const name = { 'Fn::Join': ['', ['holdfast-feeds-', { Ref: 'AWS::Region' }, `-${grant}`]] };
    const policies = Object.entries(resourcesOf(stack, 'AWS::IAM::ManagedPolicy')).filter(
      ([, { Properties }]) => JSON.stringify(Properties.ManagedPolicyName) === JSON.stringify(name),
    );
    return { stack, pool, statements: statementsOf(Object.fromEntries(policies)) };
  }

  /** What actions are tied to, where they are to anything. */
  function conditions(grant: string): Readonly<Record<string, unknown>> {
    const tied = grantOf(grant).statements.filter(({ Condition }) => Condition !== undefined);
    return Object.fromEntries(tied.flatMap((statement) => actionsOf(statement).map((action) => [action, statement.Condition])));
  }

  function roleOf(fn: string) {
    const { stack, pool } = aPool({ poolName: 'feeds' });
    const roles = Object.entries(resourcesOf(stack, 'AWS::IAM::Role')).filter(([id]) => id.startsWith(`Feeds${fn}Role`));
    return { stack, pool, statements: statementsOf(Object.fromEntries(roles)) };
  }

  /** Each allowed action as `<resource> <action>`, but for batches: AWS has no action of their own for them. */
  function allowed({ stack, pool, statements }: ReturnType<typeof grantOf>): ReadonlySet<string> {
    const { tableArn } = pool.jobsTable;
    const arns: [Resource | 'deadLetters', string][] = [
      ['jobsTable', tableArn],
      ...jobsTable.indexes.map((index): [Resource, string] => ['jobsTableIndexes', `${tableArn}/index/${index.name}`]),
      ['workersTable', pool.workersTable.tableArn],
      ['requestQueue', pool.requestQueue.queueArn],
      ['reportQueue', pool.reportQueue.queueArn],
      ['deadLetters', pool.deadLetterQueues.requests.queueArn],
      ['deadLetters', pool.deadLetterQueues.reports.queueArn],
      ['inboxes', stack.formatArn({ service: 'sqs', resource: 'holdfast-feeds_*' })],
      [
        'resyncMachine',
        stack.formatArn({
          service: 'states',
          resource: 'stateMachine',
          resourceName: 'holdfast-feeds-resync',
          arnFormat: ArnFormat.COLON_RESOURCE_NAME,
        }),
      ],
      ['anything', '*'],
      ['configParameter', (pool.node.findChild('Config') as StringParameter).parameterArn],
    ];
    const names = new Map(arns.map(([resource, arn]) => [JSON.stringify(stack.resolve(arn)), resource]));
    return new Set(
      statements.flatMap((statement) =>
        [statement.Resource].flat().flatMap((resource) =>
          actionsOf(statement)
            .filter((action) => !/^sqs:.*Batch$/.test(action))
            .map((action) => `${names.get(JSON.stringify(resource)) ?? JSON.stringify(resource)} ${action}`),
        ),
      ),
    );
  }

  function asked(ports: readonly (keyof typeof actions)[]): ReadonlySet<string> {
    const named = ports.flatMap((port): [string, readonly string[]][] => Object.entries(actions[port]));
    return new Set(named.flatMap(([resource, names]) => names.map((name) => `${resource} ${name}`)));
  }

  // What is missing in one of them fails wherever the function runs, on the emulator too; what is too much fails nowhere but here.
  test.each([
    ['Request', ['jobs', 'dispatches', 'workers', 'commands', 'requests']],
    ['Report', ['jobs', 'dispatches', 'workers', 'commands', 'requests', 'rounds', 'restores', 'machine']],
    ['Sweep', ['jobs', 'workers', 'requests', 'keeper', 'rounds', 'machine']],
    ['Resync', ['jobs', 'workers', 'commands', 'requests', 'rounds', 'machine']],
  ] as const)('the %s function may do nothing that no port of its asks for', (fn, ports) => {
    const known = asked(ports);
    const more = [...allowed(roleOf(fn))].filter((each) => !known.has(each));
    const queue = fn.toLowerCase();
    const polls = ['ReceiveMessage', 'DeleteMessage', 'GetQueueAttributes', 'ChangeMessageVisibility'].map(
      (action) => `${queue}Queue sqs:${action}`,
    );
    const isItsSource = (each: string) => polls.includes(each) || each === 'deadLetters sqs:SendMessage';
    const isItsLog = (each: string) => / logs:(CreateLogStream|PutLogEvents)$/.test(each);
    expect(more.filter((each) => !(isItsLog(each) || (['Request', 'Report'].includes(fn) && isItsSource(each))))).toEqual([]);
  });

  test('a producer sends requests', () => {
    expect(allowed(grantOf('produce'))).toEqual(asked(['config', 'requests']));
  });

  test('a worker has its row, its inbox and its reports, and no access to the jobs', () => {
    expect(allowed(grantOf('work'))).toEqual(asked(['config', 'registry', 'inboxes', 'reports']));
    expect([...allowed(grantOf('work'))].filter((each) => each.startsWith('jobsTable'))).toEqual([]);
  });

  test('an observer reads', () => {
    expect(allowed(grantOf('observe'))).toEqual(asked(['config', 'records']));
  });

  test('an operator does what producers and observers do, sees to workers and to dead letters, and writes no record but the pool', () => {
    const known = asked(['config', 'requests', 'records', 'operate']);
    const more = [...allowed(grantOf('operate'))].filter((each) => !known.has(each));
    expect(more.every((each) => /^(deadLetters|reportQueue) sqs:/.test(each))).toBe(true);
    expect(allowed(grantOf('operate'))).toEqual(new Set([...known, ...more]));
    expect([...allowed(grantOf('operate'))].filter((each) => /^(jobsTable|inboxes)/.test(each))).toEqual([
      'jobsTable dynamodb:BatchGetItem',
      'jobsTableIndexes dynamodb:Query',
      'jobsTable dynamodb:GetItem',
      'jobsTable dynamodb:PutItem',
      'jobsTable dynamodb:Query',
      'jobsTableIndexes dynamodb:Scan',
      'inboxes sqs:GetQueueAttributes',
    ]);
    expect(conditions('operate')).toEqual({
      'dynamodb:PutItem': { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['pool'] } },
      'dynamodb:Query': { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['recovery#*'] } },
    });
  });
});
