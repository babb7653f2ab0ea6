import { join } from 'node:path';
import { fingerprintOf } from 'holdfast/wire';
import { Random } from '../lib/testing/random.ts';

/** How much of everything; `sizesOf` derives most of it from the number of jobs. */
export interface Sizes {
  /** Feeds, and starts in the first wave. */
  readonly jobs: number;
  readonly workers: number;
  /** Starts of another dispatch at a key that runs, which are to be refused. */
  readonly busy: number;
  /** The same with `ifBusy: next`: they wait for the running job's end. */
  readonly waiting: number;
  /** Starts that repeat a dispatch id with another payload. */
  readonly conflicts: number;
  /** Jobs that are stopped. */
  readonly stops: number;
  /** Of those, started again. */
  readonly restarts: number;
  /** Jobs whose records are deleted while they run, for a round to restore. */
  readonly deletions: number;
  readonly mishaps: readonly Mishap[];
}

export function sizesOf(jobs: number, workers: number, of: readonly Mishap[] = mishaps): Sizes {
  const share = (part: number) => Math.ceil(jobs * part);
  const stops = Math.floor(jobs / 4);
  const restarts = Math.floor(stops / 2);
  // Once every way to delete, at least.
  const deletions = Math.max(deletable.length, share(0.06));
  const busy = Math.max(deletions, share(0.1));
  return { jobs, workers, busy, waiting: share(0.025), conflicts: share(0.05), stops, restarts, deletions, mishaps: of };
}

/** What may happen to a worker. */
export const mishaps = ['restarted', 'killed', 'frozen', 'cut-off'] as const;
export type Mishap = (typeof mishaps)[number];

/** Whether nothing tells of it but that the worker beats no more: one that is restarted says so itself. */
export function fallsSilent(mishap: Mishap): boolean {
  return mishap !== 'restarted';
}

/** A record of a job, or of its dispatch; a payload is a record of its own where it is large. */
export type RecordName = 'job' | 'dispatch' | 'payload';

/** What is deleted of jobs that run, one way after the other: a round asks only for what no job record is there of. */
const deletable = [['job'], ['job', 'dispatch'], ['job', 'payload'], ['job', 'dispatch', 'payload']] as const satisfies RecordName[][];

/** Records that somebody deletes under a running job. */
export interface Deletion {
  readonly key: string;
  readonly dispatchId: string;
  readonly fingerprint: string;
  readonly records: readonly RecordName[];
}

/** The body of a request, as any producer writes it. */
export type Body =
  | {
      readonly v: 1;
      readonly op: 'start';
      readonly key: string;
      readonly payload: string;
      readonly dispatchId: string;
      readonly ifBusy?: 'next';
    }
  | { readonly v: 1; readonly op: 'stop'; readonly key: string; readonly dispatchId: string };
export type StartBody = Extract<Body, { op: 'start' }>;

export interface Feed {
  readonly key: string;
  readonly file: string;
}

/** A line that is no request; the dispatch id where one can be read in it. */
export interface Malformed {
  readonly body: string;
  readonly dispatchId?: string;
}

/** What the demo asks of the pool: wave by wave, all of it from a seed. */
export interface Scenario {
  readonly feeds: readonly Feed[];
  /** One per feed. */
  readonly starts: readonly StartBody[];
  readonly malformed: readonly Malformed[];
  readonly busy: readonly StartBody[];
  readonly waiting: readonly StartBody[];
  readonly conflicts: readonly StartBody[];
  /** Restored by a round. None of these jobs has anything under way: each has had a `busy` one refused, and that was the last request for it. */
  readonly deletions: readonly Deletion[];
  /** Of jobs that are about to be stopped: whoever records that end writes the dispatch record whole. */
  readonly deletionsAtStop: readonly Deletion[];
  readonly stops: readonly Extract<Body, { op: 'stop' }>[];
  /** Sent right behind the stops, while they are under way. */
  readonly restartsAtOnce: readonly StartBody[];
  /** Sent when the first dispatch has ended. */
  readonly restartsAfterwards: readonly StartBody[];
  /** What happens to workers, one after the other, while everything runs that is not to be stopped. */
  readonly mishaps: readonly Mishap[];
}

/** Of a payload that does not fit into its dispatch's record. */
const largeBytes = 2_500;

// Keys may be any text, so they are.
const families = ['tenant:', 'cam/é#', 'a b=', '"quoted", ', '😀/', '../', ''];

