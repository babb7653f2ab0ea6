import type { Command } from '../wire/index.ts';
import { askToConfirm, type Decision, type Effect, type OwnerCommand } from './decision.ts';
import { type Dispatch, type Settlement, settle } from './dispatch.ts';
import { PoolError } from './errors.ts';
import type { Job, OwnedJob } from './job.ts';
import type { Commit, PoolPorts } from './ports.ts';
import type { PoolSettings } from './settings.ts';
import { isOwnerLost, type Owner } from './worker.ts';

/**
 * Decisions carried out. Each call is one conditional write or one send, in the decision's order, and the function may die
 * between any two: what is missing then is what deciding the message again yields (decision.ts).
 */
export type Carried =
  | { readonly outcome: 'done' }
  /** Somebody else wrote first; nothing of the decision's commit or effects happened. */
  | { readonly outcome: 'lost-race' }
  /** Committed, but the owner that a command was meant for is lost; effects after that one did not happen. */
  | { readonly outcome: 'owner-lost'; readonly job: OwnedJob };

const DONE: Carried = { outcome: 'done' };

/** What a delivery has read or written already of the dispatch that it starts, so that sending the start reads nothing again. */
export interface KnownStart {
  readonly dispatch: Dispatch;
  readonly payload: Uint8Array;
}

export interface Carrier {
  readonly ports: PoolPorts;
  readonly settings: PoolSettings;
  /** The request function reads the owner's row before a command; a report's commands go out as they are. */
  readonly checksOwner: boolean;
  /** What the job's dispatch is owed is settled in the commit's own transaction, because the message may be discarded when it comes again. */
  readonly settlesInCommit?: boolean;
  readonly known?: KnownStart;
}

export async function carryOut(carrier: Carrier, { before = [], next, effects = [] }: Decision, rev: string | undefined): Promise<Carried> {
  const { jobs } = carrier.ports;
  const settles = carrier.settlesInCommit ? effects.find((effect) => isSettlementOf(effect, next)) : undefined;
  for (const effect of before) {
    const carried = await run(carrier, effect);
    if (carried.outcome !== 'done') return carried;
  }
  const committed = next && (settles ? await commitSettled(carrier, next, settles.settlement, rev) : await jobs.commit(next, rev));
  if (committed?.outcome === 'lost') return { outcome: 'lost-race' };
  for (const effect of effects) {
    if (effect === settles) continue;
    const carried = await run(carrier, effect);
    if (carried.outcome !== 'done') return carried;
  }
  return DONE;
}

function isSettlementOf(effect: Effect, job: Job | undefined): effect is Effect & { type: 'settle' } {
  return effect.type === 'settle' && effect.settlement.dispatchId === job?.dispatchId;
}

async function commitSettled(
  { ports, settings }: Carrier,
  next: Job,
  settlement: Settlement,
  rev: string | undefined,
): Promise<Commit<unknown>> {
  const seen = await ports.dispatches.get(settlement.dispatchId);
  const dispatch = settle(seen, settlement, ports.clock.now() + settings.retentionMs);
  if (!dispatch) return ports.jobs.commit(next, rev);
  return ports.jobs.commitSettled(next, rev, { next: dispatch, expected: seen?.status ?? 'absent' });
}

async function run(carrier: Carrier, effect: Effect): Promise<Carried> {
  const { ports, settings } = carrier;
  switch (effect.type) {
    case 'admit': {
      const { outcome } = await ports.dispatches.admit(effect.dispatch, effect.payload);
      return outcome === 'won' ? DONE : { outcome: 'lost-race' };
    }
    case 'settle':
      await settleDispatch(ports, settings, effect.settlement);
      return DONE;
    case 'send':
    case 'check-owner': {
      if (carrier.checksOwner && (await isLost(ports, effect.job.owner))) return { outcome: 'owner-lost', job: effect.job };
      if (effect.type === 'send') await sendToOwner(carrier, effect.job, effect.command);
      return DONE;
    }
    case 'tell':
      if ((await ports.commands.send(effect.command)) === 'no-inbox') ports.telemetry.count('command-dropped');
      return DONE;
    case 'request':
      await ports.requests.send([effect.request]);
      return DONE;
    case 'count':
      ports.telemetry.count(effect.name);
      return DONE;
    case 'fail':
      throw new PoolError(effect.code, effect.message, { retryable: true });
    default:
      return effect satisfies never;
  }
}

