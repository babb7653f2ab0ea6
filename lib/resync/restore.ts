import { carryOut } from '../pool/effects.ts';
import { PoolError } from '../pool/errors.ts';
import type { PoolSettings } from '../pool/settings.ts';
import type { ConfirmedReport, KeyBusyReport, Report } from '../wire/index.ts';
import { decideHolder, decideRestore, inWords, type RestoreDecision, type RestoreSnapshot } from './decide-restore.ts';
import type { ResyncPorts } from './ports.ts';

/**
 * Missing records are restored by the worker that really runs the job: load, decide, one transaction, effects; and again from a fresh read
 * where it did not hold.
 *
 * Authoritative are the records where they are, and the worker for what they lack. Nobody is kept waiting: until
 * the transaction is through, everybody decides as without it, and whatever they write makes it lose.
 *
 *     died before the transaction   at most an end was settled that was to be overwritten, or a large payload written that no head points
 *                                   to: the report comes again (P9). The handler knows nothing of all this, and goes on.
 *     after it                      all of it is there, what `running` owes included: the report that comes again finds
 *                                   nothing missing, and repeats what the job owes otherwise (a stop that was asked for).
 *     never delivered again         the next round asks about what it finds running, and that is confirmed again.
 */
const TRIES = 10;

/**
 * The answer to `confirm`. Throws a retryable `PoolError` where the report has to come again; what it would restore stays missing until then.
 */
export async function restoreConfirmed(ports: ResyncPorts, settings: PoolSettings, report: ConfirmedReport): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const { rev, snapshot } = await load(ports, report, report.dispatchId);
    const decision = decideRestore(snapshot, report, { now: ports.clock.now(), settings });
    if (await isCarriedOut(ports, settings, report, decision, rev)) return;
  }
  throw overtaken(report);
}

export function isKeyBusy(report: Report): report is KeyBusyReport {
  return report.type === 'refused' && report.reason === 'key-busy';
}

/** Whether a record was lost by which the key seemed free, and is restored. False: a key-busy report like any other, not judged yet. */
export async function restoreHolder(ports: ResyncPorts, settings: PoolSettings, report: KeyBusyReport): Promise<boolean> {
  for (let tries = 0; tries < TRIES; tries++) {
    const { rev, snapshot } = await load(ports, report, report.running.dispatchId);
    const decision = decideHolder(snapshot, report, { now: ports.clock.now(), settings });
    if (!decision) return false;
    if (await isCarriedOut(ports, settings, report, decision, rev)) return true;
  }
  throw overtaken(report);
}

/** The job record first, then the dispatch records, all consistently, and again on each try. */
async function load(
  { jobs, dispatches, workers }: ResyncPorts,
  { key, worker }: ConfirmedReport | KeyBusyReport,
  dispatchId: string,
): Promise<{ readonly rev?: string; readonly snapshot: RestoreSnapshot }> {
  const found = await jobs.get(key);
  const dispatch = await dispatches.get(dispatchId);
  const hasPayload = dispatch !== undefined && (await dispatches.payload(dispatchId)) !== undefined;
  const other = found && found.record.dispatchId !== dispatchId ? found.record.dispatchId : undefined;
  const named = other === undefined ? undefined : await dispatches.get(other);
  const row = await workers.get(worker);
  return {
    ...(found ? { rev: found.rev } : {}),
    snapshot: {
      ...(found ? { job: found.record } : {}),
      ...(dispatch ? { dispatch } : {}),
      hasPayload,
      ...(named ? { named } : {}),
      ...(row ? { row } : {}),
      pool: await workers.poolState(0),
    },
  };
}

async function isCarriedOut(
  ports: ResyncPorts,
  settings: PoolSettings,
  { type, key, worker, fence }: ConfirmedReport | KeyBusyReport,
  decision: RestoreDecision,
  rev: string | undefined,
): Promise<boolean> {
  const { rule, before = [], restoration, effects = [] } = decision;
  const carrier = { ports, settings, checksOwner: false };
  ports.telemetry.decided({ subject: type, key, decision: inWords(decision), rule, worker, fence });
  await carryOut(carrier, { rule, effects: before }, rev);
  if (restoration) {
    const { outcome } = await ports.restores.restore(restoration, rev);
    if (outcome === 'lost') return false;
    ports.telemetry.count('restored');
  }
  await carryOut(carrier, { rule, effects }, rev);
  return true;
}

function overtaken({ type, key }: ConfirmedReport | KeyBusyReport): PoolError {
  return new PoolError('contended', `${type} at key ${JSON.stringify(key)}: overtaken ${TRIES} times`, { retryable: true });
}
