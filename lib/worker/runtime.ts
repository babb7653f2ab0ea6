/**
 * A worker: it registers, does what its inbox says, and goes. It knows the world as ports alone, so that the simulation runs this very code on a
 * virtual clock.
 *
 *     registering ──► active ──► draining ──► left
 *          ▲            │
 *          └── lost ────┘   every job stopped, then a new session
 *
 * Each of its parts has one concern: `Session` the right to run jobs, `KeyLane` one key, `Outbox` what is still to be said, `drain` how to go. Here
 * is what they share: the set of lives, which is what the capacity counts, what a new session waits for and what an overrun is about; and
 * the lanes, which outlive sessions, because what ended stays ended.
 */
import { PoolError } from '../pool/errors.ts';
import { parseCommand, type ResyncCommand } from '../wire/index.ts';
import { backoffMs, pause } from './backoff.ts';
import { atMost, Deadline } from './deadline.ts';
import { drain } from './drain.ts';
import { emitter, type WorkerEvent } from './events.ts';
import type { RememberedEnd } from './fences.ts';
import type { Handler } from './handler.ts';
import { KeyLane, type LaneHost } from './key-lane.ts';
import { momentOf } from './lease.ts';
import type { Life } from './life.ts';
import { guarded, type Logger } from './logger.ts';
import { assertNumber, assertWorkerId } from './options.ts';
import { Outbox } from './outbox.ts';
import type { WorkerPorts } from './ports.ts';
import { Round } from './round.ts';
import { Session, type SessionHost } from './session.ts';

export interface RuntimeOptions {
  readonly handler: Handler;
  readonly workerId: string;
  /** The pool's lease, 3 000 to 90 000 ms: how long this worker may run jobs after its last heartbeat was sent. */
  readonly leaseMs: number;
  /** Jobs at most. */
  readonly capacity: number;
  /** How long a drain may take where it names no deadline of its own, ms. */
  readonly drainDeadlineMs: number;
  /** How long one stop of a job may take, ms; never beyond the drain's or the lease's end. */
  readonly stopDeadlineMs: number;
  /** How long a command may lie in an inbox, ms: so long are ends remembered at least. Default one hour. */
  readonly inboxRetentionMs?: number;
  readonly logger: Logger;
  readonly onEvent?: (event: WorkerEvent) => void;
}

export interface Worker extends AsyncDisposable {
  readonly workerId: string;
  /** After a lost lease it is `registering` again. */
  readonly state: 'registering' | 'active' | 'draining' | 'left';
  readonly health: Health;
  /**
   * Takes no more jobs, stops those that it has and hands them back, then leaves. Resolves once it has left, or at its deadline (default: the
   * option `drainDeadlineMs`) with what would not stop counted as `abandoned`. Called again, it joins; the earlier deadline counts.
   */
  drain(options?: { readonly deadlineMs?: number }): Promise<DrainReport>;
  /** Resolves once the worker has left, or was given up. It never rejects. */
  readonly closed: Promise<void>;
}

export interface Health {
  /** False only after an overrun, or where the runtime itself died. */
  readonly live: boolean;
  /** Registered, active, lease held. */
  readonly ready: boolean;
  /** For how long no other worker may run its jobs yet, ms; 0 where it is not ready. */
  readonly leaseLeftMs: number;
  /** Jobs whose handler may be alive. */
  readonly jobs: number;
}

export interface DrainReport {
  /** Jobs stopped and handed back. */
  readonly released: number;
  /** Jobs whose handler still lived at the deadline. */
  readonly abandoned: number;
}

/** A worker over ports. */
export interface Runtime extends Worker {
  /** Registers, then works until it is drained. Resolves once registered; rejects where that cannot succeed. Call it once. */
  start(): Promise<void>;
  /** Every job whose handler may be alive, for those who check. */
  readonly lives: readonly LiveJob[];
}

export interface LiveJob {
  readonly key: string;
  readonly dispatchId: string;
  readonly fence: number;
  readonly phase: 'starting' | 'up';
  readonly isLost: boolean;
}

const firstRetryMs = 500;
const maxRetryMs = 10_000;
const lastWordMs = 1_000;

