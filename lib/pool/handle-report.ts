import type { ConfirmedReport, Report, ResyncReport } from '../wire/index.ts';
import { decideReport, type JobReport, namedByReport, type ReportSnapshot } from './decide-report.ts';
import { summarize } from './decision.ts';
import { carryOut } from './effects.ts';
import { PoolError } from './errors.ts';
import type { Job } from './job.ts';
import type { PoolPorts, Versioned } from './ports.ts';
import { reassignPage } from './reassign.ts';
import type { PoolSettings } from './settings.ts';
import { PRESENT } from './worker.ts';

const TRIES = 10;

/**
 * One report from the queue. Reports come in any order and any number of times: each is judged by the record as it is now, never by
 * the report before it. Dying anywhere is mended by the redelivery, as in handle-request.ts.
 *
 * Throws a retryable `PoolError` where the report has to come again.
 */
export async function handleReport(
  ports: PoolPorts,
  settings: PoolSettings,
  report: Exclude<Report, ResyncReport | ConfirmedReport>,
): Promise<void> {
  switch (report.type) {
    case 'registered': {
      const { generation } = await ports.workers.poolState();
      await ports.workers.change(report.worker, { session: report.session, states: PRESENT }, { generation });
      return;
    }
    case 'left':
      return reassign(ports, report.worker);
    default:
      return handleJobReport(ports, settings, report);
  }
}

async function reassign(ports: PoolPorts, workerId: string): Promise<void> {
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    cursor = (await reassignPage(ports, workerId, cursor)).cursor;
  }
}

async function handleJobReport(ports: PoolPorts, settings: PoolSettings, report: JobReport): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const { job, snapshot } = await load(ports, report);
    const decision = decideReport(snapshot, report, { now: ports.clock.now(), settings });
    const { type, key, worker, fence } = report;
    ports.telemetry.decided({ subject: type, key, decision: summarize(decision), rule: decision.rule, worker, fence });
    const carried = await carryOut({ ports, settings, checksOwner: false }, decision, job?.rev);
    if (carried.outcome === 'done') return;
  }
  throw new PoolError('contended', `report ${report.type} at key ${JSON.stringify(report.key)}: overtaken ${TRIES} times`, {
    retryable: true,
  });
}

async function load(ports: PoolPorts, report: JobReport): Promise<{ job?: Versioned<Job>; snapshot: ReportSnapshot }> {
  const job = await ports.jobs.get(report.key);
  const named = namedByReport(report, job?.record);
  const dispatch = named.dispatch === undefined ? undefined : await ports.dispatches.get(named.dispatch);
  const holder = named.holder === undefined ? undefined : await ports.dispatches.get(named.holder);
  return {
    ...(job ? { job } : {}),
    snapshot: { ...(job ? { job: job.record } : {}), ...(dispatch ? { dispatch } : {}), ...(holder ? { holder } : {}) },
  };
}
