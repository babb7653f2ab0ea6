import type { EpochMs } from '../pool/job.ts';
import type { Commit, Page, PoolPorts } from '../pool/ports.ts';
import type { Recovered, Restoration } from './decide-restore.ts';
import type { AskedPage, Round } from './round.ts';

/** What resync rounds need of the world besides what requests and reports need. */
export interface ResyncPorts extends PoolPorts {
  readonly rounds: RoundStore;
  readonly restores: RestoreStore;
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

export interface RestoreStore {
  /**
   * Writes all of it in one transaction, or nothing (P7). It holds where the job record is still at `expected` (undefined: there is
   * none), each dispatch record is as `DispatchStore.change` wants it, the worker is registered under that session, neither lost
   * nor left, in that generation, which is the pool's, and the pool is not closed. What a dispatch record has stays, its
   * payload included. A retry that meets its own write has won.
   */
  restore(restoration: Restoration, expected: string | undefined): Promise<{ readonly outcome: 'won' | 'lost' }>;
  /** What was written in the recovery of that generation, in the order in which it was; each once. */
  recovered(generation: number, cursor?: string): Promise<Page<Recovered>>;
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
