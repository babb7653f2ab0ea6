import type { Request } from '../wire/index.ts';
import { place } from './decide-request.ts';
import { type Context, type Decision, owed } from './decision.ts';
import type { OwnedJob } from './job.ts';
import { ended, pending, stoppedEnding } from './transitions.ts';

/**
 * An owner that turned out lost (its session replaced, its row lost, left or gone) when a command was to be sent to it.
 *
 * A job that was being stopped has ended with it. Any other goes on elsewhere: to the next owner in one commit where the
 * message's redelivery would send that start again, else by way of `pending`, which owes an `assign`.
 */
export function decideOwnerLost(job: OwnedJob, op: Request['op'], context: Context): Decision {
  const { now, settings } = context;
  if (job.status === 'stopping') {
    const next = ended(job, stoppedEnding(job.startedAt, now, job.stopReason), now);
    return { rule: 'owner lost: ended', next, effects: owed(next, now) };
  }
  const free = pending(job, 'owner-lost', now);
  if (op !== 'start' && op !== 'assign') return { rule: 'owner lost: pending', next: free, effects: owed(free, now) };
  // The list of workers may be older than the row that was just read.
  const workers = context.workers.filter(({ session }) => session !== job.owner.session);
  const placed = place(free, { ...context, workers });
  if (placed.status === 'assigned') return { rule: 'owner lost: next owner', next: placed, effects: owed(placed, now) };
  const waiting = { ...free, dueAt: now + settings.unplacedDelayMs };
  return { rule: 'owner lost: no worker', next: waiting, effects: owed(waiting, now) };
}
