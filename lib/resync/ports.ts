import type { EpochMs } from '../pool/job.ts';
import type { Commit, PoolPorts } from '../pool/ports.ts';
import type { AskedPage, Round } from './round.ts';

/** What resync rounds need of the world besides what requests and reports need. */
export interface ResyncPorts extends PoolPorts {
  readonly rounds: RoundStore;
  readonly machine: RoundMachine;
}

export interface RoundStore {
  /** Consistent. */
  get(token: string): Promise<Round | undefined>;
  /** Writes a round that nobody knows yet. */
  open(round: Round): Promise<void>;
  /** Writes what the worker is to be asked. A page that was written before stays as it is, whatever is known by now. */
  ask(pages: readonly AskedPage[]): Promise<void>;
  page(token: string, page: number): Promise<AskedPage | undefined>;
  /** Open or armed → armed; what was applied already stays. `lost`: it is over. */
  arm(token: string, armed: Pick<Round, 'asked' | 'deadline'> & { readonly taskToken?: string }): Promise<Commit<Round>>;
  /** Adds a page of the answer to those applied, with its counts. `lost`: the round is not armed, or the page was applied before. */
  apply(token: string, page: AppliedPage): Promise<{ readonly outcome: 'won' | 'lost'; readonly current?: Round }>;
  /** Gives an armed round more time. */
  extend(token: string, deadline: EpochMs): Promise<void>;
  /** Open or armed → resolved or closed. `lost`: it was over before. The round as it is then comes with both. */
  close(token: string, to: 'resolved' | 'closed'): Promise<{ readonly outcome: 'won' | 'lost'; readonly current?: Round }>;
}

export interface AppliedPage {
  readonly page: number;
  /** Of the whole answer. */
  readonly pages: number;
  readonly skipped: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** The state machine that times rounds. */
export interface RoundMachine {
  /** Starts an execution; a name that was taken before is no error, for somebody else has started it. */
  start(name: string, input: ExecutionInput): Promise<void>;
  /** Wakes the execution that waits with this token; one that is used, expired or unknown is no error. */
  wake(taskToken: string, result: RoundResult): Promise<void>;
}

/** How a round came to its end before its time; after `gone` the machine looks at the row anew. */
export type RoundResult = 'resolved' | 'superseded' | 'gone';

export interface ExecutionInput {
  readonly worker: string;
  readonly session: string;
}