/** Throws where an option is beyond its limits. */
export function createWorker(ports: WorkerPorts, options: RuntimeOptions): Runtime {
  const { handler, workerId, leaseMs, capacity, drainDeadlineMs, stopDeadlineMs, inboxRetentionMs = 60 * 60 * 1_000 } = options;
  for (const [option, value] of Object.entries({ leaseMs, capacity, drainDeadlineMs, stopDeadlineMs, inboxRetentionMs })) {
    assertNumber(option as 'leaseMs', value);
  }
  assertWorkerId(workerId);
  const { clock, timer } = ports;
  const logger = guarded(options.logger);
  const tell = emitter(workerId, options.onEvent, logger);
  const outbox = new Outbox(ports, emit);

  const lanes = new Map<string, KeyLane>();
  const lives = new Set<Life>();
  const whenStopped: (() => void)[] = [];
  /** What the report queue has, but no heartbeat that was sent later. */
  const unproven = new Set<RememberedEnd>();

  let session: Session | undefined;
  let sessionOver = Promise.withResolvers<void>();
  let leaseEnd = new Deadline(ports);
  let round = new Round();
  let registering: Promise<unknown> = Promise.resolve();

  const drainEnd = new Deadline(ports);
  let draining: Promise<DrainReport> | undefined;
  let released = 0;
  let isClosed = false;
  const closed = Promise.withResolvers<void>();
  let isLive = true;

  function emit(event: Parameters<typeof tell>[0]): void {
    if (event.type === 'job-released' && event.reason === 'worker-draining') released += 1;
    tell(event);
  }

  // What lanes, session and drain see of it.

  const laneHost: LaneHost = {
    handler,
    logger,
    timer,
    workerId,
    get session() {
      return session?.id ?? '';
    },
    get isDraining() {
      return draining !== undefined;
    },
    lives,
    capacity,
    emit,
    now: () => clock.now(),
    mayAct: (id) => session?.id === id && session.holdsLease(),
    stopDeadline: () => new Deadline(ports, stopDeadlineMs, [drainEnd, leaseEnd]),
    report(report, end) {
      outbox.add(report, end && (() => accepted(end)));
    },
    drop: (why, { op, key }) => emit({ type: 'command-dropped', why, op, key }),
    changed(lane) {
      if (lane.isIdle) lanes.delete(lane.key);
      if (lives.size === 0) for (const resolve of whenStopped.splice(0)) resolve();
    },
    crashed: die,
  };

  const sessionHost: SessionHost = {
    workerId,
    logger,
    get running() {
      return lives.size;
    },
    get answered() {
      return round.answered;
    },
    get isDraining() {
      return draining !== undefined;
    },
    beating() {
      const before = [...unproven];
      return (row) => {
        for (const end of before) if (unproven.delete(end)) end.provenBeat = row.beat;
        for (const lane of lanes.values()) {
          lane.ends.forget(clock.monotonic(), inboxRetentionMs);
          if (lane.isIdle) lanes.delete(lane.key);
        }
        emit({ type: 'renewed', session: row.session, leaseLeftMs: session?.leaseLeftMs ?? 0 });
        if (row.state === 'draining') draining ??= ended(goAway('operator'));
      };
    },
    take,
    ended(end) {
      sessionOver.resolve();
      if (end === 'closed') return;
      emit({ type: 'lease-lost', session: laneHost.session, reason: end, jobs: lives.size });
      leaseEnd.tighten(session?.leaseLeftMs ?? 0);
      for (const lane of lanes.values()) if (lane.life) lane.loseSession(end === 'evicted' ? 'evicted' : 'lease-lost', leaseEnd);
    },
    leaseEnded() {
      if (lives.size === 0) return;
      isLive = false;
      emit({ type: 'overrun', keys: [...lives].map(({ command }) => command.key) });
    },
  };

  // Commands.

  function take(body: string): void {
    const parsed = parseCommand(body);
    if (!parsed.ok) {
      emit({ type: 'command-dropped', why: 'unreadable', detail: parsed.refusal.message });
    } else if (parsed.value.session !== session?.id) {
      emit({ type: 'command-dropped', why: 'other-session', op: parsed.value.op });
    } else if (parsed.value.op === 'resync') {
      answer(parsed.value);
    } else {
      const { key } = parsed.value;
      const lane = lanes.get(key) ?? new KeyLane(key, laneHost);
      lanes.set(key, lane);
      lane.accept(parsed.value);
    }
  }

  function answer(command: ResyncCommand): void {
    const asked = round;
    const pages = asked.take(command, [...lanes.values()]);
    if (pages === 'older-round') {
      emit({ type: 'command-dropped', why: pages, op: command.op });
      return;
    }
    if (pages.length === 0) return;
    const { named } = asked;
    for (const lane of lanes.values()) if (!named.has(lane.key)) lane.ends.unnamed(command.beat, clock.monotonic());
    for (const page of pages) {
      outbox.add({ type: 'resync', worker: workerId, session: command.session, at: clock.now(), ...page }, () => asked.sent(page));
    }
  }

  function accepted(end: RememberedEnd): void {
    end.isAccepted = true;
    unproven.add(end);
  }

  // Sessions.

  async function register(isFirst: boolean): Promise<void> {
    for (let failures = 1; !draining; failures += 1) {
      // A session of its own for each try: a row that was written without an answer has been seen silent since then, and the same
      // session written anew, its beat the same, would be declared lost before its lease is over.
      const id = ports.ids.next();
      try {
        await ports.inboxes.create(id);
        const since = momentOf(clock);
        await ports.registry.register({ workerId, session: id, leaseMs, capacity, registeredAt: since.wall });
        if (!isClosed) begin(new Session(id, { leaseMs, since }, ports, sessionHost));
        return;
      } catch (error) {
        if (isFirst && !(error instanceof PoolError && error.retryable)) throw error;
        logger.warn('registration failed', { workerId, failures, error });
        await pause(timer, backoffMs(failures, firstRetryMs, maxRetryMs));
      }
    }
  }

  function begin(next: Session): void {
    session = next;
    sessionOver = Promise.withResolvers();
    leaseEnd = new Deadline(ports);
    round = new Round();
    unproven.clear();
    for (const { ends } of lanes.values()) ends.beginSession();
    emit({ type: 'registered', session: next.id, leaseMs });
    outbox.add({ type: 'registered', worker: workerId, session: next.id, at: clock.now() });
    next.begin();
  }

  /** One session after the other; the next one only when nothing of the last one lives. */
  async function work(): Promise<void> {
    while (!draining) {
      await sessionOver.promise;
      await stopped();
      if (draining || isClosed) return;
      registering = register(false);
      await registering;
    }
  }

  function stopped(): Promise<void> {
    if (lives.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      whenStopped.push(resolve);
    });
  }

  // The end.

  async function goAway(by: 'this-process' | 'operator', deadlineMs?: number): Promise<DrainReport> {
    // `draining` is set once this returns its promise.
    await undefined;
    emit({ type: 'draining', by, ...(deadlineMs !== undefined && { deadlineMs }) });
    await Promise.race([registering.catch(() => undefined), drainEnd.passed]);
    const host = {
      registry: ports.registry,
      time: ports,
      logger,
      workerId,
      session: session?.isOver ? undefined : session,
      get running() {
        return lives.size;
      },
      handBack() {
        for (const lane of lanes.values()) if (lane.life) lane.handBack();
      },
      stopped,
      reported: () => outbox.empty(),
    };
    if (await drain(host, drainEnd)) {
      outbox.add({ type: 'left', worker: workerId, session: laneHost.session, at: clock.now() });
      await atMost(ports, lastWordMs, outbox.empty());
    }
    const abandoned = lives.size;
    for (const lane of lanes.values()) lane.lose('worker-draining', drainEnd);
    if (outbox.size > 0) logger.error('reports were not sent', { workerId, reports: outbox.size });
    outbox.close();
    return close({ released, abandoned });
  }

  function ended(going: Promise<DrainReport>): Promise<DrainReport> {
    return going.catch((error: unknown) => {
      die(error);
      return { released, abandoned: lives.size };
    });
  }

  function close(report: DrainReport): DrainReport {
    isClosed = true;
    drainEnd.cancel();
    session?.end('closed');
    emit({ type: 'left', ...report });
    closed.resolve();
    return report;
  }

  /** A rule of the runtime itself was broken: what it believes of its jobs is worth nothing any more. */
  function die(error: unknown): void {
    isLive = false;
    logger.error('the runtime failed', { workerId, error });
    if (isClosed) return;
    for (const lane of lanes.values()) lane.lose('lease-lost', leaseEnd);
    close({ released, abandoned: lives.size });
  }

  return {
    workerId,
    get state() {
      if (isClosed) return 'left';
      if (draining) return 'draining';
      return session && !session.isOver ? 'active' : 'registering';
    },
    get health() {
      const ready = isLive && this.state === 'active' && session?.holdsLease() === true;
      return { live: isLive, ready, leaseLeftMs: ready ? (session?.leaseLeftMs ?? 0) : 0, jobs: lives.size };
    },
    get lives() {
      return [...lives].map(({ command, fence, phase, isLost }) => ({
        key: command.key,
        dispatchId: command.dispatchId,
        fence,
        phase,
        isLost,
      }));
    },
    async start() {
      registering = register(true);
      await registering;
      void work().catch(die);
    },
    async drain({ deadlineMs = drainDeadlineMs } = {}) {
      assertNumber('deadlineMs', deadlineMs);
      if (!isClosed) drainEnd.tighten(deadlineMs);
      draining ??= ended(goAway('this-process', deadlineMs));
      return draining;
    },
    closed: closed.promise,
    async [Symbol.asyncDispose]() {
      await this.drain();
    },
  };
}
