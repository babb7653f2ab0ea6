/**
 * Answers to resync rounds.
 *
 * A round asks in pages; the answer speaks of one moment and says of every page how many there are, so it is made once all pages are here.
 * What is said of a key needs no lock: `running` is said of exactly the fence that is up, and of a start that has not returned nothing that
 * could be taken for a fact. A page that is asked again gets the same answer again, as a message delivered twice would.
 */
import type { Fence } from '../pool/job.ts';
import type { AskedJob, ResyncCommand, ResyncEntry } from '../wire/index.ts';
import type { EndReport, Ends } from './fences.ts';
import type { Life } from './life.ts';

/** What is known of one key. */
export interface KeyView {
  readonly key: string;
  readonly life: Pick<Life, 'command' | 'fence' | 'startedAt'> | undefined;
  readonly ends: Pick<Ends, 'at' | 'above'>;
}

export interface AnswerPage {
  readonly round: string;
  readonly page: number;
  readonly pages: number;
  readonly entries: readonly ResyncEntry[];
}

const entriesPerPage = 100;

/** The round that was asked last. */
export class Round {
  /** Token of the last round whose answer was sent whole. */
  answered?: string;
  #token?: string;
  #beat = 0;
  #asked = new Map<number, readonly AskedJob[]>();
  #answer: readonly AnswerPage[] = [];
  #sent = new Set<number>();

  /** Takes a page, and gives the pages that are to be sent for it: none while others are missing. */
  take({ round, beat, page, pages, jobs }: ResyncCommand, keys: readonly KeyView[]): readonly AnswerPage[] | 'older-round' {
    if (round !== this.#token) {
      if (beat < this.#beat) return 'older-round';
      this.#token = round;
      this.#beat = beat;
      this.#asked = new Map();
      this.#answer = [];
      this.#sent = new Set();
    }
    if (this.#answer.length > 0) return this.#answer.filter((answer) => answer.page === page || (page === pages && answer.page > pages));
    this.#asked.set(page, jobs);
    if (this.#asked.size < pages) return [];
    const inOrder = [...this.#asked].sort(([a], [b]) => a - b).map(([, asked]) => asked);
    this.#answer = answerRound(round, inOrder, keys);
    return this.#answer;
  }

  /** Every key that it names, once all of its pages are here. */
  get named(): ReadonlySet<string> {
    return new Set([...this.#asked.values()].flat().map(({ key }) => key));
  }

  /** The report queue has that page. */
  sent({ round, page, pages }: AnswerPage): void {
    if (round !== this.#token) return;
    this.#sent.add(page);
    if (this.#sent.size === pages) this.answered = round;
  }
}

/** A page for each page that was asked, then pages of what lives here and was not asked about. */
export function answerRound(round: string, asked: readonly (readonly AskedJob[])[], keys: readonly KeyView[]): readonly AnswerPage[] {
  const byKey = new Map(keys.map((view) => [view.key, view]));
  const fences = new Map<string, Set<Fence>>();
  for (const { key, fence } of asked.flat()) fences.set(key, (fences.get(key) ?? new Set()).add(fence));
  const unasked = keys.flatMap((view) => unaskedEntries(view, fences.get(view.key)));
  const entries = [...asked.map((jobs) => jobs.map((job) => askedEntry(job, byKey.get(job.key)))), ...inPages(unasked)];
  return entries.map((of, index) => ({ round, page: index + 1, pages: entries.length, entries: of }));
}

function askedEntry({ key, fence }: AskedJob, view: KeyView | undefined): ResyncEntry {
  const { life, ends } = view ?? {};
  if (life?.startedAt !== undefined && life.fence === fence) return liveEntry(key, life);
  const end = ends?.at(fence);
  return end ? endEntry(end) : { state: 'unrecognized', key, fence };
}

/** What lives here under a fence that was not asked about; and, at a key that was, what ended above. */
function unaskedEntries({ key, life, ends }: KeyView, asked: ReadonlySet<Fence> | undefined): readonly ResyncEntry[] {
  const live = life && !(life.startedAt !== undefined && asked?.has(life.fence)) ? [liveEntry(key, life)] : [];
  const above = asked ? ends.above(Math.min(...asked)).filter(({ fence }) => !asked.has(fence)) : [];
  return [...live, ...above.map(endEntry)];
}

function liveEntry(key: string, { command, fence, startedAt }: NonNullable<KeyView['life']>): ResyncEntry {
  const { dispatchId, fingerprint } = command;
  const known = { key, fence, dispatchId, fingerprint };
  return startedAt === undefined ? { ...known, state: 'starting' } : { ...known, state: 'running', startedAt };
}

function endEntry(report: EndReport): ResyncEntry {
  const { key, fence, dispatchId, fingerprint, at: finishedAt, startedAt } = report;
  const known = { key, fence, dispatchId, fingerprint };
  const since = startedAt !== undefined && { startedAt };
  switch (report.type) {
    case 'finished': {
      const { startedAt, error, result, resultOmitted } = report;
      if (error) return { ...known, state: 'failed', startedAt, finishedAt, error };
      return {
        ...known,
        state: 'succeeded',
        startedAt,
        finishedAt,
        ...(result !== undefined && { result }),
        ...(resultOmitted && { resultOmitted }),
      };
    }
    case 'stopped':
      return { ...known, state: 'stopped', ...since, finishedAt, ...(report.reason && { reason: report.reason }) };
    case 'released':
      return { ...known, state: 'released', ...since, finishedAt };
    case 'start-failed':
      return { ...known, state: 'start-failed', finishedAt, error: report.error };
    case 'refused':
      return report.reason === 'key-busy'
        ? { ...known, state: 'refused', reason: report.reason, running: report.running }
        : { ...known, state: 'refused', reason: report.reason };
    default:
      return report satisfies never;
  }
}

function inPages(entries: readonly ResyncEntry[]): readonly (readonly ResyncEntry[])[] {
  return Array.from({ length: Math.ceil(entries.length / entriesPerPage) }, (_, index) =>
    entries.slice(index * entriesPerPage, (index + 1) * entriesPerPage),
  );
}
