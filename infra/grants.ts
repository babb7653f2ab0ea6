import { Stack, Token, TokenComparison } from 'aws-cdk-lib';
import {
  Group,
  type IGrantable,
  type IManagedPolicy,
  type IPrincipal,
  type IRole,
  ManagedPolicy,
  type PolicyStatement,
  Role,
  User,
} from 'aws-cdk-lib/aws-iam';
import type { IParameter } from 'aws-cdk-lib/aws-ssm';
import { Construct, type IConstruct } from 'constructs';
import { byOwner, pending, prefixes } from '../lib/aws/tables.ts';
import { poolKey } from '../lib/aws/worker-item.ts';
import { refuse } from './checks.ts';
import { allow, allowUnder, deleteMessages, indexArn, sendMessages } from './permissions.ts';
import type { PoolResources } from './resources.ts';

/**
 * Who may do what with a pool: one managed policy per grant, its statements written by hand. A policy of its own, rather than
 * statements on the grantee's role, so that a pool imported by name grants too, and so that the same four policies serve a role
 * that is no construct at all (Terraform, a Kubernetes service account, the console).
 */
export type GrantName = 'produce' | 'work' | 'observe' | 'operate';

/** The name by which an importing stack finds the policy of a pool in its own account and region. */
export function policyName(scope: IConstruct, poolName: string, grant: GrantName): string {
  return `holdfast-${poolName}-${Stack.of(scope).region}-${grant}`;
}

function statementsOf(grant: GrantName, pool: PoolResources, config: IParameter): readonly PolicyStatement[] {
  const connect = allow(['ssm:GetParameter'], config.parameterArn);
  const produce = allow(sendMessages, pool.requestQueue.queueArn);
  const observe = [
    allow(['dynamodb:BatchGetItem'], pool.jobsTable.tableArn),
    allow(['dynamodb:Query'], indexArn(pool.jobsTable, byOwner), indexArn(pool.jobsTable, pending)),
    allow(['dynamodb:Scan'], pool.workersTable.tableArn),
  ];
  switch (grant) {
    case 'produce':
      return [connect, produce];
    case 'work':
      return [
        connect,
        allow(['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], pool.workersTable.tableArn),
        allow(['sqs:CreateQueue', 'sqs:ReceiveMessage', ...deleteMessages], pool.inboxArns),
        allow(sendMessages, pool.reportQueue.queueArn),
      ];
    case 'observe':
      return [connect, ...observe];
    case 'operate':
      return [
        connect,
        produce,
        ...observe,
        // To drain and evict workers, and to have one asked what it runs: what follows from it the pool's own functions do.
        allow(['dynamodb:GetItem', 'dynamodb:UpdateItem'], pool.workersTable.tableArn),
        allow(['dynamodb:GetItem'], pool.jobsTable.tableArn),
        allow(['states:StartExecution'], pool.machineArn),
        // To recover: the pool's record, what that found, who owns what, and how full the queues are.
        allowUnder([poolKey.pk], ['dynamodb:PutItem'], pool.jobsTable),
        allowUnder([`${prefixes.recovery}*`], ['dynamodb:Query'], pool.jobsTable),
        allow(['dynamodb:Scan'], indexArn(pool.jobsTable, byOwner)),
        allow(['sqs:GetQueueAttributes'], pool.requestQueue.queueArn, pool.reportQueue.queueArn, pool.inboxArns),
        // Sending to the source queues is what a redrive does on its caller's behalf.
        allow(['sqs:SendMessage'], pool.reportQueue.queueArn),
        allow(
          ['sqs:GetQueueAttributes', 'sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:StartMessageMoveTask'],
          pool.requestDeadLetters.queueArn,
          pool.reportDeadLetters.queueArn,
          ...(pool.eventDeadLetters ? [pool.eventDeadLetters.queueArn] : []),
        ),
      ];
    default:
      return grant satisfies never;
  }
}

export type PoolPolicies = Readonly<Record<GrantName, PoolPolicy>>;

export function makePolicies(scope: Construct, poolName: string, pool: PoolResources, config: IParameter): PoolPolicies {
  const make = (grant: GrantName, id: string) =>
    new PoolPolicy(scope, id, {
      managedPolicyName: policyName(scope, poolName, grant),
      description: `Holdfast pool ${poolName}: ${grant}`,
      statements: [...statementsOf(grant, pool, config)],
    });
  return {
    produce: make('produce', 'ProducePolicy'),
    work: make('work', 'WorkPolicy'),
    observe: make('observe', 'ObservePolicy'),
    operate: make('operate', 'OperatePolicy'),
  };
}

/** Remembers which imported roles it was really attached to: CDK drops a policy that a role cannot take without a word. */
export class PoolPolicy extends ManagedPolicy {
  readonly #attached = new Set<unknown>();

  override attachToRole(role: IRole): void {
    super.attachToRole(role);
    this.#attached.add(role);
  }

  /** An imported role, which can be attached from the policy's side only, in the stack that makes the policy. */
  attachToImported(principal: IPrincipal): boolean {
    if ('addManagedPolicy' in principal && typeof principal.addManagedPolicy === 'function') principal.addManagedPolicy(this);
    return this.#attached.has(principal);
  }
}

/** Attaches the policy to the grantee's identity, or throws: a grant that silently does nothing is found in production. */
export function attach(policy: IManagedPolicy, name: string, grantee: IGrantable): void {
  const principal = grantee.grantPrincipal;
  const account = principal.principalAccount;
  const foreign = account !== undefined && Token.compareStrings(account, policy.env.account) === TokenComparison.DIFFERENT;
  if (foreign) refused(`is of account ${account}, where the policy cannot be attached`);
  else if (isIdentity(principal)) principal.addManagedPolicy(policy);
  else if (!(policy instanceof PoolPolicy && policy.attachToImported(principal))) refused('cannot take a managed policy here');

  function refused(fact: string): never {
    const where = Construct.isConstruct(principal) ? principal : policy;
    const who = Construct.isConstruct(principal) ? 'the grantee' : `the grantee (${principal})`;
    refuse(
      where,
      `${who} ${fact}`,
      `grant to a role, user or group made in this app and account, or attach "${name}" to it where it is made`,
    );
  }
}

function isIdentity(principal: IPrincipal): principal is Role | User | Group {
  return Role.isRole(principal) || principal instanceof User || principal instanceof Group;
}

const poolOfFunction = new WeakMap<object, string>();

/**
 * Gives a Lambda function what it needs to find the pool without being told. A function that is let into several pools finds the first one
 * so, and the others by name.
 */
export function equip(grantee: IGrantable, poolName: string, environment: Readonly<Record<string, string>>): void {
  if (!('addEnvironment' in grantee && typeof grantee.addEnvironment === 'function')) return;
  const first = poolOfFunction.get(grantee) ?? poolName;
  poolOfFunction.set(grantee, first);
  if (first === poolName) for (const [name, value] of Object.entries(environment)) grantee.addEnvironment(name, value);
}
