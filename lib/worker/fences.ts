/**
 * What ended at a key, by fence, and what a command that meets it is to do.
 *
 * Commands come twice, late, and, after a lost record, for what this worker never saw. A fence that ended here must not run again, and
 * whoever asks about it must hear the same each time; so every answer is kept and repeated as it was. Two kinds of end differ in reach:
 *
 *     a stop, release or hand-back of fence f   ends every fence <= f, whether it ran here or not
 *     a refusal, a failed start, an own end     ends exactly its fence; a lower one may be running
 *
 * Forgetting makes a fence that is long over new again. It takes proof that no command for it can still come: see `Ends.forget`.
 */
import type { Fence } from '../pool/job.ts';
import type {
  FinishedReport,
  RefusedReport,
  ReleaseCommand,
  ReleasedReport,
  RunningJob,
  StartCommand,
  StartFailedReport,
  StopCommand,
  StoppedReport,
  StopReason,
  WorkerRefusal,
} from '../wire/index.ts';

/** A report that says how a fence ended. */
export type EndReport = FinishedReport | StartFailedReport | StoppedReport | ReleasedReport | RefusedReport;

/** A stop, release or hand-back, which ended every fence up to its own. */
export interface Cutoff {
  readonly upTo: Fence;
  readonly answer: 'stopped' | 'released';
  readonly reason: StopReason;
}

/** One end, and what is known of whether it may be forgotten. */
export interface RememberedEnd {
  readonly report: EndReport;
  /** The report queue has it. */
  isAccepted?: true;
  /** A beat that the row reached only after the report queue had the report; a round that names it, or a later one, was opened after. */
  provenBeat?: number;
  /** When a complete round of such a beat did not name the key, by the monotonic clock. */
  unnamedSince?: number;
}

/** Everything that ended at one key. */
export class Ends {
  readonly #byFence = new Map<Fence, RememberedEnd>();
  readonly #cutoffs = new Map<Fence, Cutoff>();
  readonly #confirmed = new Set<Fence>();

  at(fence: Fence): EndReport | undefined {
    return this.#byFence.get(fence)?.report;
  }

  /** Whether it is at or below a fence that ended here. */
  reach(fence: Fence): boolean {
    for (const ended of this.#byFence.keys()) if (ended >= fence) return true;
    return this.cutoffOver(fence) !== undefined;
  }

  /** The first of the commands that ended it. */
  cutoffOver(fence: Fence): Cutoff | undefined {
    let found: Cutoff | undefined;
    for (const cutoff of this.#cutoffs.values()) if (cutoff.upTo >= fence && !(found && found.upTo <= cutoff.upTo)) found = cutoff;
    return found;
  }

  above(fence: Fence): readonly EndReport[] {
    return [...this.#byFence.values()].map(({ report }) => report).filter((report) => report.fence > fence);
  }

  /** The first end of a fence is its end; only a refusal is none of the job that runs under the same fence (another fingerprint came under it). */
  record(report: EndReport): RememberedEnd {
    const known = this.#byFence.get(report.fence);
    if (known && known.report.type !== 'refused') return known;
    const end: RememberedEnd = { report };
    this.#byFence.set(report.fence, end);
    return end;
  }

  cutOff(cutoff: Cutoff): void {
    if (!this.#cutoffs.has(cutoff.upTo)) this.#cutoffs.set(cutoff.upTo, cutoff);
  }

  /** The control plane wrote a record from what was said of this fence, so it may speak of it as long as the session lives. */
  confirm(fence: Fence): void {
    this.#confirmed.add(fence);
  }

  /** Beats start anew with a session, and each of its rounds is later than what the report queue had before it began. */
  beginSession(): void {
    this.#confirmed.clear();
    for (const end of this.#byFence.values()) end.provenBeat = end.isAccepted ? 0 : undefined;
  }

  /** A complete round, opened at `beat`, did not name the key. */
  unnamed(beat: number, now: number): void {
    for (const end of this.#byFence.values()) {
      if (end.provenBeat !== undefined && end.provenBeat <= beat) end.unnamedSince ??= now;
    }
  }

  /** Forgets what no round named since its end was known, once no command from before that round can be in the inbox any more. */
  forget(now: number, inboxRetentionMs: number): void {
    for (const [fence, { unnamedSince }] of this.#byFence) {
      if (unnamedSince === undefined || now - unnamedSince < inboxRetentionMs || this.#confirmed.has(fence)) continue;
      this.#byFence.delete(fence);
      this.#cutoffs.delete(fence);
    }
  }

  get isEmpty(): boolean {
    return this.#byFence.size === 0;
  }
}

/** What a command meets, under the key's lock. */
export interface KeyState {
  /** The job that is up. */
  readonly up?: RunningJob;
  readonly ends: Pick<Ends, 'at' | 'reach' | 'cutoffOver'>;
  readonly hasRoom: boolean;
  readonly isDraining: boolean;
}

export type StartDecision =
  /** Call the handler's `start`. */
  | { readonly do: 'start' }
  /** The dispatch is up: raise its fence to at least this one and report `started`. */
  | { readonly do: 'keep'; readonly fence: Fence }
  /** Which ends exactly the command's fence. */
  | { readonly do: 'refuse'; readonly refusal: WorkerRefusal }
  /** The fence had ended before its start came; without a reason where the command that ended it is not known. */
  | { readonly do: 'answer'; readonly type: 'stopped' | 'released'; readonly reason?: StopReason }
  /** Say again how the fence ended. */
  | { readonly do: 'repeat'; readonly report: EndReport }
  | { readonly do: 'drop'; readonly why: 'lower-fence' };

/** The rules of starts, first match wins. */
export function decideStart(command: StartCommand, { up, ends, hasRoom, isDraining }: KeyState): StartDecision {
  const { fence } = command;
  if (up && up.dispatchId === command.dispatchId) {
    return up.fingerprint === command.fingerprint ? { do: 'keep', fence } : { do: 'refuse', refusal: { reason: 'fingerprint-mismatch' } };
  }
  if (up) return fence > up.fence ? { do: 'refuse', refusal: { reason: 'key-busy', running: up } } : { do: 'drop', why: 'lower-fence' };
  const report = ends.at(fence);
  if (report) return { do: 'repeat', report };
  if (ends.reach(fence)) {
    const cutoff = ends.cutoffOver(fence);
    return cutoff ? { do: 'answer', type: cutoff.answer, reason: cutoff.reason } : { do: 'answer', type: 'stopped' };
  }
  if (isDraining) return { do: 'refuse', refusal: { reason: 'draining' } };
  return hasRoom ? { do: 'start' } : { do: 'refuse', refusal: { reason: 'at-capacity' } };
}

export type EndingDecision =
  /** End every fence up to the command's, and answer for it and for what was up. */
  { readonly do: 'end' } | { readonly do: 'repeat'; readonly report: EndReport } | { readonly do: 'drop'; readonly why: 'lower-fence' };

/** The rules of stops and releases, first match wins. */
export function decideEnding({ fence }: StopCommand | ReleaseCommand, { up, ends }: Pick<KeyState, 'up' | 'ends'>): EndingDecision {
  if (up?.fence === fence) return { do: 'end' };
  const report = ends.at(fence);
  if (report?.type === 'refused') return { do: 'repeat', report };
  if (!up || up.fence < fence) return { do: 'end' };
  return report ? { do: 'repeat', report } : { do: 'drop', why: 'lower-fence' };
}
