import type { Dispatch } from '../../lib/client/dispatch.ts';
import type { Pool } from '../../lib/client/pool.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import type { Incidents } from '../../lib/testing/incidents.ts';
import type { Checker } from '../../lib/testing/invariants.ts';
import { isSame } from '../../lib/testing/invariants.ts';
import type { Process } from '../../lib/testing/process.ts';
import { Random } from '../../lib/testing/random.ts';
import type { Scheduler } from '../../lib/testing/scheduler.ts';

import type { Answer, History } from './history.ts';

/** What was asked for under a dispatch id, as the client that asked knows it. */
export interface Asked {
  readonly dispatchId: string;
  readonly starts: { readonly key: string; readonly payload: string; readonly isSent: boolean }[];
  /** What a client was told became of it. */
  outcome?: unknown;
  end?: unknown;
}

export interface WorkloadOptions {
  readonly random: Random;
  readonly scheduler: Scheduler;
  readonly checker: Checker;
  readonly history: History;
  readonly incidents: Incidents;
  readonly client: { readonly process: Process; readonly pool: Pool };
  readonly keys: readonly string[];
  /** All clients know of each other's dispatches, so that they replay and stop them. */
  readonly asked: Map<string, Asked>;
  readonly pauseMs: number;
  readonly tell: (who: string, what: () => string) => void;
}

/** What of a start is not left to chance. */
interface How {
  readonly payload?: string;
  readonly ifBusy?: 'reject' | 'next' | 'replace';
}

const ANSWERED = 'a wait is answered, and twice alike';
const PAYLOADS = ['p', 'q', ''];
/** How much later than its deadline a wait may be told so. */
const LATE_MS = 500;

/** A client that starts, replays, contradicts, stops, notifies and waits, few keys and few dispatch ids over and over. */
export class Workload {
  readonly #options: WorkloadOptions;
  #isOver = false;
  #made = 0;

  constructor(options: WorkloadOptions) {
    this.#options = options;
    this.#again();
  }

  end(): void {
    this.#isOver = true;
  }

  #again(): void {
    const { client, random, pauseMs } = this.#options;
    client.process.after(random.between(1, 2 * pauseMs), () => {
      if (this.#isOver) return;
      this.#act(new Random(random.seed()));
      this.#again();
    });
  }

  /** Asks for this besides, at the key, of the dispatch or of any. */
  ask(operation: 'start' | 'stop' | 'notify', key: string, { dispatchId, ...how }: { readonly dispatchId?: string } & How = {}): void {
    if (this.#isOver) return;
    const known = dispatchId === undefined ? undefined : this.#options.asked.get(dispatchId);
    this.#do(operation, (random) => this.#operate(operation, key, known, random, how));
  }

  #act(random: Random): void {
    const { keys, client } = this.#options;
    const key = random.pick(keys);
    const lot = random.next();
    const operation = lot < 0.6 ? 'start' : lot < 0.8 ? 'stop' : lot < 0.9 ? 'notify' : 'wait';
    if (operation !== 'wait') {
      const known = () => (random.chance(operation === 'start' ? 0.35 : 0.5) ? this.#known(random) : undefined);
      this.#do(operation, () => this.#operate(operation, key, known(), random), random);
    } else
      this.#do(
        'wait',
        async () => {
          const asked = this.#known(random);
          if (asked) await this.#wait(client.pool.dispatch(asked.dispatchId), asked, lot < 0.96 ? 'outcome' : 'ended', random);
        },
        random,
      );
  }

