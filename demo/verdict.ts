import { fallsSilent, type Mishap } from './scenario.ts';

/** What a run came to. Each number comes from where the thing is recorded, never from what was meant to happen. */
export interface Counts {
  /** Requests that the queue took, repeats and refused ones included. */
  readonly requested: number;
  /** Distinct dispatch ids with a valid request. */
  readonly dispatches: number;
  /** Dispatches with the outcome `started`. */
  readonly started: number;
  /** Refusals by reason: of dispatches by their records, `fingerprint-mismatch` as the client that asked sees it. */
  readonly refused: Readonly<Record<string, number>>;
  /** Messages in the request queue's dead-letter queue. */
  readonly deadLettered: number;
  /** Handlers that the sink saw start. */
  readonly handlerStarts: number;
  /** Jobs that a worker handed back to run elsewhere, by its events. */
  readonly handedBack: number;
  /** Jobs that another owner started again because theirs was lost, by the workers' events. */
  readonly reowned: number;
  /** Jobs whose records were deleted while they ran and that have them back, with their true times and the handler that they had. */
  readonly restored: number;
  /** Ends of dispatches by kind. */
  readonly ends: Readonly<Record<string, number>>;
  readonly lines: {
    /** Complete lines in the feeds. */
    readonly written: number;
    /** In the sink. */
    readonly recorded: number;
    readonly duplicated: number;
    /** Written, but not recorded as they were written. */
    readonly lost: number;
  };
  /** Writes that the sink refused because a later owner was there. */
  readonly fencedWrites: number;
  /** Moments with two live handlers of a key. */
  readonly overlaps: number;
  /** Resync rounds by how they came to their end. */
  readonly rounds: Readonly<Record<string, number>>;
  /** By what happened to a worker: how long until each of its jobs had been started by another owner, in leases. */
  readonly recovery: Readonly<Partial<Record<Mishap, Spread>>>;
  /** Jobs that each worker says it started. */
  readonly workers: Readonly<Record<string, number>>;
  readonly seconds: number;
}

export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** What was asked for, and what happened to workers, as far as the guarantees say what must become of it. */
export interface Asked {
  /** Every request, as often as it was sent. */
  readonly requests: number;
  /** Dispatches that must start: at a free key, behind a stop, or as `next`. */
  readonly starts: number;
  readonly busy: number;
  readonly conflicts: number;
  readonly malformed: number;
  readonly stops: number;
  /** Running jobs of which records were deleted. */
  readonly deletions: number;
  /** What happened to a worker, and how many jobs it ran. */
  readonly mishaps: ReadonlyMap<Mishap, number>;
}

/** A number by its name in `Counts`, what it has to be (absent: anything), and why. */
export interface Check {
  readonly name: string;
  readonly is: number;
  readonly mustBe?: number | { readonly atLeast: number } | { readonly atMost: number };
  readonly because: string;
}

/** A worker that falls silent may have beaten a third of a lease before, and a whole one has to pass without a beat. */
const soonest = 0.66;

