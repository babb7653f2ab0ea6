import { endIn, endOfEnding, outcomeIn } from '../../lib/client/observation.ts';
import { jobInWords } from '../../lib/pool/decision.ts';
import { type Dispatch, endOf } from '../../lib/pool/dispatch.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { Command } from '../../lib/wire/index.ts';
import { KEY, NOW } from '../../protocol/cast.ts';
import type { ControlPlane } from './control-plane.ts';

/**
 * What a run left behind, told so that two runs compare. Left out is what may differ: revisions, when something was recorded, how high
 * a fence is. What was given or reported is kept to the millisecond.
 */
export interface LeftBehind {
  /** Everything that is stored or was dead-lettered. */
  readonly records: string;
  /** Every command that an inbox took. */
  readonly commands: ReadonlyMap<string, CommandWeight>;
  /** All of it in one line, to be read. */
  readonly inWords: string;
}

/**
 * Commands are sent at least once, so only whether one was sent counts. A start that was stopped under the same fence need not have been
 * sent (`overruled`); a stop for a fence that was passed, or a notification, may be sent though the calm run sent none (`harmless`).
 */
export type CommandWeight = 'needed' | 'overruled' | 'harmless';

/** What a faulty run left otherwise than the calm one; undefined: nothing that matters. */
export function difference(calm: LeftBehind, faulty: LeftBehind): string | undefined {
  const missing = [...calm.commands].filter(([command, weight]) => weight !== 'overruled' && !faulty.commands.has(command));
  const extra = [...faulty.commands].filter(([command, weight]) => weight === 'needed' && !calm.commands.has(command));
  const lines = [
    ...(calm.records === faulty.records ? [] : changedLines(calm.records, faulty.records)),
    ...missing.map(([command]) => `not sent: ${command}`),
    ...extra.map(([command]) => `sent: ${command}`),
  ];
  return lines.length === 0 ? undefined : [`${faulty.inWords} instead of ${calm.inWords}`, ...lines].join('\n');
}

function changedLines(calm: string, faulty: string): readonly string[] {
  const [those, these] = [calm.split('\n'), faulty.split('\n')];
  const gone = those.filter((line) => !these.includes(line));
  const come = these.filter((line) => !those.includes(line));
  return [...gone.map((line) => `- ${line}`), ...come.map((line) => `+ ${line}`)];
}

export function leftBehind({ services, machine, ...plane }: ControlPlane): LeftBehind {
  // Asking is no fact; what is asked and answered shows in the records.
  const sent = plane.sent.filter(({ op }) => op !== 'resync');
  const jobs = services.jobs.all();
  const dispatches = [...services.dispatches.all()].sort((one, other) => (one.dispatchId < other.dispatchId ? -1 : 1));
  // When a row was last named is the sweep's own affair, and how often a worker beat before something happened is chance.
  const workers = services.workers.all().map(({ namedAt: _, beat: __, answered: ___, round: token, ...row }) => {
    const round = services.rounds.all().find((each) => each.token === token);
    return round ? { ...row, round: round.state } : row;
  });
  const deadLettered = [services.deadRequests, services.deadReports].map((queue) => [...new Set(queue.messages().map(({ body }) => body))]);

  const fences = new Set([...jobs, ...dispatches, ...sent].flatMap((each) => ('fence' in each && each.fence >= NOW ? [each.fence] : [])));
  const ranks = new Map([...fences].sort((one, other) => one - other).map((fence, rank) => [fence, `${rank + 1}. fence of the run`]));
  const told = (name: string, value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString();
    if (typeof value === 'number' && value >= NOW) return name === 'fence' ? ranks.get(value) : 'in the run';
    const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isRecord ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))) : value;
  };
  const weightOf = (command: Command): CommandWeight => {
    if (command.op === 'notify') return 'harmless';
    if (command.op === 'stop') return jobs.some(({ key, fence }) => key === command.key && fence > command.fence) ? 'harmless' : 'needed';
    return sent.some((other) => other.op === 'stop' && 'fence' in command && other.fence === command.fence) ? 'overruled' : 'needed';
  };

  const job = services.jobs.peek(KEY);
  const words = [
    job ? `${job.dispatchId} ${jobInWords(job)}` : 'no record',
    dispatches.map(dispatchInWords).join(', ') || 'no dispatch',
    [...new Set(sent.map(commandInWords))].join(', ') || 'nothing sent',
    ...deadLettered.flat().map(() => 'dead-lettered'),
  ];
  return {
    records: JSON.stringify({ jobs, dispatches, workers, deadLettered, executions: machine.running }, told, 1),
    commands: new Map(sent.map((command) => [JSON.stringify(command, told), weightOf(command)])),
    inWords: words.join(' | '),
  };
}

function dispatchInWords(record: Dispatch): string {
  const { dispatchId, status } = record;
  if (status !== 'never-started') return `${dispatchId} ${status === 'ended' ? record.end.status : status}`;
  const { outcome } = record;
  return `${dispatchId} ${outcome.outcome}${outcome.outcome === 'refused' ? `: ${outcome.reason}` : ''}`;
}

function commandInWords(command: Command): string {
  return `${command.session} ${command.op}${'dispatchId' in command ? ` ${command.dispatchId}` : ''}`;
}

/** Nothing is owed to the dispatch of this job any more: that it runs is recorded, and how it ended. */
export function assertSettled({ services }: ControlPlane, dispatchId: string): void {
  const record = services.dispatches.peek(dispatchId);
  const job = services.jobs.all().find((each) => each.dispatchId === dispatchId);
  const isSettled = record && (job?.status === 'running' ? record.status !== 'admitted' : endOf(record) !== undefined);
  if (!isSettled) throw new Error(`dispatch ${dispatchId} is not settled: ${JSON.stringify({ record, job })}`);
}

/** Who looks at both records is told what the job record knows. */
export function assertTold({ services }: ControlPlane): void {
  for (const job of services.jobs.all()) {
    const seen = { job, dispatch: services.dispatches.peek(job.dispatchId) };
    const told = { outcome: outcomeIn(seen, job), end: endIn(seen, job) };
    const started = job.startedAt === undefined ? undefined : { outcome: 'started', at: job.startedAt };
    const truth =
      job.status === 'ended' ? { outcome: job.settled.outcome, end: endOfEnding(job.settled) } : { outcome: started, end: undefined };
    if (!isSame(told, truth)) throw new Error(`told of ${job.dispatchId}: ${JSON.stringify(told)}, but its job is ${JSON.stringify(job)}`);
  }
}
