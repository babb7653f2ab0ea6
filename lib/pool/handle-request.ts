import type { Request } from '../wire/index.ts';
import { decideOwnerLost } from './decide-owner-lost.ts';
import { decideRequest, namedByRequest, type Snapshot } from './decide-request.ts';
import { type Context, type Decision, summarize } from './decision.ts';
import type { Dispatch } from './dispatch.ts';
import { type Carrier, carryOut } from './effects.ts';
import { PoolError } from './errors.ts';
import { isOwned, type Job, type OwnedJob } from './job.ts';
import type { PoolPorts, Versioned } from './ports.ts';
import type { PoolSettings } from './settings.ts';
import { isEligible } from './worker.ts';

/** How old the list of workers may be where the one at hand has no room, ms. */
const FRESH_MS = 500;

/** How often one delivery decides anew: after a lost race, after an owner that is lost, after a `next` that had to be admitted first. */
const TRIES = 10;

/**
 * One request from the queue: load, decide, carry out, and again from a fresh read where somebody else was quicker.
 *
 * Authoritative is the job record alone; this function is its only writer of owners. It may die anywhere: the queue
 * delivers the request again, and the decision on what was left behind finishes it.
 *
 * Throws a retryable `PoolError` where the request has to come again.
 */
export async function handleRequest(ports: PoolPorts, settings: PoolSettings, request: Request): Promise<void> {
  let lost: OwnedJob | undefined;
  let again = false;
  for (let tries = 0; tries < TRIES; tries++) {
    const { job, snapshot } = await load(ports, request);
    const context = await contextOf(ports, settings);
    const stillLost = lost && isSameAssignment(job?.record, lost) ? job?.record : undefined;
    const decision = stillLost ? decideOwnerLost(stillLost, request.op, context) : decideRequest(snapshot, request, context);
    ports.telemetry.decided({ subject: request.op, key: request.key, decision: summarize(decision), rule: decision.rule });
    if (stillLost) ports.telemetry.count('owner-lost');
    // An owner found lost on the way to it leaves the request itself as undecided as it was.
    else again = decision.again === true;

    const carried = await carryOut(carrierOf(ports, settings, request, snapshot.dispatch, decision), decision, job?.rev);
    lost = carried.outcome === 'owner-lost' ? carried.job : undefined;
    if (carried.outcome === 'done' && !again) return;
  }
  throw new PoolError('contended', `${request.op} at key ${JSON.stringify(request.key)}: decided ${TRIES} times and overtaken each time`, {
    retryable: true,
  });
}

/** The job record first, then the dispatch records, all consistently, and again on each try. */
async function load(ports: PoolPorts, request: Request): Promise<{ job?: Versioned<Job>; snapshot: Snapshot }> {
  const job = await ports.jobs.get(request.key);
  const named = namedByRequest(request, job?.record);
  const dispatch = named.dispatch === undefined ? undefined : await ports.dispatches.get(named.dispatch);
  const next = named.next === undefined ? undefined : await ports.dispatches.get(named.next);
  return {
    ...(job ? { job } : {}),
    snapshot: { ...(job ? { job: job.record } : {}), ...(dispatch ? { dispatch } : {}), ...(next ? { next } : {}) },
  };
}

async function contextOf(ports: PoolPorts, settings: PoolSettings): Promise<Context> {
  const [listed, pool] = await Promise.all([ports.workers.list(), ports.workers.poolState()]);
  // With nobody to place at, a worker that has just come is worth a look; not at each message of a pool that is full.
  const workers = listed.some((row) => isEligible(row, pool.generation)) ? listed : await ports.workers.list(FRESH_MS);
  return { now: ports.clock.now(), settings, pool, workers };
}

/** A start carries its own payload; that spares reading it back when it is sent at once. */
function carrierOf(
  ports: PoolPorts,
  settings: PoolSettings,
  request: Request,
  read: Dispatch | undefined,
  { before = [] }: Decision,
): Carrier {
  const carrier = { ports, settings, checksOwner: true };
  if (request.op !== 'start') return carrier;
  const put = before.flatMap((effect) => (effect.type === 'admit' ? [effect.dispatch] : []))[0];
  const dispatch = put ?? read;
  return dispatch ? { ...carrier, known: { dispatch, payload: request.payload } } : carrier;
}

function isSameAssignment(job: Job | undefined, lost: OwnedJob): job is OwnedJob {
  return job !== undefined && isOwned(job) && job.fence === lost.fence && job.dispatchId === lost.dispatchId;
}