/** `run` goes into every dispatch id: a pool that has seen another run remembers those of it. */
export function scenarioOf(sizes: Sizes, folder: string, run: string, seed: number): Scenario {
  const random = new Random(seed);
  const feeds = Array.from({ length: sizes.jobs }, (_, index): Feed => {
    const number = String(index).padStart(3, '0');
    return { key: `${families[index % families.length]}${number}`, file: join(folder, `${number}.feed`) };
  });
  const id = (purpose: string, { key }: Feed) => `${run} ${purpose} ${key}`;
  const [stopped, others] = split(shuffled(feeds, random), sizes.stops);
  const [restarted, stoppedForGood] = split(stopped, sizes.restarts);
  const [atOnce, afterwards] = split(restarted, Math.ceil(sizes.restarts / 2));
  const [followed, undisturbed] = split(others, sizes.waiting);
  const [robbed] = split(undisturbed, sizes.deletions);
  const recordsOf = new Map(robbed.map((feed, index) => [feed, deletable[index % deletable.length] ?? []]));
  const isLarge = (feed: Feed) => recordsOf.get(feed)?.some((record) => record === 'payload');
  const start = (feed: Feed, purpose: string, more?: Partial<StartBody>): StartBody => {
    const payload = JSON.stringify({ file: feed.file, ...(isLarge(feed) && { about: '.'.repeat(largeBytes) }) });
    return { v: 1, op: 'start', key: feed.key, payload, dispatchId: id(purpose, feed), ...more };
  };
  const deletion = (feed: Feed, records: readonly RecordName[]): Deletion => {
    const { key, payload, dispatchId } = start(feed, 'first');
    return { key, dispatchId, fingerprint: fingerprintOf(key, Buffer.from(payload)), records };
  };
  const untouched = feeds.filter((feed) => !recordsOf.has(feed));
  return {
    feeds,
    starts: feeds.map((feed) => start(feed, 'first')),
    malformed: malformed(feeds, run),
    busy: [...robbed, ...shuffled(untouched, random)].slice(0, sizes.busy).map((feed) => start(feed, 'busy')),
    waiting: followed.map((feed) => start(feed, 'waiting', { ifBusy: 'next' })),
    conflicts: shuffled(untouched, random)
      .slice(0, sizes.conflicts)
      .map((feed) => start(feed, 'first', { payload: '{"file":"another"}' })),
    deletions: robbed.map((feed) => deletion(feed, recordsOf.get(feed) ?? [])),
    deletionsAtStop: stoppedForGood.filter((_, index) => index % 5 === 0).map((feed) => deletion(feed, ['dispatch'])),
    stops: stopped.map((feed) => ({ v: 1, op: 'stop', key: feed.key, dispatchId: id('first', feed) })),
    restartsAtOnce: atOnce.map((feed) => start(feed, 'again')),
    restartsAfterwards: afterwards.map((feed) => start(feed, 'again')),
    mishaps: sizes.mishaps,
  };
}

/** The dispatches that are valid: each is to be settled once. */
export function dispatchesOf(scenario: Scenario): readonly StartBody[] {
  return [...scenario.starts, ...scenario.busy, ...scenario.waiting, ...scenario.restartsAtOnce, ...scenario.restartsAfterwards];
}

/** Lines that the pool has to refuse, among them some at the keys of good ones. */
function malformed(feeds: readonly Feed[], run: string): readonly Malformed[] {
  const key = (index: number) => feeds[index % feeds.length]?.key;
  const good = (index: number, fault: string) => ({ v: 1, op: 'start', key: key(index), payload: '', dispatchId: `${run} bad ${fault}` });
  const faulty = [
    { ...good(1, 'op'), op: 'begin' },
    { ...good(2, 'version'), v: 99 },
    { ...good(3, 'key'), key: '' },
    { ...good(4, 'payload'), payload: '***', encoding: 'base64' },
    { ...good(5, 'choice'), ifBusy: 'wait' },
    { ...good(6, 'size'), payload: 'x'.repeat(256 * 1024 + 1) },
    { ...good(7, 'field'), dispatchID: 'misspelt' },
  ];
  return [
    ...['not json', '[]', 'null', JSON.stringify({ v: 1, op: 'start', key: key(0) })].map((body) => ({ body })),
    ...faulty.map((request) => ({ body: JSON.stringify(request), dispatchId: request.dispatchId })),
  ];
}

function split<T>(items: readonly T[], at: number): readonly [readonly T[], readonly T[]] {
  return [items.slice(0, at), items.slice(at)];
}

export function shuffled<T>(items: readonly T[], random: Random): readonly T[] {
  return items
    .map((item) => ({ item, place: random.next() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
