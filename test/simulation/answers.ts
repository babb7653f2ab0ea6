import { type Dispatch, endOf, type Outcome, outcomeOf } from '../../lib/pool/dispatch.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { MemoryServices } from '../../lib/testing/memory-services.ts';
import type { Scene } from './scene.ts';
import type { Asked } from './workload.ts';

/** How a dispatch ends of which nobody knows the end. */
const LOST = ['record-lost', 'lost-in-restore'];

/** Once a world is at rest: every dispatch is on record with what clients were told of it, and that is what happened in truth. */
export function checkAnswers(scene: Scene, asked: Iterable<Asked>, isGivenUp: (workerId: string) => boolean, when: string): void {
  const { pool, checker } = scene;
  const { jobs, dispatches } = pool.services;
  const named = new Set(
    jobs.all().flatMap((job) => [...(job.status === 'ended' ? [] : [job.dispatchId]), ...(job.next === undefined ? [] : [job.next])]),
  );
  for (const { dispatchId, starts, outcome, end } of asked) {
    const record = dispatches.peek(dispatchId);
    const lost = checker.lostOf(dispatchId);
    const what = () => `${when}: dispatch ${dispatchId}, ${JSON.stringify(record)},`;
    if (starts.some(({ isSent }) => isSent) && lost !== 'record' && lost !== 'request')
      checker.check(record !== undefined, 'what was sent is on record', () => `${what()} was sent`);
    if (!record) continue;
    if (!lost) {
      const isNamed = named.has(dispatchId);
      const hasOutcome = outcomeOf(record) !== undefined || isNamed;
      checker.check(hasOutcome, 'a dispatch has an outcome, or a job that is to give it one', () => `${what()} has neither`);
      const hasEnd = record.status !== 'started' || isNamed;
      checker.check(hasEnd, 'a dispatch that started has an end, or a job that is to give it one', () => `${what()} has neither`);
      const isMismatch = (answer: unknown) => JSON.stringify(answer).includes('fingerprint-mismatch');
      const told = (answer: unknown) => () => `${what()} was answered ${JSON.stringify(answer)}`;
      if (outcome && !isMismatch(outcome))
        checker.check(isSame(outcome, outcomeOnRecord(pool.services, record)), 'clients were told the outcome on record', told(outcome));
      if (end && !isMismatch(end)) checker.check(isSame(end, endOf(record)), 'clients were told the end on record', told(end));
    }
    checkTruth(scene, dispatchId, isGivenUp, what);
  }
}

/**
 * Of a dispatch that was up and waits for its next try, the job may be all that tells of it: where its end was heard before its start, it is
 * settled as started once it is up again, or over.
 */
export function outcomeOnRecord({ jobs }: MemoryServices, dispatch: Dispatch): Outcome | undefined {
  const job = jobs.peek(dispatch.key);
  const at = job?.status === 'pending' && job.dispatchId === dispatch.dispatchId ? job.startedAt : undefined;
  return outcomeOf(dispatch) ?? (at === undefined ? undefined : { outcome: 'started', at });
}

/** What is recorded is what happened. */
function checkTruth({ pool, checker }: Scene, dispatchId: string, isGivenUp: (workerId: string) => boolean, what: () => string): void {
  const record = pool.services.dispatches.peek(dispatchId);
  const { ups, finishes } = checker.truthOf(dispatchId);
  const truth = () =>
    `${what()} in truth was up at ${JSON.stringify(ups.map(({ at }) => at))} and finished at ${JSON.stringify(finishes.map(({ at, failed }) => ({ at, failed })))}`;
  switch (record?.status) {
    case 'started':
    case 'ended': {
      const { at } = record.outcome;
      checker.check(
        ups.some((up) => up.at === at),
        'what is on record as started was up then',
        truth,
      );
      if (record.status !== 'ended' || record.end.status === 'stopped') return;
      const { status, finishedAt } = record.end;
      const code = status === 'failed' ? record.end.error.code : '';
      // Another one turned out to run there, whose record was lost; of this one nothing needs to have been.
      const isUnknown = code === 'lost-in-restore' || (code === 'record-lost' && checker.lostOf(dispatchId) !== undefined);
      const isTrue = isUnknown || finishes.some((finish) => finish.at === finishedAt && finish.failed === (status === 'failed'));
      checker.check(isTrue, 'what is on record as the end is what happened', truth);
      return;
    }
    case 'never-started': {
      // A worker may die, be given up on, or seem gone by a table put back, before it can tell that the job was up; and what was deleted tells nothing.
      if (checker.lostOf(dispatchId)) return;
      // Another one turned out to run there, and whoever was to start this one may do so before it hears of that.
      if (record.outcome.outcome === 'start-failed' && LOST.includes(record.outcome.error.code)) return;
      const wasUp = ups.some(
        ({ handler }) => handler.process.state !== 'dead' && !isGivenUp(handler.process.name) && !checker.wasTaken(handler),
      );
      checker.check(!wasUp, 'what is on record as never started was not up', truth);
      return;
    }
    default:
  }
}
