import { type HistoryEvent, paginateGetExecutionHistory, paginateListExecutions, SFNClient } from '@aws-sdk/client-sfn';
import { clientConfig } from '../stack/environment.ts';
import type { LocalStack } from '../stack/local-stack.ts';
import { tallyOf } from './verdict.ts';

/** How resync rounds came to their end, by what the state machine has of its executions. */
export class Rounds implements Disposable {
  readonly #client: SFNClient;
  readonly #machine: string;

  constructor({ environments, poolConfig }: LocalStack) {
    this.#client = new SFNClient(clientConfig(environments.root));
    this.#machine = poolConfig.resyncMachineArn;
  }

  async executions(): Promise<readonly string[]> {
    const found: string[] = [];
    for await (const { executions = [] } of paginateListExecutions({ client: this.#client }, { stateMachineArn: this.#machine }))
      found.push(...executions.flatMap(({ executionArn }) => executionArn ?? []));
    return found;
  }

  /** Result → rounds, of all executions but those named. */
  async tally(before: readonly string[]): Promise<Readonly<Record<string, number>>> {
    const results: Result[] = [];
    for (const executionArn of await this.executions()) {
      if (before.includes(executionArn)) continue;
      for await (const { events = [] } of paginateGetExecutionHistory({ client: this.#client }, { executionArn }))
        results.push(...events.flatMap(resultsOf));
    }
    // Two executions may find the same session lost, and it was lost once.
    const isFirst = ({ result, session }: Result, index: number) =>
      results.findIndex((other) => other.result === result && other.session === session) === index;
    return tallyOf(results.filter((each, index) => each.result !== 'lost' || isFirst(each, index)).map(({ result }) => result));
  }

  [Symbol.dispose](): void {
    this.#client.destroy();
  }
}

/** Of one round, with one session. */
interface Result {
  readonly session: string;
  readonly result: string;
}

/** What the step that follows its expiry says of a round. */
const expired: Readonly<Record<string, string>> = {
  open: 'unanswered',
  behind: 'behind',
  wait: 'revoked',
  reassign: 'lost',
  done: 'stale',
};

/** A round is over where the machine was woken, or where its time was judged to be up. */
function resultsOf({ stateEnteredEventDetails: entered, stateExitedEventDetails: exited }: HistoryEvent): readonly Result[] {
  if (entered?.name === 'Woken') {
    const { session, woken } = JSON.parse(entered.input ?? '{}');
    return [{ session, result: woken.result }];
  }
  if (exited?.name !== 'Expire') return [];
  const { session, step } = JSON.parse(exited.output ?? '{}');
  return [{ session, result: expired[step.next] ?? step.next }];
}
