/** Why a handler is asked to stop. */
export type StopReason = 'stop-requested' | 'replaced' | 'moved' | 'worker-draining' | 'pool-closed' | 'lease-lost' | 'evicted';

export interface StartCommand {
  readonly op: 'start';
  /** The worker session that this is for; any other one drops it. So in every command. */
  readonly session: string;
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly payload: Uint8Array;
  readonly fence: number;
  /** 1 for the first try; rises with each retry or restart. */
  readonly attempt: number;
}

/** Ends every fence up to `fence` of the key at this worker, whether the start ever arrived or not. */
export interface StopCommand {
  readonly op: 'stop';
  readonly session: string;
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly reason: StopReason;
}

/** As `stop`, but the job is to run elsewhere: answered `released`, and not tried again where it fails. */
export interface ReleaseCommand {
  readonly op: 'release';
  readonly session: string;
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly reason: StopReason;
}

export interface NotifyCommand {
  readonly op: 'notify';
  readonly session: string;
  readonly key: string;
  readonly fence: number;
  readonly id: string;
  readonly payload: Uint8Array;
}

/** One job that a resync round asks about. */
export interface AskedJob {
  readonly key: string;
  readonly fence: number;
  /** It was confirmed running when the round was armed. */
  readonly running: boolean;
}

/** One page of the jobs that a round asks the worker about. */
export interface ResyncCommand {
  readonly op: 'resync';
  readonly session: string;
  /** The round's token. */
  readonly round: string;
  /** The worker's beat as looked at before the round's timer started. */
  readonly beat: number;
  /** 1 to `pages`. */
  readonly page: number;
  readonly pages: number;
  readonly jobs: readonly AskedJob[];
}

/** Asks for everything about a job that runs without a record. */
export interface ConfirmCommand {
  readonly op: 'confirm';
  readonly session: string;
  readonly key: string;
  readonly fence: number;
}

export type Command = StartCommand | StopCommand | ReleaseCommand | NotifyCommand | ResyncCommand | ConfirmCommand;
