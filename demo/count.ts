/** Counts what a run came to, each number where the thing is recorded. */
import { isDeepStrictEqual } from 'node:util';
import type { End, Outcome } from 'holdfast/client';
import type { Sink } from '../examples/follow/sink.ts';
import { linesIn } from './feeds.ts';
import { dispatchesOf, type Mishap, type Scenario } from './scenario.ts';
import type { Stage } from './stage.ts';
import { type Asked, type Counts, lostLines, tallyOf } from './verdict.ts';

/** What is noted while a run is played. */
export interface Notes {
  /** Requests as often as they were sent, and those that the queue took. */
  requests: number;
  requested: number;
  /** What was seen first, by dispatch id. */
  readonly outcomes: Map<string, Outcome>;
  readonly ends: Map<string, End>;
  /** What a client was told that repeated a dispatch id with another payload. */
  readonly conflicts: Outcome[];
  /** Jobs whose records were deleted and came back as they were, without a handler being started. */
  restored: number;
  /** Jobs of the worker that it happened to. */
  readonly mishaps: Map<Mishap, number>;
}

/** What the pool has of other runs: it may have been there before. */
export interface Before {
  readonly deadLetters: number;
  readonly executions: readonly string[];
}

export async function lookBefore(stage: Stage): Promise<Before> {
  return { deadLetters: await deadLettersOf(stage), executions: await stage.step(stage.rounds.executions()) };
}

export interface Counted {
  readonly counts: Omit<Counts, 'seconds'>;
  readonly asked: Asked;
  /** Dispatches whose outcome and end are there, and are what they were when they were first seen. */
  readonly settledOnce: number;
}

export async function count(stage: Stage, sink: Sink, scenario: Scenario, notes: Notes, before: Before): Promise<Counted> {
  const { observer, workers, rounds } = stage;
  const peekAll = (ids: readonly string[]) => stage.step(Promise.all(ids.map((id) => observer.call('peek', id))));
  const ids = dispatchesOf(scenario).map(({ dispatchId }) => dispatchId);
  const records = await peekAll(ids);
  const malformed = await peekAll(scenario.malformed.flatMap(({ dispatchId }) => dispatchId ?? []));
  const outcomes = [...notes.conflicts, ...[...records, ...malformed].map(({ outcome }) => outcome)];
  const { handlerStarts, fencedWrites, overlaps, recorded, duplicated } = sink.tally();
  const counts: Counted['counts'] = {
    requested: notes.requested,
    dispatches: ids.length,
    started: records.filter(({ outcome }) => outcome?.outcome === 'started').length,
    refused: tallyOf(outcomes.flatMap((outcome) => (outcome?.outcome === 'refused' ? outcome.reason : []))),
    deadLettered: (await deadLettersOf(stage)) - before.deadLetters,
    handlerStarts,
    handedBack: workers.handedBack.length,
    reowned: workers.reowned,
    restored: notes.restored,
    ends: tallyOf(records.flatMap(({ end }) => end?.status ?? [])),
    lines: { ...linesOf(scenario, sink), recorded, duplicated },
    fencedWrites,
    overlaps,
    rounds: await stage.step(rounds.tally(before.executions)),
    recovery: workers.recovery(stage.stack.poolConfig.leaseMs),
    workers: workers.started,
  };
  const settledOnce = ids.filter((id, index) => {
    const { outcome, end } = records[index] ?? {};
    return outcome && end && isDeepStrictEqual({ outcome, end }, { outcome: notes.outcomes.get(id), end: notes.ends.get(id) });
  }).length;
  return { counts, asked: askedBy(scenario, notes), settledOnce };
}

function askedBy(scenario: Scenario, { requests, mishaps }: Notes): Asked {
  const { starts, waiting, restartsAtOnce, restartsAfterwards, busy, conflicts, malformed, stops, deletions, deletionsAtStop } = scenario;
  return {
    requests,
    starts: starts.length + waiting.length + restartsAtOnce.length + restartsAfterwards.length,
    busy: busy.length,
    conflicts: conflicts.length,
    malformed: 2 * malformed.length,
    stops: stops.length,
    deletions: deletions.length + deletionsAtStop.length,
    mishaps,
  };
}

function deadLettersOf(stage: Stage): Promise<number> {
  return stage.step(stage.operator.call('deadLetters', stage.deadLetterQueueUrl));
}

function linesOf({ feeds }: Scenario, sink: Sink): { readonly written: number; readonly lost: number } {
  const written = feeds.map((feed) => ({ feed, lines: linesIn(feed) }));
  const lost = written.map(({ feed, lines }) => lostLines(lines, new Map(sink.lines(feed.key).map(({ number, text }) => [number, text]))));
  return { written: written.reduce((sum, { lines }) => sum + lines.length, 0), lost: lost.reduce((sum, count) => sum + count, 0) };
}
