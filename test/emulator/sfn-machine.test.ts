import { CreateRoleCommand, DeleteRoleCommand, DeleteRolePolicyCommand, IAMClient, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import { CreateStateMachineCommand, DeleteStateMachineCommand, DescribeExecutionCommand, SFNClient } from '@aws-sdk/client-sfn';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { sfnMachine } from '../../lib/aws/sfn-machine.ts';
import { clientConfig } from '../../stack/environment.ts';
import { aName } from '../conformance/samples.ts';
import { adapterPool } from '../support/adapter-pool.ts';

const pool = await adapterPool();
const access = clientConfig(inject('stack').environments.root);
const states = new SFNClient(access);
const iam = new IAMClient(access);
const { resyncMachineArn: stateMachineArn, reportQueueUrl } = pool.config;
const [, , , , account = '', , name = ''] = stateMachineArn.split(':');

/** One task that hands its token to a queue and waits to be woken. */
const definition = {
  StartAt: 'Wait',
  States: {
    Wait: {
      Type: 'Task',
      Resource: 'arn:aws:states:::sqs:sendMessage.waitForTaskToken',
      Parameters: { QueueUrl: reportQueueUrl, MessageBody: { 'token.$': '$$.Task.Token', 'input.$': '$' } },
      TimeoutSeconds: 60,
      End: true,
    },
  },
};

const policy = (...Statement: readonly object[]) => JSON.stringify({ Version: '2012-10-17', Statement });
const trust = policy({ Effect: 'Allow', Principal: { Service: 'states.amazonaws.com' }, Action: 'sts:AssumeRole' });
const sends = policy({ Effect: 'Allow', Action: 'sqs:SendMessage', Resource: '*' });
const role = { RoleName: name, PolicyName: 'sends' };
await iam.send(new CreateRoleCommand({ ...role, AssumeRolePolicyDocument: trust }));
await iam.send(new PutRolePolicyCommand({ ...role, PolicyDocument: sends }));
const roleArn = `arn:aws:iam::${account}:role/${name}`;
await states.send(new CreateStateMachineCommand({ name, roleArn, definition: JSON.stringify(definition) }));

afterAll(async () => {
  await states.send(new DeleteStateMachineCommand({ stateMachineArn }));
  await iam.send(new DeleteRolePolicyCommand(role));
  await iam.send(new DeleteRoleCommand(role));
  states.destroy();
  iam.destroy();
  await pool.remove();
});

const { sfn } = await pool.clientsOf(['machine']);
const machine = sfnMachine({ sfn, stateMachineArn });

async function tasksHandedOut(): Promise<readonly { readonly token: string; readonly input: object }[]> {
  const tasks: { readonly token: string; readonly input: object }[] = [];
  await expect
    .poll(
      async () => {
        tasks.push(...(await pool.take(reportQueueUrl)).map(({ Body: body = '' }) => JSON.parse(body)));
        return tasks.length;
      },
      { timeout: 20_000 },
    )
    .toBeGreaterThan(0);
  return tasks;
}

describe('the machine that times rounds', () => {
  it('starts one execution by a name, however often it is asked, and is woken once (F39)', async () => {
    const execution = aName('e');
    const input = { worker: aName('w'), session: aName('s') };
    await machine.start(execution, input);
    await machine.start(execution, input);
    await machine.start(execution, { ...input, session: aName('s') });
    const [task, ...more] = await tasksHandedOut();
    expect(more).toEqual([]);
    expect(task?.input).toMatchObject(input);
    const token = task?.token ?? '';
    await machine.wake(token, 'resolved');
    await machine.wake(token, 'resolved');
    await machine.wake(token, 'superseded');
    const executionArn = `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${execution}`;
    const described = async () => states.send(new DescribeExecutionCommand({ executionArn }));
    await expect.poll(async () => (await described()).status, { timeout: 20_000 }).toBe('SUCCEEDED');
    expect(JSON.parse((await described()).output ?? '')).toEqual({ result: 'resolved' });
    // Its name stays taken.
    await machine.start(execution, input);
  });

  it('is not disturbed by a token that nobody knows', async () => {
    await expect(machine.wake('unknown', 'gone')).resolves.toBeUndefined();
  });

  it('that is missing is no-such-pool', async () => {
    const lost = sfnMachine({ sfn: pool.root.sfn, stateMachineArn: `${stateMachineArn}-of-before` });
    await expect(lost.start(aName('e'), { worker: 'w', session: 's' })).rejects.toMatchObject({ code: 'no-such-pool' });
  });
});
