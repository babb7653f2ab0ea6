import { summarize } from '../pool/decision.ts';
import { carryOut } from '../pool/effects.ts';
import { isDeploymentWrong, PoolError, reasonOf } from '../pool/errors.ts';
import type { PoolSettings } from '../pool/settings.ts';
import { isPresent, type WorkerRow } from '../pool/worker.ts';
import type { ResyncEntry, ResyncReport } from '../wire/index.ts';
import { atOnce } from './at-once.ts';
import { asReport, decideEntry } from './decide-entry.ts';
import type { ResyncPorts } from './ports.ts';
import { isKeyBusy, restoreHolder } from './restore.ts';
import { type Asked, isComplete, type Round, STILL_OPEN } from './round.ts';
import { closeRound } from './run-round.ts';

/** An entry that fails this often, or that no try can mend, is skipped and told of, and its round ends incomplete. */
const ENTRY_TRIES = 5;
const TRIES = 10;

/**
 * One page of a worker's answer, entry by entry, those of different keys side by side.
 *
 * The page counts only while the worker's row points at its round and the round is armed; else it is discarded whole, also where it
 * comes again after its round was superseded (R11). That is why an end and its settlement go in one transaction here: a redelivery
 * cannot be relied upon to settle. Everything else that an entry owes is found by others: a pending job by the sweep.
 *
 * Dying anywhere: the page comes again, entries that were applied find nothing to do, and the set of applied pages counts it once.
 */
export async function applyPage(ports: ResyncPorts, settings: PoolSettings, report: ResyncReport, receiveCount: number): Promise<void> {
  const { rounds, workers, telemetry } = ports;
  const round = await rounds.get(report.round);
  const row = await workers.get(report.worker);
  if (!round || !row || !isCurrent(round, row, report)) return telemetry.count('page-discarded');

  if (!round.applied.has(report.page)) {
    const { skipped, counts } = await applyEntries(ports, settings, report, { round, row, receiveCount });
    const applied = await rounds.apply(report.round, { page: report.page, pages: report.pages, skipped, counts });
    if (!applied.current || !isComplete(applied.current)) return;
  } else if (!isComplete(round)) return;
  await closeRound(ports, report.round, 'resolved', 'resolved');
}

function isCurrent(round: Round, row: WorkerRow, { worker, session }: ResyncReport): boolean {
  return (
    round.worker === worker &&
    round.session === session &&
    row.session === session &&
    isPresent(row) &&
    row.round === round.token &&
    round.state === 'armed'
  );
}

interface Answered {
  readonly round: Round;
  readonly row: WorkerRow;
  readonly receiveCount: number;
}

async function applyEntries(ports: ResyncPorts, settings: PoolSettings, report: ResyncReport, { round, row, receiveCount }: Answered) {
  const page = report.page <= round.asked ? await ports.rounds.page(round.token, report.page) : undefined;
  const asked = new Map(page?.jobs.map((job) => [job.key, job]));
  const counts: Record<string, number> = {};
  let skipped = 0;
  let failure: unknown;
  async function apply(entry: ResyncEntry): Promise<void> {
    try {
      const said = await applyEntry(ports, settings, report, entry, row, asked.get(entry.key));
      for (const name of said) counts[name] = (counts[name] ?? 0) + 1;
    } catch (error) {
      if (isDeploymentWrong(error)) throw error;
      const isHopeless = error instanceof PoolError && !error.retryable;
      // Its neighbours go on; the page comes again for it, until it was tried often enough.
      if (receiveCount < ENTRY_TRIES && !isHopeless) failure ??= error;
      else {
        skipped++;
        const message = `page ${report.page} of round ${round.token}, key ${JSON.stringify(entry.key)}`;
        ports.telemetry.failed({ message, receiveCount, reason: reasonOf(error), error });
      }
    }
  }

  // In order those of one key, each of which is to meet what the one before it left.
  await atOnce([...Map.groupBy(report.entries, ({ key }) => key).values()], async (entries) => {
    for (const entry of entries) await apply(entry);
  });
  if (failure !== undefined) throw failure;
  return { skipped, counts };
}

/** The rule that it fell under, and whether that leaves something open. */
async function applyEntry(
  ports: ResyncPorts,
  settings: PoolSettings,
  { worker, session, at }: ResyncReport,
  entry: ResyncEntry,
  row: WorkerRow,
  asked: Asked | undefined,
): Promise<readonly string[]> {
  // An entry of another fence than the asked one says something that was not asked.
  const answering = { worker, session, at, ...(asked && asked.fence === entry.fence ? { asked } : {}) };
  if (entry.state === 'refused') {
    const report = asReport(entry, answering);
    if (isKeyBusy(report) && (await restoreHolder(ports, settings, report))) return ['holder restored'];
  }
  for (let tries = 0; tries < TRIES; tries++) {
    const job = await ports.jobs.get(entry.key);
    const named =
      'dispatchId' in entry && (!job || job.record.dispatchId !== entry.dispatchId || job.record.fence !== entry.fence)
        ? entry.dispatchId
        : undefined;
    const dispatch = named === undefined ? undefined : await ports.dispatches.get(named);
    const holder =
      entry.state === 'refused' && entry.reason === 'key-busy' ? await ports.dispatches.get(entry.running.dispatchId) : undefined;
    const pool = await ports.workers.poolState();
    const snapshot = { row, pool, ...(job ? { job: job.record } : {}), ...(dispatch ? { dispatch } : {}), ...(holder ? { holder } : {}) };
    const decision = decideEntry(snapshot, entry, answering, { now: ports.clock.now(), settings });
    ports.telemetry.decided({
      subject: `entry ${entry.state}`,
      key: entry.key,
      decision: summarize(decision),
      rule: decision.rule,
      worker,
      fence: entry.fence,
    });
    const carried = await carryOut({ ports, settings, checksOwner: false, settlesInCommit: true }, decision, job?.rev);
    const isOpen =
      entry.state === 'starting' || decision.effects?.some((effect) => effect.type === 'tell' && effect.command.op === 'confirm');
    if (carried.outcome === 'done') return isOpen ? [decision.rule, STILL_OPEN] : [decision.rule];
  }
  throw new PoolError('contended', `entry of key ${JSON.stringify(entry.key)}: overtaken ${TRIES} times`, { retryable: true });
}
