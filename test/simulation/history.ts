import { type Dispatch, isSameRequest, type NotStarted, outcomeOf } from '../../lib/pool/dispatch.ts';
import type { Job } from '../../lib/pool/job.ts';
import type { Checker } from '../../lib/testing/invariants.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { MemoryServices } from '../../lib/testing/memory-services.ts';
import type { Scheduler } from '../../lib/testing/scheduler.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { outcomeOnRecord } from './answers.ts';

/** What a client asked for; all times are true time. */
export type Operation =
  | {
      readonly type: 'start';
      readonly key: string;
      readonly dispatchId: string;
      readonly payload: string;
      readonly ifBusy: 'reject' | 'next' | 'replace';
      readonly expiresAt?: number;
    }
  | { readonly type: 'stop'; readonly key: string; readonly dispatchId?: string };

/** What a client was told of a dispatch; key and payload where it had asked for it itself. */
export interface Answer {
  readonly dispatchId: string;
  readonly what: 'outcome' | 'ended';
  readonly asked?: { readonly key: string; readonly payload: string };
  readonly answer: unknown;
}

interface Recorded {
  readonly operation: Operation;
  readonly from: number;
  isAcknowledged: boolean;
}

/** A dispatch holds a key from its admission to its end; before that it may wait there behind another one. */
interface Stay {
  readonly key: string;
  readonly dispatchId: string;
  readonly from: number;
  /** It came while another one held the key, and was not being stopped. */
  readonly isBehind: boolean;
  to: number;
}

export interface HistoryOptions {
  readonly scheduler: Scheduler;
  readonly checker: Checker;
  readonly services: () => MemoryServices;
}

const NEVER = Number.POSITIVE_INFINITY;
/** How far the clocks of functions are off at most, ms. */
const SKEW_MS = 1_000;
/** From what a function decides to what comes of it, at most, ms. */
const FUNCTION_MS = 20_000;

/**
 * What clients asked, were acknowledged and were told, against the smallest model that has an answer to it: a key is held by one dispatch
 * after the other, and at most one waits behind. So whatever became of a request has a moment, after it was asked for and
 * before it was recorded, at which that was the right answer: nobody is turned away from a free key, cancelled without a stop, or behind
 * somebody without having asked to wait; and what was stopped, and acknowledged, does not go on.
 *
 * Not judged is a dispatch of which a record or a request was deleted (`Checker.lostOf`).
 */
