import * as z from 'zod';
import * as fields from './fields.ts';
import { encodeMessage, type Format, type Parsed, parseMessage } from './message.ts';

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

interface EndingCommand {
  readonly session: string;
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly fence: number;
  readonly reason: StopReason;
}

/** Ends every fence up to `fence` of the key at this worker, whether the start ever arrived or not. */
export interface StopCommand extends EndingCommand {
  readonly op: 'stop';
}

/** As `stop`, but the job is to run elsewhere: answered `released`, and not tried again where it fails. */
export interface ReleaseCommand extends EndingCommand {
  readonly op: 'release';
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

const { version: v, session, key, dispatchId, fingerprint, fence } = fields;
const ended = { v, session, key, dispatchId, fingerprint, fence, reason: fields.stopReason };
const askedJob = z.object({ key, fence, running: fields.flag }, { error: 'an object with key, fence and running' });

/** The wire form, by `op`. */
export const commandSchemas = {
  start: z.object({ v, op: z.literal('start'), session, key, dispatchId, fingerprint, ...fields.payload, fence, attempt: fields.attempt }),
  stop: z.object({ ...ended, op: z.literal('stop') }),
  release: z.object({ ...ended, op: z.literal('release') }),
  notify: z.object({ v, op: z.literal('notify'), session, key, fence, id: fields.notificationId, ...fields.payload }),
  resync: z
    .object({
      v,
      op: z.literal('resync'),
      session,
      round: fields.round,
      beat: fields.beat,
      page: fields.page,
      pages: fields.pages,
      jobs: z.array(askedJob, { error: 'a list of jobs' }),
    })
    .check(fields.checkPage),
  confirm: z.object({ v, op: z.literal('confirm'), session, key, fence }),
};

type WireCommand = z.output<(typeof commandSchemas)[keyof typeof commandSchemas]>;
const commands: Format<WireCommand> = { tag: 'op', schemas: commandSchemas };

/** Reads the body of a message in an inbox. Unknown fields are ignored. */
export function parseCommand(body: string): Parsed<Command> {
  return parseMessage(commands, body);
}

/** The body for an inbox, in ASCII. Throws a `WireError` where the reader would refuse it. */
export function encodeCommand(command: Command): string {
  return encodeMessage(commands, command);
}
