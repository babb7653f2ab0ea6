import type { Delivery } from '../pool/batch.ts';
import { PoolError } from '../pool/errors.ts';
import { handleReport } from '../pool/handle-report.ts';
import type { PoolSettings } from '../pool/settings.ts';
import { parseReport, type RegisteredReport } from '../wire/index.ts';
import { applyPage } from './apply-page.ts';
import type { ResyncPorts } from './ports.ts';
import { isKeyBusy, restoreConfirmed, restoreHolder } from './restore.ts';
import { executionName } from './run-round.ts';

/** Jobs that wait and are asked for at most when a worker comes; the sweep sees to the others. */
const DUE_AT_ONCE = 100;

/** One delivery of the report queue: a fact about a job, what a worker was asked to confirm, a worker that comes or goes, or a page of a resync answer. */
export async function consumeReport(ports: ResyncPorts, settings: PoolSettings, { body, receiveCount }: Delivery): Promise<void> {
  const parsed = parseReport(body);
  if (!parsed.ok) throw new PoolError('invalid-request', parsed.refusal.message, { retryable: false });
  const report = parsed.value;
  if (report.type === 'resync') return applyPage(ports, settings, report, receiveCount);
  if (report.type === 'confirmed') return restoreConfirmed(ports, settings, report);
  if (isKeyBusy(report) && (await restoreHolder(ports, settings, report))) return;
  await handleReport(ports, settings, report);
  if (report.type !== 'registered') return;
  await resyncKnownId(ports, report);
  await assignDue(ports, report);
}

/** Jobs that wait for a worker need not wait for the next sweep: as many as the new one has room for. */
async function assignDue({ jobs, workers, requests, clock }: ResyncPorts, { worker, session }: RegisteredReport): Promise<void> {
  const row = await workers.get(worker);
  if (row?.session !== session || row.state !== 'active') return;
  // It may be long at work when its report comes, or comes again.
  const room = Math.min(row.capacity - row.running, DUE_AT_ONCE);
  if (room < 1) return;
  const due = await jobs.due(clock.now(), room);
  await requests.send(due.map(({ key }) => ({ op: 'assign', key })));
}

/** A worker id that came back under a new session: what its old one owned is asked about at once, and not only when it is missed. */
async function resyncKnownId({ jobs, workers, machine, clock }: ResyncPorts, { worker, session }: RegisteredReport): Promise<void> {
  const { items } = await jobs.ownedBy(worker);
  const row = items.length === 0 ? undefined : await workers.get(worker);
  if (row?.session === session && row.state === 'active') await machine.start(executionName(row, clock.now()), { worker, session });
}
