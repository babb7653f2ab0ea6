import { setTimeout as sleep } from 'node:timers/promises';
import { parseCommand, type ResyncCommand, type StartCommand } from '../../lib/wire/index.ts';
import type { Heartbeat, WorkerPorts } from '../../lib/worker/ports.ts';

export interface PuppetOptions {
  readonly workerId: string;
  readonly leaseMs: number;
  /** Says that it is there. Default: it does. */
  readonly isAnnounced?: boolean;
}

/**
 * A worker of which a test pulls the strings: it registers, and beats, takes commands and answers as long as it is told to. A start that it
 * takes is up at once.
 */
export class Puppet implements AsyncDisposable {
  readonly workerId: string;
  readonly session: string;
  /** Questions that it took, in order, answered or not. */
  readonly asked: ResyncCommand[] = [];
  answers = true;
  /** Sends each page of an answer so often. */
  times = 1;
  /** What the last heartbeat came to. */
  heard: Heartbeat | undefined;
  /** When the last heartbeat that was accepted was sent. */
  beatAt = 0;
  readonly #ports: WorkerPorts;
  readonly #leaseMs: number;
  readonly #up = new Map<string, StartCommand & { readonly startedAt: number }>();
  #answered: string | undefined;
  #isSilent = false;
  #loops: readonly Promise<void>[] = [];

  private constructor(ports: WorkerPorts, { workerId, leaseMs }: PuppetOptions) {
    this.#ports = ports;
    this.workerId = workerId;
    this.#leaseMs = leaseMs;
    this.session = ports.ids.next();
  }

  static async register(ports: WorkerPorts, options: PuppetOptions): Promise<Puppet> {
    const puppet = new Puppet(ports, options);
    const { workerId, session } = puppet;
    const registeredAt = ports.clock.now();
    await ports.inboxes.create(session);
    await ports.registry.register({ workerId, session, leaseMs: options.leaseMs, capacity: 10, registeredAt });
    if (options.isAnnounced ?? true) await ports.reports.send([{ type: 'registered', worker: workerId, session, at: registeredAt }]);
    puppet.#loops = [puppet.#beats(), puppet.#takes()];
    return puppet;
  }

  /** As if it had never run that job under that fence. */
  forget(key: string, fence: number | undefined): void {
    if (this.#up.get(key)?.fence === fence) this.#up.delete(key);
  }

  /** From now on it does nothing any more; resolves once what it was about is over. */
  async fallSilent(): Promise<void> {
    this.#isSilent = true;
    await Promise.all(this.#loops);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fallSilent();
  }

  async #beats(): Promise<void> {
    const { registry, clock } = this.#ports;
    const { workerId, session } = this;
    for (let beat = 1; !this.#isSilent; beat += 1) {
      const at = clock.now();
      const answered = this.#answered;
      const running = this.#up.size;
      this.heard = await registry.heartbeat({ workerId, session, beat, running, ...(answered !== undefined && { answered }) });
      if (this.heard.outcome === 'renewed') this.beatAt = at;
      await sleep(this.#leaseMs / 3);
    }
  }

  async #takes(): Promise<void> {
    const { inboxes } = this.#ports;
    while (!this.#isSilent) {
      const received = await inboxes.receive(this.session, 1_000);
      if (received === 'no-inbox') return;
      for (const { body, receipt } of received) {
        const parsed = parseCommand(body);
        if (parsed.ok && parsed.value.op === 'start') await this.#start(parsed.value);
        if (parsed.ok && parsed.value.op === 'resync') await this.#answer(parsed.value);
        await inboxes.delete(this.session, [receipt]);
      }
    }
  }

  async #start(command: StartCommand): Promise<void> {
    const { reports, clock } = this.#ports;
    const { key, dispatchId, fingerprint, fence } = command;
    const startedAt = clock.now();
    this.#up.set(key, { ...command, startedAt });
    const { workerId: worker, session } = this;
    await reports.send([{ type: 'started', key, dispatchId, fingerprint, fence, worker, session, at: startedAt, startedAt }]);
  }

  /** Its questions are of one page. */
  async #answer(question: ResyncCommand): Promise<void> {
    this.asked.push(question);
    if (!this.answers) return;
    const { reports, clock } = this.#ports;
    const { round, page, pages, jobs } = question;
    const entries = jobs.map(({ key, fence }) => {
      const up = this.#up.get(key);
      if (up?.fence !== fence) return { state: 'unrecognized' as const, key, fence };
      const { dispatchId, fingerprint, startedAt } = up;
      return { state: 'running' as const, key, fence, dispatchId, fingerprint, startedAt };
    });
    const { workerId: worker, session } = this;
    const answer = { type: 'resync' as const, worker, session, at: clock.now(), round, page, pages, entries };
    for (let time = 0; time < this.times; time++) await reports.send([answer]);
    this.#answered = round;
  }
}
