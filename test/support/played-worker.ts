import { type Command, type FactReport, fingerprintOf, type ResyncReport, type StartCommand } from '../../lib/wire/index.ts';
import { type EndReport, Ends } from '../../lib/worker/fences.ts';
import type { Life } from '../../lib/worker/life.ts';
import { answerRound, type KeyView } from '../../lib/worker/round.ts';
import type { ControlPlane } from './control-plane.ts';

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
  async beat({ answered = false }: { readonly answered?: boolean } = {}): Promise<boolean> {
    const { workers } = this.#plane.services;
    const round = answered ? this.question().at(-1)?.round : undefined;
    const beat = { workerId: this.worker, session: this.session, running: this.#lives.size };
    return (await workers.heartbeat({ ...beat, ...(round === undefined ? {} : { answered: round }) })).outcome === 'renewed';
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