export class History {
  readonly #options: HistoryOptions;
  readonly #operations: Recorded[] = [];
  readonly #answers: Answer[] = [];
  readonly #stays: Stay[] = [];
  readonly #open = new Map<string, Stay[]>();
  readonly #settledAt = new Map<string, number>();
  readonly #moves = new Set<string>();
  /** When a key's record was first deleted: from then on it is not known who held it. */
  readonly #deletedAt = new Map<string, number>();
  #closedAt = NEVER;

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  /** Somebody asks; call what it returns once that is acknowledged. */
  asks(operation: Operation): () => void {
    const recorded = { operation, from: this.#options.scheduler.now(), isAcknowledged: false };
    this.#operations.push(recorded);
    const { checker } = this.#options;
    if (operation.type === 'stop') checker.stopAsked(operation.key, operation.dispatchId);
    else if (operation.ifBusy === 'replace') checker.stopAsked(operation.key);
    return () => {
      recorded.isAcknowledged = true;
    };
  }

  hears(answer: Answer): void {
    this.#answers.push(answer);
  }

  poolCloses(): void {
    this.#closedAt = Math.min(this.#closedAt, this.#options.scheduler.now());
  }

  /** Somebody asks for whoever holds the key under that fence to move. */
  moves(key: string, fence: number): void {
    this.#moves.add(`${key} ${fence}`);
  }

  readonly job = (key: string, before: Job | undefined, after: Job | undefined): void => {
    const now = this.#options.scheduler.now();
    if (!after && !this.#deletedAt.has(key)) this.#deletedAt.set(key, now);
    const there = new Set([after?.status === 'ended' ? undefined : after?.dispatchId, after?.next]);
    const open = this.#open.get(key) ?? [];
    for (const stay of open) if (!there.has(stay.dispatchId)) stay.to = now;
    const kept = open.filter(({ dispatchId }) => there.has(dispatchId));
    for (const dispatchId of there) {
      if (dispatchId === undefined || kept.some((stay) => stay.dispatchId === dispatchId)) continue;
      const isBehind = dispatchId !== after?.dispatchId && after?.status !== 'ended' && after?.status !== 'stopping';
      const stay = { key, dispatchId, from: now, isBehind, to: NEVER };
      kept.push(stay);
      this.#stays.push(stay);
    }
    this.#open.set(key, kept);
    if (after?.status !== 'releasing' || after.releaseReason !== 'moved' || before?.status === 'releasing') return;
    const what = () => `dispatch ${after.dispatchId} at "${key}" is released under fence ${after.fence}`;
    this.#options.checker.check(this.#moves.has(`${key} ${after.fence}`), 'whoever has to move, somebody moved', what);
  };

  readonly dispatch = (dispatchId: string, before: Dispatch | undefined, after: Dispatch | undefined): void => {
    if (after && outcomeOf(after) && !(before && outcomeOf(before))) this.#settledAt.set(dispatchId, this.#options.scheduler.now());
  };

  /** Once everything is at rest. */
  check(when: string): void {
    for (const dispatch of this.#options.services().dispatches.all()) {
      if (this.#options.checker.lostOf(dispatch.dispatchId)) continue;
      if (dispatch.status === 'never-started') this.#checkRefusal(dispatch.dispatchId, dispatch.key, dispatch.outcome, when);
      if (dispatch.status === 'ended' && dispatch.end.status === 'stopped')
        this.#checkStopped(dispatch.dispatchId, dispatch.key, dispatch.end.reason, when);
    }
    this.#checkExpired(when);
    this.#checkWaiting(when);
    this.#checkStops(when);
    for (const answer of this.#answers) this.#checkAnswer(answer, when);
  }

  #checkRefusal(dispatchId: string, key: string, outcome: NotStarted, when: string): void {
    const { checker } = this.#options;
    const starts = this.#startsOf(dispatchId);
    const isOfHolder = outcome.outcome === 'refused' && (outcome.reason === 'key-busy' || outcome.reason === 'next-taken');
    if (isOfHolder && (this.#deletedAt.get(key) ?? NEVER) <= (this.#settledAt.get(dispatchId) ?? NEVER)) return;
    const from = Math.min(...starts.map((start) => start.from));
    const to = this.#settledAt.get(dispatchId) ?? NEVER;
    const what = () => `${when}: dispatch ${dispatchId} at "${key}", asked for at ${from}, at ${to}: ${JSON.stringify(outcome)}`;
    if (outcome.outcome === 'cancelled') {
      const isCancelled = outcome.by === 'stop' ? this.#isStopped(dispatchId, key, to) : this.#isReplaced(dispatchId, key, to);
      checker.check(isCancelled, 'whoever was cancelled was stopped or superseded', what);
    } else if (outcome.outcome === 'refused' && outcome.reason !== 'invalid')
      checker.check(this.#isRefusedRightly(starts, key, outcome, from, to), 'whoever was refused met what it was refused for', what);
  }

  #isRefusedRightly(
    starts: readonly Operation[],
    key: string,
    outcome: NotStarted & { outcome: 'refused' },
    from: number,
    to: number,
  ): boolean {
    const met = this.#stays.filter((stay) => stay.key === key && stay.from <= to && stay.to >= from);
    switch (outcome.reason) {
      case 'key-busy':
        return met.some(({ dispatchId }) => dispatchId === outcome.holder.dispatchId);
      case 'next-taken':
        return met.length >= 2;
      case 'pool-closed':
        return this.#closedAt <= to;
      case 'expired':
        return starts.some((start) => start.type === 'start' && start.expiresAt !== undefined && start.expiresAt <= to + SKEW_MS);
      case 'invalid':
        return true;
      default:
        return outcome satisfies never;
    }
  }

  #checkStopped(dispatchId: string, key: string, reason: 'stop-requested' | 'replaced' | 'pool-closed', when: string): void {
    const is = {
      'stop-requested': () => this.#isStopped(dispatchId, key, NEVER),
      replaced: () => this.#isReplaced(dispatchId, key, NEVER),
      'pool-closed': () => this.#closedAt < NEVER,
    };
    const what = () => `${when}: dispatch ${dispatchId} at "${key}" was stopped (${reason})`;
    this.#options.checker.check(is[reason](), 'whoever was stopped, somebody stopped', what);
  }

  #checkExpired(when: string): void {
    const { checker } = this.#options;
    for (const { dispatchId, from } of this.#stays) {
      const starts = this.#startsOf(dispatchId);
      const last = Math.max(...starts.map((start) => (start.type === 'start' && start.expiresAt) || NEVER));
      if (starts.length === 0 || last === NEVER || checker.lostOf(dispatchId)) continue;
      const wasInTime = from <= last + FUNCTION_MS && Math.min(...starts.map((start) => start.from)) <= last + SKEW_MS;
      const what = () => `${when}: dispatch ${dispatchId} was admitted at ${from}, and had expired by ${last}`;
      checker.check(wasInTime, 'what had expired is not admitted', what);
    }
  }

  #checkWaiting(when: string): void {
    const { checker } = this.#options;
    for (const { key, dispatchId, isBehind } of this.#stays) {
      if (!isBehind || checker.lostOf(dispatchId)) continue;
      const asked = this.#startsOf(dispatchId).some((start) => start.type === 'start' && start.ifBusy !== 'reject');
      checker.check(asked, 'whoever waits behind another asked to', () => `${when}: dispatch ${dispatchId} waited at "${key}"`);
    }
  }

  /** A stop that was acknowledged has happened: what it named does not run, or whatever was up at the key when it was asked for. */
  #checkStops(when: string): void {
    const { checker, services } = this.#options;
    const alive = checker.liveHandlers();
    for (const { operation, from, isAcknowledged } of this.#operations) {
      if (operation.type !== 'stop' || !isAcknowledged) continue;
      const { key, dispatchId } = operation;
      const still = alive.find((handler) => {
        const isMeant =
          dispatchId === undefined
            ? checker.truthOf(handler.dispatchId).ups.some(({ trueAt }) => trueAt < from)
            : handler.dispatchId === dispatchId && services().dispatches.peek(dispatchId)?.key === key;
        return handler.key === key && isMeant && !checker.lostOf(handler.dispatchId);
      });
      const what = () =>
        `${when}: ${JSON.stringify(operation)}, asked for at ${from}, and ${still?.dispatchId} runs at ${still?.process.name}`;
      checker.check(still === undefined, 'what was stopped does not run', what);
      const record = dispatchId === undefined || checker.lostOf(dispatchId) ? undefined : services().dispatches.peek(dispatchId);
      const goesOn = () => `${when}: ${JSON.stringify(operation)}, and it is ${JSON.stringify(record)}`;
      if (record?.key === key)
        checker.check(record.status === 'ended' || record.status === 'never-started', 'what was stopped is over', goesOn);
    }
  }

  /** Whoever asked for it itself is told where its dispatch id belongs to another request, and nobody else is. */
  #checkAnswer({ dispatchId, what, asked, answer }: Answer, when: string): void {
    const { checker, services } = this.#options;
    const record = services().dispatches.peek(dispatchId);
    if (!record || checker.lostOf(dispatchId)) return;
    const isMismatch = JSON.stringify(answer).includes('fingerprint-mismatch');
    const isAnothers =
      asked !== undefined && !isSameRequest(record, asked.key, fingerprintOf(asked.key, new TextEncoder().encode(asked.payload)));
    const told = () =>
      `${when}: whoever asked for ${JSON.stringify(asked)} was told of ${what} of ${dispatchId} ${JSON.stringify(answer)}, and it is ${JSON.stringify(record)}`;
    checker.check(isMismatch === isAnothers, 'a client is told of what it asked for, and of nothing else', told);
    if (what === 'outcome' && !isMismatch)
      checker.check(isSame(answer, outcomeOnRecord(services(), record)), 'clients were told the outcome on record', told);
  }

  #startsOf(dispatchId: string): readonly (Operation & { readonly from: number })[] {
    return this.#operations.flatMap(({ operation, from }) =>
      operation.type === 'start' && operation.dispatchId === dispatchId ? [{ ...operation, from }] : [],
    );
  }

  #isStopped(dispatchId: string, key: string, by: number): boolean {
    return this.#operations.some(
      ({ operation, from }) =>
        operation.type === 'stop' && from <= by && operation.key === key && (operation.dispatchId ?? dispatchId) === dispatchId,
    );
  }

  #isReplaced(dispatchId: string, key: string, by: number): boolean {
    return this.#operations.some(
      ({ operation, from }) =>
        operation.type === 'start' &&
        from <= by &&
        operation.key === key &&
        operation.dispatchId !== dispatchId &&
        operation.ifBusy === 'replace',
    );
  }
}
