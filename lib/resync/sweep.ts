import { PoolError } from '../pool/errors.ts';
import type { DueJob, RowCondition } from '../pool/ports.ts';
import { reassignPage } from '../pool/reassign.ts';
import { isEligible, type WorkerRow } from '../pool/worker.ts';
import type { ResyncPorts } from './ports.ts';
import { isInCourse } from './round.ts';
import { executionName, type ResyncSettings } from './run-round.ts';

/**
 * What no message asks for any more is found by the sweep: workers that fell silent, jobs that wait and are due, jobs of workers that are
 * gone, rounds that are due, rows and inboxes that nobody needs.
 *
 * It decides nothing about a job and keeps nothing but its looks at beats, and those only for the run: all it does is ask others,
 * by an `assign` or by starting a state machine, and asking twice does no harm. A run that dies is made up for by the next one.
 * It is what heals a state machine that died, is stuck, or was never started.
 */
export class Sweep {
  readonly #ports: ResyncPorts;
  readonly #settings: ResyncSettings;
  readonly #looks = new Map<string, Look>();
  /** When a waiting job was last asked for: while the functions are behind, asking at each pass would only add to their backlog. */
  readonly #askedFor = new Map<string, { readonly dueAt: number; readonly at: number }>();
  #passes = 0;

  constructor(ports: ResyncPorts, settings: ResyncSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  /** One pass over everything. `isIdle`: no worker is there and no job waits, so the next pass may as well be a minute away. */
  async pass(): Promise<{ readonly isIdle: boolean }> {
    const { workers } = this.#ports;
    const [rows, { generation }] = await Promise.all([workers.list(), workers.poolState()]);
    for (const row of rows) {
      try {
        await this.#seeTo(row, generation);
      } catch (error) {
        if (error instanceof PoolError && error.code === 'not-permitted') throw error;
        // The others are seen to all the same, and the looks at them are kept for the passes to come.
        const reason = error instanceof Error ? error.message : String(error);
        this.#ports.telemetry.failed({ message: `sweep of worker ${JSON.stringify(row.workerId)}`, receiveCount: 1, reason, error });
      }
    }
    const waiting = await this.#assignDue(rows, generation);
    // Once a run is often enough for what took hours to become waste.
    if (this.#passes++ === 0) await this.#removeInboxes(rows);
    return { isIdle: waiting === 0 && !rows.some(isPresent) };
  }

  async #seeTo(row: WorkerRow, generation: number): Promise<void> {
    const { workers, machine, clock } = this.#ports;
    const { workerId: worker, session } = row;
    if (row.state === 'lost' || row.state === 'left') return this.#seeOff(row);
    if (row.state === 'revoked') {
      // Somebody may be waiting for its lease already; a second one comes to the same.
      if (this.#passes === 0) await machine.start(executionName(row, clock.now()), { worker, session });
      return;
    }
    const auditAt = row.auditAt ?? clock.now() + SETTLED_MS;
    if (row.generation !== generation || row.auditAt === undefined) await workers.change(worker, present(session), { generation, auditAt });
    if (await this.#isToBeAsked(row, auditAt)) await machine.start(executionName(row, clock.now()), { worker, session });
  }

  /**
   * Because it is silent, or because an audit is due. That one is due until a round which was opened since has its answer: its machine may die.
   * The first comes once the session has settled. A round before that proves nothing about what the id's last session was given at its end,
   * because the index may not have shown it yet.
   */
  async #isToBeAsked(row: WorkerRow, auditAt: number): Promise<boolean> {
    const { workers, rounds, clock } = this.#ports;
    const isSilent = this.#isSilent(row);
    const isAuditDue = this.#passes === 0 && clock.now() >= auditAt;
    if (!isSilent && !isAuditDue) return false;
    const round = row.round === undefined ? undefined : await rounds.get(row.round);
    if (round && isInCourse(round, clock.now(), this.#settings.roundTimeoutMs)) return false;
    const isAudited = isAuditDue && round?.state === 'resolved' && round.openedAt >= auditAt;
    if (isAudited) await workers.change(row.workerId, present(row.session), { auditAt: clock.now() + untilNextAuditMs(row) });
    return isSilent || !isAudited;
  }

  /** Its beat did not change between two looks at least half a lease apart. */
  #isSilent({ workerId, session, beat, leaseMs }: WorkerRow): boolean {
    const now = this.#ports.clock.now();
    const look = this.#looks.get(workerId);
    if (look?.session === session && look.beat === beat) return now - look.at >= leaseMs / 2;
    this.#looks.set(workerId, { session, beat, at: now });
    return false;
  }

  /** However long ago it went: its jobs are reassigned while any names it, then row and inbox are kept for an hour and deleted. */
  async #seeOff({ workerId, session, state, namedAt }: WorkerRow): Promise<void> {
    const { workers, inboxes, clock } = this.#ports;
    const where = { session, states: [state] };
    const now = clock.now();
    const { items } = await reassignPage(this.#ports, workerId);
    if (items.length > 0 || namedAt === undefined) {
      if (namedAt === undefined || now - namedAt > KEPT_MS / 10) await workers.change(workerId, where, { namedAt: now });
    } else if (now - namedAt > KEPT_MS) {
      await inboxes.remove(session);
      await workers.remove(workerId, where);
    }
  }

  /** Jobs that wait and are due, oldest first, at most as many as there are free slots. */
  async #assignDue(rows: readonly WorkerRow[], generation: number): Promise<number> {
    const { jobs, requests, clock } = this.#ports;
    const eligible = rows.filter((row) => isEligible(row, generation));
    const free = eligible.reduce((slots, { capacity, running }) => slots + capacity - running, 0);
    const due = await jobs.due(clock.now(), Math.min(Math.max(free, 1), DUE_PER_PASS));
    const now = clock.now();
    const asked = free > 0 ? due.filter((job) => !this.#isAskedFor(job, now)) : [];
    for (const { key, dueAt } of asked) this.#askedFor.set(key, { dueAt, at: now });
    await requests.send(asked.map(({ key }) => ({ op: 'assign', key })));
    return due.length;
  }

  #isAskedFor({ key, dueAt }: DueJob, now: number): boolean {
    const asked = this.#askedFor.get(key);
    return asked !== undefined && asked.dueAt === dueAt && now - asked.at < ASK_AGAIN_MS;
  }

  /** Inboxes of sessions that no row names: of an id that registered anew, or of a row that is gone. */
  async #removeInboxes(rows: readonly WorkerRow[]): Promise<void> {
    const { inboxes, clock } = this.#ports;
    if (Math.floor(clock.now() / 60_000) % 60 !== 0) return;
    const named = new Set(rows.map(({ session }) => session));
    for await (const session of inboxes.sessions()) {
      if (!named.has(session) && clock.now() - timeOf(session) > KEPT_MS) await inboxes.remove(session);
    }
  }
}

interface Look {
  readonly session: string;
  readonly beat: number;
  readonly at: number;
}

/** By then every index shows what was written before the session registered. */
const SETTLED_MS = 60_000;
const AUDIT_MS = 60 * 60 * 1_000;
const ASK_AGAIN_MS = 15_000;
const KEPT_MS = 60 * 60 * 1_000;
/** Keys looked for at most in one pass. */
const DUE_PER_PASS = 1_000;

/** How long to the next pass, ms. */
export function passIntervalMs(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / 6, 1_000), 5_000);
}

function isPresent({ state }: WorkerRow): boolean {
  return state === 'active' || state === 'draining';
}

function present(session: string): RowCondition {
  return { session, states: ['active', 'draining'] };
}

/** An hour, for some workers up to ten minutes less: those that came together are not to be asked together for ever. */
function untilNextAuditMs({ session }: WorkerRow): number {
  const sum = [...session].reduce((total, char) => total + char.charCodeAt(0), 0);
  return AUDIT_MS - (sum % 10) * 60_000;
}

/** The time that a ULID was made at, ms; 0 where it is none. */
function timeOf(ulid: string): number {
  const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  return [...ulid.slice(0, 10)].reduce((time, char) => time * 32 + Math.max(0, digits.indexOf(char)), 0);
}
