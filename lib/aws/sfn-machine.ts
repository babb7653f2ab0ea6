import { SendTaskSuccessCommand, type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { RoundMachine } from '../resync/ports.ts';
import { translate } from './errors.ts';

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
      await unless(TAKEN, `execution "${name}"`, () => sfn.send(command));
    },
    async wake(taskToken, result) {
      const command = new SendTaskSuccessCommand({ taskToken, output: JSON.stringify({ result }) });
      await unless(OVER, 'task of a resync round', () => sfn.send(command));
    },
  };
}

/** Somebody else has started it, now or within the last 90 days. */
const TAKEN: ReadonlySet<string> = new Set(['ExecutionAlreadyExists']);
/** Used, timed out or unknown: the machine has gone on without it. */
const OVER: ReadonlySet<string> = new Set(['TaskTimedOut', 'TaskDoesNotExist', 'InvalidToken']);

async function unless(normal: ReadonlySet<string>, what: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (error instanceof Error && normal.has(error.name)) return;
    throw translate(what, error);
  }
}