/** Every number of a run beside the one that the guarantees call for; `settledOnce`: dispatches whose outcome and end are there and never changed. */
export function checksOf(counts: Counts, asked: Asked, settledOnce: number): readonly Check[] {
  const { refused, ends, lines } = counts;
  return [
    { name: 'requested', is: counts.requested, mustBe: asked.requests, because: 'requests that the queue took, each sent twice' },
    { name: 'dispatches', is: counts.dispatches, because: 'distinct and valid ones' },
    { name: 'settled once', is: settledOnce, mustBe: counts.dispatches, because: 'each has one outcome and one end, for good' },
    { name: 'started', is: counts.started, mustBe: asked.starts, because: 'no job is lost' },
    { name: 'refused.key-busy', is: refused['key-busy'] ?? 0, mustBe: asked.busy, because: 'another dispatch ran there' },
    {
      name: 'refused.fingerprint-mismatch',
      is: refused['fingerprint-mismatch'] ?? 0,
      mustBe: asked.conflicts,
      because: 'a known dispatch id with another payload',
    },
    ...others(refused, ['key-busy', 'fingerprint-mismatch']).map(([reason, is]) => ({
      name: `refused.${reason}`,
      is,
      because: 'by its record',
    })),
    { name: 'deadLettered', is: counts.deadLettered, mustBe: asked.malformed, because: 'malformed requests, and nothing else' },
    {
      name: 'handlerStarts',
      is: counts.handlerStarts,
      mustBe: counts.started + counts.handedBack + counts.reowned,
      because: 'one per started dispatch, one more per job handed back or lost',
    },
    { name: 'handedBack', is: counts.handedBack, because: 'by the worker that left' },
    { name: 'reowned', is: counts.reowned, because: 'started again, for their owner was lost' },
    {
      name: 'restored',
      is: counts.restored,
      mustBe: asked.deletions,
      because: 'deleted under running jobs, and back with their true times',
    },
    { name: 'ends.succeeded', is: ends.succeeded ?? 0, mustBe: asked.starts - asked.stops, because: 'their feeds ended' },
    { name: 'ends.stopped', is: ends.stopped ?? 0, mustBe: asked.stops, because: 'stops that were asked for' },
    { name: 'ends.never-started', is: ends['never-started'] ?? 0, mustBe: asked.busy, because: 'the refused ones' },
    ...others(ends, ['succeeded', 'stopped', 'never-started']).map(([kind, is]) => ({
      name: `ends.${kind}`,
      is,
      mustBe: 0,
      because: 'nothing failed',
    })),
    { name: 'lines.written', is: lines.written, because: 'in the feeds' },
    { name: 'lines.recorded', is: lines.recorded, mustBe: lines.written, because: 'in the sink' },
    { name: 'lines.duplicated', is: lines.duplicated, mustBe: 0, because: 'the position is recorded with the line' },
    { name: 'lines.lost', is: lines.lost, mustBe: 0, because: 'each owner goes on where the last one stopped' },
    { name: 'overlaps', is: counts.overlaps, mustBe: 0, because: 'moments with two live handlers of a key' },
    {
      name: 'fencedWrites',
      is: counts.fencedWrites,
      mustBe: { atMost: asked.mishaps.get('frozen') ?? 0 },
      because: 'refused by the sink: a frozen process may try one for each job',
    },
    {
      name: 'rounds.lost',
      is: counts.rounds.lost ?? 0,
      mustBe: { atLeast: [...asked.mishaps.keys()].filter(fallsSilent).length },
      because: 'each silent worker was asked in vain before it was given up on',
    },
    ...others(counts.rounds, ['lost']).map(([result, is]) => ({ name: `rounds.${result}`, is, because: 'by the state machine' })),
    ...(Object.entries(counts.recovery) as [Mishap, Spread][]).map(([kind, { min, median, max }]) => ({
      name: `recovery.${kind}.min`,
      is: min,
      ...(fallsSilent(kind) && { mustBe: { atLeast: soonest } }),
      because: `leases until its jobs ran elsewhere; median ${median}, max ${max}`,
    })),
    {
      name: 'workers',
      is: sum(counts.workers),
      mustBe: counts.handlerStarts,
      because: `jobs that they say they started: ${Object.values(counts.workers).join(' + ')}`,
    },
  ];
}

export function isBroken({ is, mustBe }: Check): boolean {
  if (mustBe === undefined) return false;
  if (typeof mustBe === 'number') return is !== mustBe;
  return 'atLeast' in mustBe ? is < mustBe.atLeast : is > mustBe.atMost;
}

/** What a number must be, for people. */
export function wanted({ mustBe }: Check): string {
  if (mustBe === undefined) return '';
  if (typeof mustBe === 'number') return String(mustBe);
  return 'atLeast' in mustBe ? `≥ ${mustBe.atLeast}` : `≤ ${mustBe.atMost}`;
}

/** How many of the written lines are not recorded under their number, as they were written. */
export function lostLines(written: readonly string[], recorded: ReadonlyMap<number, string>): number {
  return written.filter((text, index) => recorded.get(index + 1) !== text).length;
}

/** How often each name is there. */
export function tallyOf(names: Iterable<string>): Readonly<Record<string, number>> {
  const tally: Record<string, number> = {};
  for (const name of names) tally[name] = (tally[name] ?? 0) + 1;
  return tally;
}

function others(tally: Readonly<Record<string, number>>, known: readonly string[]): readonly (readonly [string, number])[] {
  return Object.entries(tally).filter(([name]) => !known.includes(name));
}

function sum(tally: Readonly<Record<string, number>>): number {
  return Object.values(tally).reduce((total, count) => total + count, 0);
}
