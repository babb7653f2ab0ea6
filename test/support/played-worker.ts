import {
  type Command,
  type FactReport,
  fingerprintOf,
  type ReleaseCommand,
  type ResyncReport,
  type RunningJob,
  type StartCommand,
  type StopCommand,
} from '../../lib/wire/index.ts';
import { decideEnding, decideStart, type EndReport, Ends, type KeyState } from '../../lib/worker/fences.ts';
import type { Life } from '../../lib/worker/life.ts';
import { answerRound, type KeyView } from '../../lib/worker/round.ts';
import type { ControlPlane } from './control-plane.ts';

const BEAT_MS = 5_000;

/** A command about one dispatch. */
type DispatchCommand = Extract<Command, { readonly dispatchId: string }>;

/**
 * A worker as a test plays it. It does nothing by itself: what comes up, ends, is said or kept to itself is the test's to choose. What it
 * answers to a round is what the runtime answers of the same lives and ends.
 */
export class PlayedWorker {
  readonly worker: string;
  readonly session: string;
  readonly #plane: ControlPlane;
  readonly #lives = new Map<string, Pick<Life, 'command' | 'fence' | 'startedAt'>>();
  readonly #ends = new Map<string, Ends>();
  #obeyed = 0;
  #beats = 0;

  constructor(plane: ControlPlane, worker: string, session: string) {
    this.#plane = plane;
    this.worker = worker;
    this.session = session;
  }

  static async registered(
    plane: ControlPlane,
    worker: string,
    session: string,
    options: Parameters<ControlPlane['addWorker']>[2] = {},
  ): Promise<PlayedWorker> {
    await plane.addWorker(worker, session, options);
    return new PlayedWorker(plane, worker, session);
  }

