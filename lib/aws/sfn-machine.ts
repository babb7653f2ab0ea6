import { SendTaskSuccessCommand, type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { RoundMachine } from '../resync/ports.ts';
import { isNameTaken, isTaskOver, translate } from './errors.ts';

export interface SfnMachineOptions {
  readonly sfn: SFNClient;
  readonly stateMachineArn: string;
}

/** The state machine that times resync rounds, on Step Functions. */
export function sfnMachine({ sfn, stateMachineArn }: SfnMachineOptions): RoundMachine {
  return {
    async start(name, input) {
      const command = new StartExecutionCommand({
        stateMachineArn,
        name,
        input: JSON.stringify({ ...input, step: { silence: { rounds: 0 } } }),
      });
      await unless(isNameTaken, `execution "${name}"`, () => sfn.send(command));
    },
    async wake(taskToken, result) {
      const command = new SendTaskSuccessCommand({ taskToken, output: JSON.stringify({ result }) });
      await unless(isTaskOver, 'task of a resync round', () => sfn.send(command));
    },
  };
}

async function unless(isNormal: (error: unknown) => boolean, what: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!isNormal(error)) throw translate(what, error);
  }
}