async function isLost(ports: PoolPorts, owner: Owner): Promise<boolean> {
  return isOwnerLost(await ports.workers.get(owner.worker), owner);
}

async function sendToOwner(carrier: Carrier, job: OwnedJob, command: OwnerCommand): Promise<void> {
  const { ports } = carrier;
  const sent = await ports.commands.send(await commandFor(carrier, job, command));
  if (sent === 'sent') return;
  if (!carrier.checksOwner) return ports.telemetry.count('command-dropped');
  // The row still names the session, so its inbox is only not there yet, or was taken from it: the message comes again.
  const { worker, session } = job.owner;
  throw new PoolError('unavailable', `worker "${worker}": no inbox of session ${session}, which its row still names`, { retryable: true });
}

async function commandFor(carrier: Carrier, job: OwnedJob, command: OwnerCommand): Promise<Command> {
  const { key, dispatchId, fingerprint, fence } = job;
  const to = { session: job.owner.session, key, fence };
  switch (command.op) {
    case 'start':
      return { op: 'start', ...to, dispatchId, fingerprint, attempt: job.attempt, payload: await payloadFor(carrier, job) };
    case 'stop':
      return { op: 'stop', ...to, dispatchId, fingerprint, reason: job.status === 'stopping' ? job.stopReason : 'stop-requested' };
    case 'release':
      return { op: 'release', ...to, dispatchId, fingerprint, reason: job.status === 'releasing' ? job.releaseReason : 'moved' };
    case 'notify':
      return { op: 'notify', ...to, id: command.id, payload: command.payload };
    default:
      return command satisfies never;
  }
}

/** Before any start is sent, the dispatch record's fence is at least that start's. */
async function payloadFor(carrier: Carrier, { key, dispatchId, fence, owner }: OwnedJob): Promise<Uint8Array> {
  const { ports, known } = carrier;
  const mine = known?.dispatch.dispatchId === dispatchId ? known : undefined;
  const dispatch = mine?.dispatch ?? (await ports.dispatches.get(dispatchId));
  const payload = mine?.payload ?? (await ports.dispatches.payload(dispatchId));
  if (!dispatch || !payload) {
    const what = dispatch ? 'payload' : 'record';
    // Where an earlier start was received, the owner has what is missing; nobody else could.
    await run(carrier, askToConfirm(owner.session, { key, fence }));
    throw new PoolError('record-missing', `dispatch "${dispatchId}" at key "${key}": its ${what} is missing, so it cannot be started`, {
      retryable: true,
    });
  }
  if (dispatch.fence < fence) await ports.dispatches.raiseFence(dispatchId, fence);
  return payload;
}

/**
 * Records an outcome, or an outcome and an end, where they are not recorded yet. Where a job names the
 * dispatch it is written without reading: nearly always the record is just admitted, or started where the job ended, and where it
 * is not, the failed condition brings back what it is.
 */
export async function settleDispatch(ports: PoolPorts, settings: PoolSettings, settlement: Settlement): Promise<void> {
  const { dispatches, clock } = ports;
  const expiresAt = clock.now() + settings.retentionMs;
  let seen = presumed(settlement) ?? (await dispatches.get(settlement.dispatchId));
  // Each lost race finds the record further on its one way (dispatch.ts); it can be lost thrice, and expiry starts anew once.
  for (let tries = 0; tries < 6; tries++) {
    const next = settle(seen, settlement, expiresAt);
    if (!next) return;
    const commit = await dispatches.change(next, seen?.status ?? 'absent', settlement.unnamed && settlement.fence);
    if (commit.outcome === 'won') return;
    seen = commit.current;
  }
  throw new PoolError('contended', `dispatch "${settlement.dispatchId}": changed at each try to settle it`, { retryable: true });
}

/** Undefined where nothing is to be presumed: no job names the dispatch, or it is not known what it was admitted with. */
function presumed({ dispatchId, key, fingerprint, fence, requestedAt, outcome, end, unnamed }: Settlement): Dispatch | undefined {
  if (unnamed || fingerprint === undefined) return undefined;
  const head = { dispatchId, key, fingerprint, fence, requestedAt };
  return outcome.outcome === 'started' && end ? { ...head, status: 'started', outcome } : { ...head, status: 'admitted' };
}
