import { decodeTime, isValid } from 'ulid';
import { isDeploymentWrong, reasonOf } from '../pool/errors.ts';
import type { EpochMs } from '../pool/job.ts';
import type { DueJob, RowCondition } from '../pool/ports.ts';
import { isEligible, isPresent, PRESENT, type WorkerRow } from '../pool/worker.ts';
import { atOnce } from './at-once.ts';
import type { ResyncPorts } from './ports.ts';
import { isInCourse } from './round.ts';
import { executionName, type ResyncSettings } from './run-round.ts';

/**
 * What no message asks for any more is found by the sweep: workers that fell silent, jobs that wait and are due, jobs of workers that are
 * gone, rounds that are due, rows and inboxes that nobody needs.
 *
 * It decides nothing about a job: all it does is ask others, by an `assign` or by starting a state machine, and asking twice does no harm, nor do
 * two sweeps at once. A run that dies is made up for by the next one. It is what heals a state machine that died, is stuck, or was never started.
 *
 * It keeps, from run to run as long as its process lives, what it looked at and asked for. Without that it is as right, and slower: a worker that
 * falls silent about when a run ends would have to be looked at anew.
 */
export class Sweep {
  readonly #ports: ResyncPorts;
  readonly #settings: ResyncSettings;
  readonly #looks = new Map<string, Look>();
  /** Jobs that were asked for and are still due. */
  #askedFor = new Map<string, Waiting>();
  #isFirstPass = true;

  constructor(ports: ResyncPorts, settings: ResyncSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  /** Another run: the next pass sees to what once a run is often enough for. */
  begin(): void {
    this.#isFirstPass = true;
  }

  /** One pass over everything. `isIdle`: no worker is there and no job waits, so the next pass may as well be a minute away. */
  async pass(): Promise<{ readonly isIdle: boolean }> {
    const { workers } = this.#ports;
    const [rows, { state, generation }] = await Promise.all([workers.list(), workers.poolState()]);
    await atOnce(rows, async (row) => {
      try {
        await this.#seeTo(row, generation);
      } catch (error) {
        if (isDeploymentWrong(error)) throw error;
        // The others are seen to all the same, and the looks at them are kept for the passes to come.
        const message = `sweep of worker ${JSON.stringify(row.workerId)}`;
        this.#ports.telemetry.failed({ message, receiveCount: 1, reason: reasonOf(error), error });
      }
    });
    const due = await this.#assignDue(rows, generation);
    const isIdle = due.length === 0 && !rows.some(isPresent);
    if (this.#isFirstPass && !isIdle) this.#measure(rows, due);
    // Whoever has the pool recovered may have died over it, and nothing is assigned until somebody goes on.
    if (this.#isFirstPass && state === 'recovering') this.#ports.telemetry.gauge('recovering', 1);
    if (this.#isFirstPass) await this.#removeInboxes(rows);
    this.#isFirstPass = false;
    this.#forgetLooks(rows);
    return { isIdle };
  }

  /** Of an idle pool nothing is told: a metric costs by the hour in which it has a value. */
  #measure(rows: readonly WorkerRow[], due: readonly DueJob[]): void {
    const { telemetry, clock } = this.#ports;
    const [oldest] = due;
    const running = rows.filter(isPresent).reduce((jobs, row) => jobs + row.running, 0);
    telemetry.gauge('running', running);
    telemetry.gauge('pending', due.length);
    telemetry.gauge('pending-age', oldest ? Math.max(0, clock.now() - oldest.dueAt) / 1_000 : 0);
  }

  async #seeTo(row: WorkerRow, generation: number): Promise<void> {
    const { machine, clock } = this.#ports;
    const { workerId: worker, session } = row;
    // Of a row that is revoked, lost or left somebody may be seeing to the jobs already; a second one comes to the same.
    const isNeeded = isPresent(row)
      ? await this.#isToBeAsked(row, generation)
      : this.#isFirstPass && (row.state === 'revoked' || (await this.#isNamed(row)));
    if (isNeeded) await machine.start(executionName(row, clock.now()), { worker, session });
  }

  /**
   * Because it is silent, or because an audit is due. The audit is due until a round which was opened since has its answer: its machine may die.
   * The first comes once the session has settled. A round before that proves nothing about what the id's last session was given at its end,
   * because the index may not have shown it yet.
   */
  async #isToBeAsked(row: WorkerRow, generation: number): Promise<boolean> {
    const { workers, rounds, clock } = this.#ports;
    const { workerId, session, auditAt = clock.now() + SETTLED_MS } = row;
    const present: RowCondition = { session, states: PRESENT };
    if (row.generation !== generation || row.auditAt === undefined) await workers.change(workerId, present, { generation, auditAt });
    const isSilent = this.#isSilent(row);
    const isAuditDue = this.#isFirstPass && clock.now() >= auditAt;
    if (!isSilent && !isAuditDue) return false;
    const round = row.round === undefined ? undefined : await rounds.get(row.round);
    if (round && isInCourse(round, clock.now(), this.#settings.roundTimeoutMs)) return false;
    const isAudited = isAuditDue && round?.state === 'resolved' && round.openedAt >= auditAt;
    if (isAudited) await workers.change(workerId, present, { auditAt: clock.now() + untilNextAuditMs(session) });
    return isSilent || !isAudited;
  }

  /** Its beat did not change between two looks at least half a lease apart; a look may be early by what a timer and a list take. */
  #isSilent({ workerId, session, beat, leaseMs }: WorkerRow): boolean {
    const now = this.#ports.clock.now();
    const look = this.#looks.get(workerId);
    if (look?.session === session && look.beat === beat) return now - look.at >= leaseMs / 2 - EARLY_MS;
    this.#looks.set(workerId, { session, beat, at: now });
    return false;
  }

  /** Whether a job still names the worker that is gone, however long ago it went. An hour after the last one did, row and inbox are deleted. */
  async #isNamed({ workerId, session, state, namedAt }: WorkerRow): Promise<boolean> {
    const { jobs, workers, inboxes, clock } = this.#ports;
    const where = { session, states: [state] };
    const now = clock.now();
    const { items } = await jobs.ownedBy(workerId);
    if (items.length > 0 || namedAt === undefined) {
      if (namedAt === undefined || now - namedAt > KEPT_MS / 10) await workers.change(workerId, where, { namedAt: now });
    } else if (now - namedAt > KEPT_MS) {
      await inboxes.remove(session);
      await workers.remove(workerId, where);
    }
    return items.length > 0;
  }

  /**
   * Jobs that wait and are due, at most as many as there are free slots: those asked for least often first, then the oldest; and none again before
   * its time, which while the functions are behind would only add to their backlog. A job that can never be assigned keeps no other from the
   * last free slot. Returns what is due, oldest first: of a run's first pass, which measures, all that is looked for at most.
   */
  async #assignDue(rows: readonly WorkerRow[], generation: number): Promise<readonly DueJob[]> {
    const { jobs, requests, clock } = this.#ports;
    const eligible = rows.filter((row) => isEligible(row, generation));
    const free = eligible.reduce((slots, { capacity, running }) => slots + capacity - running, 0);
    const needed = this.#isFirstPass ? DUE_PER_PASS : Math.max(free, 1) + this.#askedFor.size;
    const due = await jobs.due(clock.now(), Math.min(needed, DUE_PER_PASS));
    const now = clock.now();
    const waiting = due.map((job) => this.#waiting(job)).sort((one, other) => one.times - other.times);
    const asked = waiting.filter(({ againAt }) => againAt <= now).slice(0, free);
    this.#askedFor = new Map(waiting.filter(({ times }) => times > 0).map((job) => [job.key, job]));
    for (const job of asked) this.#askedFor.set(job.key, askedAgain(job, now));
    await requests.send(asked.map(({ key }) => ({ op: 'assign', key })));
    return due;
  }

  #waiting({ key, dueAt }: DueJob): Waiting {
    const asked = this.#askedFor.get(key);
    return asked?.dueAt === dueAt ? asked : { key, dueAt, times: 0, againAt: 0 };
  }