  #do(operation: string, act: (random: Random) => Promise<unknown>, random = new Random(this.#options.random.seed())): void {
    const { incidents, client } = this.#options;
    if (!incidents.happens(`${client.process.name} ${operation}`)) return;
    act(random).catch((error: unknown) => {
      if (!(error instanceof PoolError)) throw error;
      this.#tell(() => `hears ${error.code}: ${error.message}`);
    });
  }

  #operate(operation: 'start' | 'stop' | 'notify', key: string, known: Asked | undefined, random: Random, how: How = {}): Promise<unknown> {
    switch (operation) {
      case 'start':
        return this.#start(key, known, random, how);
      case 'stop':
        return this.#stop(key, known, random);
      case 'notify':
        return this.#options.client.pool.notify(key, 'note');
      default:
        return operation satisfies never;
    }
  }

  async #stop(key: string, asked: Asked | undefined, random: Random): Promise<void> {
    const { client, history } = this.#options;
    // Now and then one that was never heard of: the start comes later, or never.
    const dispatchId = asked?.dispatchId ?? (random.chance(0.2) ? this.#next() : undefined);
    const at = asked && random.chance(0.9) ? (asked.starts[0]?.key ?? key) : key;
    this.#tell(() => `asks to stop "${at}"${dispatchId === undefined ? '' : ` for dispatch ${dispatchId}`}`);
    const named = dispatchId === undefined ? {} : { dispatchId };
    const acknowledged = history.asks({ type: 'stop', key: at, ...named });
    if (dispatchId !== undefined && !asked) this.#ask(dispatchId);
    await client.pool.stop(at, named);
    acknowledged();
  }

  async #start(freeKey: string, known: Asked | undefined, random: Random, how: How): Promise<void> {
    const { scheduler, client, history } = this.#options;
    const first = known?.starts[0];
    const isSame = first !== undefined && how.payload === undefined && random.chance(0.7);
    const key = isSame ? first.key : freeKey;
    const payload = isSame ? first.payload : (how.payload ?? random.pick(PAYLOADS));
    const dispatchId = known?.dispatchId ?? this.#next();
    const ifBusy = how.ifBusy ?? random.pick(['reject', 'next', 'replace'] as const);
    const expiresAt = random.chance(0.1) ? { expiresAt: new Date(scheduler.now() + random.between(-6_000, 20_000)) } : {};
    this.#tell(() => `asks to start "${key}" as dispatch ${dispatchId} with "${payload}", if busy ${ifBusy}`);
    const acknowledged = history.asks({
      ...{ type: 'start', key, dispatchId, payload, ifBusy },
      ...(expiresAt.expiresAt ? { expiresAt: expiresAt.expiresAt.getTime() } : {}),
    });
    const asked = this.#ask(dispatchId);
    const start = { key, payload, isSent: false };
    asked.starts.push(start);
    const handle = await client.pool.start(key, payload, { dispatchId, ifBusy, ...expiresAt });
    asked.starts[asked.starts.indexOf(start)] = { ...start, isSent: true };
    acknowledged();
    if (random.chance(0.15)) await this.#wait(handle, undefined, 'outcome', random, { key, payload });
  }

  /** Every wait is answered, if only with `deadline-exceeded`; what it is told is for ever. */
  async #wait(handle: Dispatch, asked: Asked | undefined, what: 'outcome' | 'ended', random: Random, own?: Answer['asked']): Promise<void> {
    const { scheduler, client, checker, history } = this.#options;
    const timeoutMs = random.between(1, random.pick([500, 5_000, 30_000]));
    const who = `${client.process.name} waits for ${what} of dispatch ${handle.dispatchId}`;
    const cancel = scheduler.after(timeoutMs + LATE_MS, () =>
      checker.check(false, ANSWERED, () => `${who} for ${timeoutMs} ms, and hears nothing ${LATE_MS} ms after that`),
    );
    try {
      const answer = await (what === 'outcome' ? handle.outcome({ timeoutMs }) : handle.ended({ timeoutMs }));
      this.#tell(() => `hears of dispatch ${handle.dispatchId}: ${JSON.stringify(answer)}`);
      history.hears({ dispatchId: handle.dispatchId, what, answer, ...(own ? { asked: own } : {}) });
      if (asked) this.#heard(asked, what === 'outcome' ? 'outcome' : 'end', answer);
    } finally {
      cancel();
    }
  }

  #heard(asked: Asked, what: 'outcome' | 'end', answer: unknown): void {
    const { checker } = this.#options;
    const first = asked[what] ?? answer;
    asked[what] = first;
    if (checker.lostOf(asked.dispatchId)) return;
    const both = () => `dispatch ${asked.dispatchId} was answered ${JSON.stringify(first)}, then ${JSON.stringify(answer)}`;
    checker.check(isSame(first, answer), ANSWERED, both);
  }

  #known(random: Random): Asked | undefined {
    const { asked } = this.#options;
    // Mostly recent ones, now and then one from long ago.
    const all = [...asked.values()];
    return all.length === 0 ? undefined : random.pick(random.chance(0.8) ? all.slice(-6) : all);
  }

  #ask(dispatchId: string): Asked {
    const { asked } = this.#options;
    const known = asked.get(dispatchId) ?? { dispatchId, starts: [] };
    asked.set(dispatchId, known);
    return known;
  }

  #next(): string {
    return `${this.#options.client.process.name}-${++this.#made}`;
  }

  #tell(what: () => string): void {
    this.#options.tell(this.#options.client.process.name, what);
  }
}
