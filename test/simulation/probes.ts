// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted here is source text.
import type { WorkerEvent } from '../../lib/worker/events.ts';
import type { Decider, MET } from './met.ts';
import type { Edit } from './transform.ts';

/**
 * What was really decided, on what: each decider is wrapped when a thread loads it, so that what is counted is what was at hand at that moment, and
 * not what a record says by the time that somebody looks.
 */
export const PROBES: readonly Edit[] = [
  wrapped('lib/pool/decide-request.ts', 'decideRequest'),
  wrapped('lib/pool/decide-report.ts', 'decideReport'),
  wrapped('lib/pool/decide-owner-lost.ts', 'decideOwnerLost'),
  wrapped('lib/resync/decide-entry.ts', 'decideEntry'),
  wrapped('lib/resync/decide-restore.ts', 'decideRestore'),
  wrapped('lib/resync/decide-restore.ts', 'decideHolder'),
  wrapped('lib/resync/decide-expiry.ts', 'decideExpiry'),
  wrapped('lib/worker/fences.ts', 'decideStart'),
  wrapped('lib/worker/fences.ts', 'decideEnding'),
  wrapped('lib/worker/round.ts', 'answerRound'),
  {
    file: 'lib/pool/effects.ts',
    find: 'return isOwnerLost(await',
    replace: "return globalThis.simulation.watch('isOwnerLost', isOwnerLost)(await",
  },
  noted('lib/worker/fences.ts', 'this.#byFence.delete(fence);', "'worker: an end is forgotten'"),
  noted('lib/worker/key-lane.ts', 'life.interrupt(ending.reason, deadline);', '`worker, ${ending.kind}: interrupts a start`'),
  noted('lib/worker/key-lane.ts', 'this.ends.confirm(fence);', "'worker, confirm: confirmed'"),
  noted('lib/worker/events.ts', 'const { type, ...fields } = event;', 'globalThis.simulation.named(event)'),
];

/** `function decideStart(` is loaded as a constant that asks the original and notes what it answered. */
function wrapped(file: string, decider: Decider): Edit {
  const original = `${decider}Itself`;
  return {
    file,
    find: `export function ${decider}(`,
    replace: `export const ${decider} = globalThis.simulation.watch('${decider}', ${original});\nfunction ${original}(`,
  };
}

function noted(file: string, find: string, name: string): Edit {
  return { file, find, replace: `globalThis.simulation.note(${name});\n    ${find}` };
}

/** What the probes call. It has to be there before the product is loaded; `namesOf` may come later. */
export class Probe {
  namesOf: typeof MET | undefined;
  #met = new Map<string, number>();
  /** A decider that another one asks decides nothing of its own. */
  #isInside = false;

  readonly note = (name: string): void => {
    this.#met.set(name, (this.#met.get(name) ?? 0) + 1);
  };

  watch<A extends readonly unknown[], R>(decider: Decider, decide: (...args: A) => R): (...args: A) => R {
    return (...args) => {
      if (this.#isInside) return decide(...args);
      this.#isInside = true;
      try {
        const decision = decide(...args);
        const named = (this.namesOf?.[decider] as ((args: A, decision: R) => readonly string[]) | undefined)?.(args, decision);
        for (const name of named ?? []) this.note(name);
        return decision;
      } finally {
        this.#isInside = false;
      }
    };
  }

  named(event: WorkerEvent): string {
    switch (event.type) {
      case 'command-dropped':
        return `worker drops: ${event.why}`;
      case 'lease-lost':
        return `worker, session over: ${event.reason}`;
      default:
        return `worker tells: ${event.type}`;
    }
  }

  /** What was met since the last time. */
  taken(): ReadonlyMap<string, number> {
    const met = this.#met;
    this.#met = new Map();
    return met;
  }
}