  #forgetLooks(rows: readonly WorkerRow[]): void {
    const present = new Set(rows.filter(isPresent).map(({ workerId }) => workerId));
    for (const workerId of this.#looks.keys()) if (!present.has(workerId)) this.#looks.delete(workerId);
  }

  /** Inboxes of sessions that no row names: of an id that registered anew, or of a row that is gone. */
  async #removeInboxes(rows: readonly WorkerRow[]): Promise<void> {
    const { inboxes, clock } = this.#ports;
    if (Math.floor(clock.now() / 60_000) % 60 !== 0) return;
    const named = new Set(rows.map(({ session }) => session));
    for await (const session of inboxes.sessions()) {
      if (!named.has(session) && clock.now() - (isValid(session) ? decodeTime(session) : 0) > KEPT_MS) await inboxes.remove(session);
    }
  }
}

/** How often a job that is due was asked for, and before when it is not again. */
interface Waiting extends DueJob {
  readonly times: number;
  readonly againAt: EpochMs;
}

interface Look {
  readonly session: string;
  readonly beat: number;
  readonly at: number;
}

/** By then every index shows what was written before the session registered. */
const SETTLED_MS = 60_000;
const AUDIT_MS = 60 * 60 * 1_000;
/** Half a lease is a whole number of passes: a pass too early by some ms would else count for nothing. */
const EARLY_MS = 200;
const ASK_AGAIN_MS = 15_000;
const MAX_ASK_AGAIN_MS = 60_000;
const KEPT_MS = 60 * 60 * 1_000;
/** Keys looked for at most in one pass. */
const DUE_PER_PASS = 1_000;

/** How long to the next pass, ms. */
export function passIntervalMs(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / 6, 1_000), 5_000);
}

/** An hour, for some workers up to ten minutes less: those that came together are not to be asked together for ever. */
function untilNextAuditMs(session: string): number {
  const sum = [...session].reduce((total, char) => total + char.charCodeAt(0), 0);
  return AUDIT_MS - (sum % 10) * 60_000;
}

function askedAgain({ key, dueAt, times }: Waiting, now: EpochMs): Waiting {
  return { key, dueAt, times: times + 1, againAt: now + Math.min(ASK_AGAIN_MS * 2 ** times, MAX_ASK_AGAIN_MS) };
}
