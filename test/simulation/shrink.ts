import type { Failure, RunWorld, Task } from './simulate.ts';

/** The least of a failing world that still fails: the same seed, with few of the things that went wrong in it or were asked for. */
export interface Shrunk {
  readonly task: Task;
  readonly failure: Failure;
  /** What happened in the world as it was, and what of it is left. */
  readonly incidents: { readonly before: number; readonly left: readonly string[] };
  readonly runs: number;
}

export interface ShrinkOptions {
  readonly run: RunWorld;
  /** Worlds that `run` takes on at once. What comes out is the same for any number. */
  readonly atOnce: number;
  /** Default 2,000. */
  readonly maxRuns?: number;
  readonly onProgress?: (left: number, runs: number) => void;
}

/**
 * Leaves out more and more and keeps what still breaks the same guarantee: first workers and keys, then whole kinds of incidents, then
 * (delta debugging) halves, quarters, and so on of what is left, down to the single ones.
 */
export async function shrink(failure: Failure, { run, atOnce, maxRuns = 2_000, onProgress }: ShrinkOptions): Promise<Shrunk> {
  const { seed, profile, plots, violation } = failure;
  let runs = 0;
  let task: Task = { seed, profile, plots, keepLines: 1 };
  let best = await tried(task);
  if (!best) throw new Error(`world ${seed} (${profile}) does not fail when it is run again`);
  const before = best.incidents.length;

  async function tried(of: Task) {
    runs += 1;
    const result = await run(of);
    return result.violation?.guarantee === violation.guarantee ? { ...result, violation: result.violation } : undefined;
  }

  /** Takes the first of the smaller worlds that fails. */
  async function take(smaller: readonly Task[]): Promise<boolean> {
    for (let from = 0; from < smaller.length && runs < maxRuns; from += atOnce) {
      const some = smaller.slice(from, from + atOnce);
      const results = await Promise.all(some.map(tried));
      const index = results.findIndex((result) => result !== undefined);
      if (index < 0) continue;
      best = results[index] as NonNullable<typeof best>;
      // What did not happen any more need not be named.
      task = { ...(some[index] as Task), only: best.incidents };
      onProgress?.(best.incidents.length, runs);
      return true;
    }
    return false;
  }
  const left = () => best?.incidents ?? [];
  const without = (some: ReadonlySet<string>): Task => ({ ...task, only: left().filter((name) => !some.has(name)) });

  await take([1, 2].flatMap((workers) => [1, 2].map((keys) => ({ ...task, workers, keys }))));
  for (const kind of new Set(left().map(kindOf))) await take([without(new Set(left().filter((name) => kindOf(name) === kind)))]);
  for (let parts = 2; left().length > 0 && runs < maxRuns; ) {
    const size = Math.ceil(left().length / parts);
    // Backwards: what came last mattered most, and leaving it out changes least of what was before it.
    const chunks = Array.from({ length: Math.ceil(left().length / size) }, (_, index) => left().slice(index * size, (index + 1) * size));
    const isSmaller = await take(chunks.reverse().map((chunk) => without(new Set(chunk))));
    if (isSmaller) parts = Math.max(2, Math.min(parts - 1, left().length));
    else if (size === 1) break;
    else parts = Math.min(2 * parts, left().length);
  }
  return { task, failure: { ...failure, violation: best.violation, steps: best.steps }, incidents: { before, left: left() }, runs };
}

function kindOf(incident: string): string {
  return incident.slice(0, incident.lastIndexOf('#'));
}
