import { Duration } from 'aws-cdk-lib';
import { expect, test } from 'vitest';
import type { JobPoolProps } from '../../infra/index.ts';
import type { Step } from '../../lib/resync/run-round.ts';
import { aPool, resourcesOf } from './synthesised.ts';

interface State {
  readonly Type: string;
  readonly Resource?: unknown;
  readonly Next?: string;
  readonly Seconds?: number;
  readonly TimeoutSeconds?: number;
  readonly Parameters?: unknown;
  readonly Retry?: readonly { readonly ErrorEquals: readonly string[]; readonly MaxAttempts: number }[];
  readonly Catch?: readonly { readonly ErrorEquals: readonly string[]; readonly Next: string }[];
  readonly Choices?: readonly { readonly Variable: string; readonly StringEquals: string; readonly Next: string }[];
  readonly Default?: string;
}

function machineOf(props: JobPoolProps = {}) {
  const { stack } = aPool({ poolName: 'feeds', ...props });
  const [machine] = Object.values(resourcesOf(stack, 'AWS::StepFunctions::StateMachine'));
  const text = machine?.Properties.DefinitionString['Fn::Join'][1]
    .map((part: unknown) => (typeof part === 'string' ? part : '<ref>'))
    .join('');
  const definition: { readonly StartAt: string; readonly States: Readonly<Record<string, State>> } = JSON.parse(text);
  const state = (name: string): State => definition.States[name] ?? expect.fail(`there is no state ${name}`);
  return { stack, properties: machine?.Properties, definition, state };
}

test('an answer is waited for by a timer of the machine, as long as a lease, which a retry or the answer alone ends', () => {
  const { state } = machineOf({ lease: Duration.seconds(12) });
  const arm = state('Arm');
  expect(JSON.stringify(arm.Resource)).toContain('lambda:invoke.waitForTaskToken');
  expect(arm.TimeoutSeconds).toBe(12);
  expect(arm.Catch?.[0]).toMatchObject({ ErrorEquals: ['States.Timeout'], Next: 'Expire' });
  // This stands for every error but the timeout, which must not be tried again.
  expect(arm.Retry?.flatMap(({ ErrorEquals }) => ErrorEquals)).toEqual(['States.TaskFailed']);
  expect(state('Behind')).toMatchObject({ Type: 'Wait', Seconds: 12, Next: 'Expire' });
  expect(state('Expire').Parameters).toMatchObject({ waitedSeconds: 12 });
});

test('where nobody could ask, a lease is waited for all the same, and then it is judged whether the worker is dead', () => {
  const { state } = machineOf();
  expect(state('Arm').Catch?.[1]).toMatchObject({ ErrorEquals: ['States.ALL'], Next: 'Behind' });
});

test('whatever a step answers, the machine has a way for it', () => {
  const { state } = machineOf();
  const ways = {
    arm: 'Arm',
    open: 'Open',
    behind: 'Behind',
    wait: 'WaitLease',
    reassign: 'BetweenWalks',
    done: 'Done',
  } satisfies Record<Step['next'], string>;
  const next = state('Next');
  const chosen = next.Choices?.map(({ StringEquals, Next }) => [StringEquals, Next]);
  expect({ ...Object.fromEntries(chosen ?? []), done: next.Default }).toEqual(ways);
  for (const name of ['Open', 'Expire', 'Lose', 'Reassign']) expect(state(name).Next).toBe('Next');
  expect([state('WaitLease').Next, state('BetweenWalks').Next]).toEqual(['Lose', 'Reassign']);
});

test('the row is looked at before any timer starts', () => {
  const { definition, state } = machineOf();
  expect(definition.StartAt).toBe('Open');
  expect(state('Open').Type).toBe('Task');
});

test('a step that fails is tried again', () => {
  const { definition } = machineOf();
  const tasks = Object.values(definition.States).filter(({ Type }) => Type === 'Task');
  expect(tasks).toHaveLength(5);
  for (const { Retry } of tasks) expect(Retry?.[0]?.MaxAttempts).toBeGreaterThanOrEqual(3);
});

test('it runs each name once, waits for days if need be, and its log has every event and no data', () => {
  const { properties } = machineOf();
  expect(properties.StateMachineType).toBe('STANDARD');
  expect(properties.StateMachineName).toBe('holdfast-feeds-resync');
  expect(properties.LoggingConfiguration).toMatchObject({ Level: 'ALL', IncludeExecutionData: false });
});

test('it may call the one function of its steps', () => {
  const { stack } = machineOf();
  const role = Object.entries(resourcesOf(stack, 'AWS::IAM::Role')).find(([id]) => id.includes('ResyncMachineRole'))?.[1];
  const statements = role?.Properties.Policies.flatMap(
    ({ PolicyDocument }: { PolicyDocument: { Statement: unknown } }) => PolicyDocument.Statement,
  );
  const invoking = statements.filter(({ Action }: { Action: unknown }) => Action === 'lambda:InvokeFunction');
  expect(invoking).toEqual([
    { Action: 'lambda:InvokeFunction', Effect: 'Allow', Resource: { 'Fn::GetAtt': [expect.stringContaining('ResyncFunction'), 'Arn'] } },
  ]);
  expect(Object.keys(resourcesOf(stack, 'AWS::IAM::Policy'))).toEqual([]);
});