  /** A heartbeat; with `answered` it says that the round which is asked now is answered whole. */
  async beat({
    answered = false,
    running = this.#lives.size,
  }: {
    readonly answered?: boolean;
    readonly running?: number;
  } = {}): Promise<boolean> {
    const { workers } = this.#plane.services;
    const round = answered ? this.question().at(-1)?.round : undefined;
    const said = { workerId: this.worker, session: this.session, beat: ++this.#beats, running };
    return (await workers.heartbeat({ ...said, ...(round === undefined ? {} : { answered: round }) })).outcome === 'renewed';
  }

  /** What is in its inbox, in the order in which it came. */
  get inbox(): readonly Command[] {
    return this.#plane.sent.filter(({ session }) => session === this.session);
  }

  /** Of the command that it was sent last about the key. */
  told(key: string): DispatchCommand {
    const command = this.inbox.filter((each): each is DispatchCommand => 'dispatchId' in each && each.key === key).at(-1);
    if (!command) throw new Error(`${this.worker} was sent nothing about ${JSON.stringify(key)}`);
    return command;
  }

  /** The handler is up, under the fence that it was told; nothing is said of it. */
  up(key: string, startedAt = this.#plane.now(), { fence, dispatchId, fingerprint } = this.told(key) as Named): void {
    this.#lives.set(key, { command: { key, dispatchId, fingerprint } as StartCommand, fence, startedAt });
  }

  /** The handler of a job that a test put there. */
  holds(key: string, dispatchId: string, payload: Uint8Array, fence: number, startedAt: number): void {
    this.up(key, startedAt, { dispatchId, fingerprint: fingerprintOf(key, payload), fence });
  }

  /** The handler is over, and how that was is remembered; nothing is said of it. */
  over(key: string, how: EndReport['type'] = 'finished', more: object = {}): void {
    const life = this.#lives.get(key);
    const { dispatchId, fingerprint } = life?.command ?? this.told(key);
    const startedAt = life?.startedAt === undefined ? {} : { startedAt: life.startedAt };
    const fence = life?.fence ?? this.told(key).fence;
    this.#lives.delete(key);
    const report = { ...this.#says(how), key, dispatchId, fingerprint, fence, ...startedAt, ...more } as EndReport;
    this.#endsOf(key).record(report);
  }

  /** The handler is gone, and with it what was known of it. */
  forget(key: string): void {
    this.#lives.delete(key);
    this.#ends.delete(key);
  }

  /**
   * From now on it beats and answers each round, once, as things are then. `answers`: as soon as it is asked, `lateMs` after it said that it
   * had, or never, though it says so of the first one (`loses`).
   */
  lives({
    answers = true,
    lateMs = 0,
    loses = 0,
  }: {
    readonly answers?: boolean;
    readonly lateMs?: number;
    readonly loses?: number;
  } = {}): void {
    const answered: string[] = [];
    const again = () => {
      const [first] = this.question();
      const isAsked = first?.pages === this.question().length && !answered.includes(first.round);
      if (answers && isAsked) {
        answered.push(first.round);
        const pages = this.answer();
        if (answered.length > loses) this.#plane.scheduler.after(lateMs, () => this.#plane.report(...pages));
      }
      void this.beat({ answered: answered.length > 0 });
      this.#plane.scheduler.after(BEAT_MS, again);
    };
    again();
  }

  /** An end as it is remembered. */
  remembers(report: EndReport): void {
    this.#endsOf(report.key).record(report);
  }

  /** Does all that it was sent since it last did, as the runtime does, and says so. */
  obey(): void {
    const commands = this.inbox.slice(this.#obeyed);
    this.#obeyed = this.inbox.length;
    for (const command of commands) {
      if (command.op === 'start') this.#start(command);
      if (command.op === 'stop' || command.op === 'release') this.#end(command);
    }
  }

  #start(command: StartCommand): void {
    const { key, fence } = command;
    const decision = decideStart(command, this.#state(key));
    if (decision.do === 'keep')
      this.up(key, this.#lives.get(key)?.startedAt, { ...command, fence: Math.max(fence, this.#lives.get(key)?.fence ?? 0) });
    if (decision.do === 'start') this.up(key, this.#plane.now(), command);
    if (decision.do === 'keep' || decision.do === 'start') this.#plane.report(this.started(key));
    if (decision.do === 'refuse') this.#tell(command, 'refused', decision.refusal);
    if (decision.do === 'answer') this.#tell(command, decision.type);
    if (decision.do === 'repeat') this.#plane.report(decision.report);
  }

  #end(command: StopCommand | ReleaseCommand): void {
    const { key, op, reason, fence: upTo } = command;
    const decision = decideEnding(command, this.#state(key));
    if (decision.do === 'repeat') this.#plane.report(decision.report);
    if (decision.do !== 'end') return;
    const answer = op === 'stop' ? 'stopped' : 'released';
    const life = this.#lives.get(key);
    this.#lives.delete(key);
    this.#endsOf(key).cutOff({ upTo, answer, reason });
    if (life) this.#tell({ ...life.command, fence: life.fence }, answer, { startedAt: life.startedAt });
    if (life?.fence !== upTo) this.#tell(command, answer);
  }

  #tell(
    { key, dispatchId, fingerprint, fence }: StartCommand | StopCommand | ReleaseCommand,
    type: EndReport['type'],
    more: object = {},
  ): void {
    const report = { ...this.#says(type), key, dispatchId, fingerprint, fence, ...more } as EndReport;
    this.#endsOf(key).record(report);
    this.#plane.report(report);
  }

  #state(key: string): KeyState {
    const { command, fence, startedAt } = this.#lives.get(key) ?? {};
    const up = command && startedAt !== undefined ? { up: { ...command, fence: fence as number, startedAt } as RunningJob } : {};
    return { ...up, ends: this.#endsOf(key), hasRoom: true, isDraining: false };
  }

  /** Reports that what is up at the key is up. */
  started(key: string): FactReport {
    const life = this.#lives.get(key);
    if (life?.startedAt === undefined) throw new Error(`nothing is up at ${JSON.stringify(key)}`);
    const { dispatchId, fingerprint } = life.command;
    return { ...this.#says('started'), key, dispatchId, fingerprint, fence: life.fence, startedAt: life.startedAt } as FactReport;
  }

  /** How the fence that was told last ended, as it is remembered. */
  ended(key: string): FactReport {
    const report = this.#endsOf(key).above(0).at(-1);
    if (!report) throw new Error(`nothing ended at ${JSON.stringify(key)}`);
    return report;
  }

  /** The pages of the question of the round that it was asked last, each as it came last. */
  question(): readonly Extract<Command, { readonly op: 'resync' }>[] {
    const asked = this.inbox.filter((command) => command.op === 'resync');
    const latest = asked.at(-1)?.round;
    const pages = new Map(asked.filter(({ round }) => round === latest).map((page) => [page.page, page]));
    return [...pages.values()].sort((one, other) => one.page - other.page);
  }

  /** Its answer, as things are now. */
  answer(question = this.question()): readonly ResyncReport[] {
    const [first] = question;
    if (!first || question.length !== first.pages) throw new Error(`${this.worker} was not asked, or not the whole question`);
    const keys = new Set([...this.#lives.keys(), ...this.#ends.keys()]);
    const views = [...keys].map((key): KeyView => ({ key, life: this.#lives.get(key), ends: this.#endsOf(key) }));
    const pages = answerRound(
      first.round,
      question.map(({ jobs }) => jobs),
      views,
    );
    return pages.map((page) => ({ ...this.#says('resync'), ...page }) as ResyncReport);
  }

  #says(type: string) {
    return { type, worker: this.worker, session: this.session, at: this.#plane.now() };
  }

  #endsOf(key: string): Ends {
    let ends = this.#ends.get(key);
    if (!ends) {
      ends = new Ends();
      this.#ends.set(key, ends);
    }
    return ends;
  }
}

type Named = Pick<DispatchCommand, 'dispatchId' | 'fingerprint' | 'fence'>;
