import type { decideOwnerLost } from '../../lib/pool/decide-owner-lost.ts';
import type { decideReport } from '../../lib/pool/decide-report.ts';
import type { decideRequest } from '../../lib/pool/decide-request.ts';
import { type Decision, endingInWords, summarize } from '../../lib/pool/decision.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { isOwnerLost, Owner, WorkerRow } from '../../lib/pool/worker.ts';
import type { decideEntry } from '../../lib/resync/decide-entry.ts';
import type { decideExpiry } from '../../lib/resync/decide-expiry.ts';
import { type decideHolder, type decideRestore, inWords, type RestoreDecision } from '../../lib/resync/decide-restore.ts';
import type { decideEnding, decideStart } from '../../lib/worker/fences.ts';
import type { answerRound } from '../../lib/worker/round.ts';

/**
 * What was decided, in a name: what came, the state of the record as a column of the tables, the rule, and what is done, but for ids and fences.
 * Two situations that a decider takes for the same have the same name.
 */
export const MET = {
  decideRequest: ([{ job }, { op }, { now }]: Parameters<typeof decideRequest>, decision: Decision) =>
    columns(job, now).map((at) => `request ${op} × ${at}: ${words(decision, job)}`),
  decideReport: ([{ job }, { type }, { now }]: Parameters<typeof decideReport>, decision: Decision) =>
    columns(job, now).map((at) => `report ${type} × ${at}: ${words(decision, job)}`),
  decideOwnerLost: ([job, op, { now }]: Parameters<typeof decideOwnerLost>, decision: Decision) =>
    columns(job, now).map((at) => `owner lost, ${op} × ${at}: ${words(decision, job)}`),
  decideEntry: ([{ job }, { state }, , { now }]: Parameters<typeof decideEntry>, decision: Decision) =>
    columns(job, now).map((at) => `entry ${state} × ${at}: ${words(decision, job)}`),
  decideRestore: ([{ job }, , { now }]: Parameters<typeof decideRestore>, decision: RestoreDecision) =>
    columns(job, now).map((at) => `confirmed × ${at}: ${restorationWords(decision, job)}`),
  decideHolder: ([{ job }, , { now }]: Parameters<typeof decideHolder>, decision: RestoreDecision | undefined) =>
    columns(job, now).map((at) => `key-busy × ${at}: ${decision ? restorationWords(decision, job) : 'a report like any other'}`),
  isOwnerLost: ([row, owner]: Parameters<typeof isOwnerLost>, isLost: boolean) => [
    `owner’s row × ${rowColumn(row, owner)}: ${isLost ? 'owner lost' : 'send'}`,
  ],
  decideExpiry: (_: Parameters<typeof decideExpiry>, { outcome }: ReturnType<typeof decideExpiry>) => [`round expires: ${outcome}`],
  decideStart: ([{ fence }, { up }]: Parameters<typeof decideStart>, decision: ReturnType<typeof decideStart>) => [
    `worker, start: ${startInWords(decision, up !== undefined && fence > up.fence)}`,
  ],
  decideEnding: ([{ op, fence }, { up }]: Parameters<typeof decideEnding>, decision: ReturnType<typeof decideEnding>) => [
    `worker, ${op}: ${stopInWords(decision, up === undefined ? 'what is not up' : up.fence === fence ? 'what is up' : 'what is up, under a lower fence')}`,
  ],
  answerRound: (_: Parameters<typeof answerRound>, pages: ReturnType<typeof answerRound>) =>
    pages.flatMap(({ entries }) => entries.map(({ state }) => `worker, round: ${state}`)),
} as const;

export type Decider = keyof typeof MET;

/** The state of a record, as the tables name it; what waits and ran before is in two columns. */
function columns(job: Job | undefined, now: number): readonly string[] {
  if (!job) return ['no record'];
  const next = job.next === undefined ? '' : ', next';
  const ran = job.startedAt !== undefined;
  switch (job.status) {
    case 'pending':
      if (job.dueAt > now) return [`pending, not due${next}`];
      return [`pending (${job.because})${next}`, ...(ran ? [`pending, ran before${next}`] : [])];
    case 'stopping':
    case 'releasing':
      return [`${job.status}${ran ? ', ran' : ''}${next}`];
    default:
      return [`${job.status}${next}`];
  }
}

function startInWords(decision: ReturnType<typeof decideStart>, isHigher: boolean): string {
  switch (decision.do) {
    case 'keep':
      return `keep the ${isHigher ? 'new' : 'old'} fence`;
    case 'refuse':
      return `refuse, ${decision.refusal.reason}`;
    case 'answer':
      return `answer ${decision.type}`;
    case 'repeat':
      return `repeat ${decision.report.type}`;
    default:
      return decision.do;
  }
}

function stopInWords(decision: ReturnType<typeof decideEnding>, what: string): string {
  switch (decision.do) {
    case 'end':
      return `end ${what}`;
    case 'repeat':
      return `repeat ${decision.report.type}`;
    default:
      return decision.do;
  }
}

function rowColumn(row: WorkerRow | undefined, owner: Owner): string {
  if (!row) return 'no row';
  return row.session === owner.session ? row.state : 'another session';
}

function words(decision: Decision, job: Job | undefined): string {
  return `${decision.rule}: ${plain(summarize(decision), job)}`;
}

function restorationWords(decision: RestoreDecision, job: Job | undefined): string {
  return `${decision.rule}: ${plain(inWords(decision), job)}`;
}

/** Without ids and fences, and whichever way the last job had ended. */
function plain(text: string, job: Job | undefined): string {
  const named = text.replace(/\b(?:c\d+-\d+|bad-\d+|d\d)\b/g, 'd').replace(/fence \d+/g, 'its fence');
  return job?.status === 'ended' ? named.replace(`settle d ${endingInWords(job.settled)}`, 'settle its end') : named;
}
