import { endOf, outcomeOf } from '../../lib/pool/dispatch.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { Scene } from './scene.ts';
import type { Asked } from './workload.ts';

/** How a dispatch ends of which nobody knows the end. */
const LOST = ['record-lost', 'lost-in-restore'];

/** Once a world is at rest: every dispatch is on record with what clients were told of it, and that is what happened in truth. */
export function checkAnswers(scene: Scene, asked: Iterable<Asked>, isGivenUp: (workerId: string) => boolean, when: string): void {
  const { pool, checker, fail } = scene;
  const { jobs, dispatches } = pool.services;
  const named = new Set(
    jobs.all().flatMap((job) => [...(job.status === 'ended' ? [] : [job.dispatchId]), ...(job.next === undefined ? [] : [job.next])]),
  );
  for (const { dispatchId, starts, outcome, end } of asked) {
    const record = dispatches.peek(dispatchId);
    const lost = checker.lostOf(dispatchId);
    const what = `${when}: dispatch ${dispatchId}, ${JSON.stringify(record)},`;
    if (!record) {
      if (lost !== 'record' && lost !== 'request' && starts.some(({ isSent }) => isSent)) fail('G6 no job lost', `${what} was sent`);
      continue;
    }
    if (!outcomeOf(record) && !named.has(dispatchId) && !lost) fail('G3 exact dispatch', `${what} has no outcome, and no job names it`);
    // Its record and its worker may both be gone.
    if (record.status === 'started' && !named.has(dispatchId) && !lost)
      fail('G3 exact dispatch', `${what} has no end, and no job names it`);
    const isMismatch = (answer: unknown) => JSON.stringify(answer).includes('fingerprint-mismatch');
    if (outcome && !lost && !isMismatch(outcome) && !isSame(outcome, outcomeOf(record)))
      fail('G3 exact dispatch', `${what} was answered ${JSON.stringify(outcome)}`);
    if (end && !lost && !isMismatch(end) && !isSame(end, endOf(record)))
      fail('G7 ends are final', `${what} was answered ${JSON.stringify(end)}`);
    checkTruth(scene, dispatchId, isGivenUp, what);
  }
}

/** What is recorded is what happened. */
function checkTruth({ pool, checker, fail }: Scene, dispatchId: string, isGivenUp: (workerId: string) => boolean, what: string): void {
  const record = pool.services.dispatches.peek(dispatchId);
  const { ups, finishes } = checker.truthOf(dispatchId);
  const truth = () =>
    `${what} in truth was up at ${JSON.stringify(ups.map(({ at }) => at))} and finished at ${JSON.stringify(finishes.map(({ at, failed }) => ({ at, failed })))}`;
  switch (record?.status) {
    case 'started':
    case 'ended': {
      const { at } = record.outcome;
      if (!ups.some((up) => up.at === at)) fail('G3 exact dispatch', truth());
      if (record.status !== 'ended' || record.end.status === 'stopped') return;
      const { status, finishedAt } = record.end;
      const isUnknown = status === 'failed' && LOST.includes(record.end.error.code) && checker.lostOf(dispatchId) !== undefined;
      const isTrue = isUnknown || finishes.some((finish) => finish.at === finishedAt && finish.failed === (status === 'failed'));
      if (!isTrue) fail('G7 ends are final', truth());
      return;
    }
    case 'never-started':
      // A worker may die, or be given up on, before it can tell that the job was up; and what was deleted tells nothing.
      if (checker.lostOf(dispatchId)) return;
      if (ups.some(({ handler: { process } }) => process.state !== 'dead' && !isGivenUp(process.name))) fail('G3 exact dispatch', truth());
      return;
    default:
  }
}
