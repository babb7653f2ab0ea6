import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { End, Outcome } from 'holdfast/client';
import { Sink } from '../examples/follow/sink.ts';
import { Random } from '../lib/testing/random.ts';
import { Feeds, linesIn } from './feeds.ts';
import type { Progress } from './progress.ts';
import { type Body, dispatchesOf, type Malformed, type Scenario, type Sizes, scenarioOf, shuffled } from './scenario.ts';
import { Stage } from './stage.ts';
import { type Asked, type Counts, lostLines, tallyOf } from './verdict.ts';

export interface Played {
  readonly counts: Counts;
  readonly asked: Asked;
  /** Dispatches whose outcome and end are there, and are what they were when they were first seen. */
  readonly settledOnce: number;
}

export interface PlayOptions {
  readonly sizes: Sizes;
  readonly seed: number;
  /** Takes feeds, requests, the sink and logs. */
  readonly folder: string;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

const linesPerSecond = 400;
const patienceMs = 60_000;
const takeOverMs = 180_000;
const betweenEndsMs = 20;

/** Brings a pool up, plays the scenario on it, says what it came to, and ends everything. */
export async function play({ sizes, seed, folder, progress, signal }: PlayOptions): Promise<Played> {
  const scenario = scenarioOf(sizes, join(folder, 'feeds'), basename(folder).slice(-6), seed);
  const { starts, malformed, busy, waiting, conflicts, stops, restartsAtOnce, restartsAfterwards } = scenario;
  const dispatches = dispatchesOf(scenario);

  const sinkFile = join(folder, 'sink.db');
  using sink = new Sink(sinkFile);
  await using stage = await Stage.set({ folder, sink: sinkFile, capacity: sizes.jobs, log: (line) => progress.say(line), signal });
  const { client, raw, observer, operator, workers } = stage;
  const left = await stage.step(observer.call('liveKeys', undefined));
  if (left.length > 0) {
    progress.say(`this pool was here before; ending ${left.length} jobs of a run that was broken off`);
    await stage.step(client.call('stop', left));
    const areGone = async () => (await observer.call('liveKeys', undefined)).length === 0;
    await stage.until('the jobs of an earlier run have ended', takeOverMs, areGone);
  }
  const deadLetters = () => stage.step(operator.call('deadLetters', stage.deadLetterQueueUrl));
  const deadLettersBefore = await deadLetters();

  let requests = 0;
  let requested = 0;
  const outcomes = new Map<string, Outcome>();
  const ends = new Map<string, End>();

  /** Sends a file of requests by each of the producers. */
  async function send(name: string, wave: readonly (Body | Malformed)[], producers: readonly Pick<Stage['raw'], 'call'>[] = [client, raw]) {
    const file = join(folder, `${name}.ndjson`);
    // A client sends no line that is no request, so the other one sends it twice.
    const lines = wave.flatMap((entry) => ('op' in entry ? [JSON.stringify(entry)] : [entry.body, entry.body]));
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
    for (const sent of await stage.step(Promise.all(producers.map((producer) => producer.call('send', file))))) requested += sent;
    requests += 2 * wave.length;
  }
  async function haveOutcomes(of: readonly { readonly dispatchId: string }[]): Promise<void> {
    await stage.step(Promise.all(of.map(async ({ dispatchId: id }) => outcomes.set(id, await observer.call('outcome', id)))));
  }
  async function haveEnded(of: readonly { readonly dispatchId: string }[]): Promise<void> {
    await stage.step(Promise.all(of.map(async ({ dispatchId: id }) => ends.set(id, await observer.call('ended', id)))));
  }
  const areReady = async () => workers.areAmong(await observer.call('workers', undefined));

  progress.say(`starting ${sizes.workers} workers`);
  for (let i = 0; i < sizes.workers; i += 1) workers.add();
  await stage.until('the workers are registered', patienceMs, areReady);
  using feeds = new Feeds(scenario.feeds, linesPerSecond, new Random(seed));
  using _ = progress.watch(
    () => `${workers.running.size} jobs run · ${outcomes.size} outcomes · ${ends.size} ends · ${sink.tally().recorded} lines recorded`,
  );

  progress.say(`${starts.length} starts, every request sent twice, and ${malformed.length} malformed ones among them`);
  await send('starts', shuffled([...starts, ...malformed], new Random(seed)));
  await haveOutcomes(starts);

  progress.say(
    `${busy.length} starts where a job runs, ${waiting.length} to run after it, ${conflicts.length} known ids with another payload`,
  );
  await send('busy', [...busy, ...waiting]);
  await send('conflicts', conflicts, [raw]);
  const told = await stage.step(Promise.all(conflicts.map((conflict) => operator.call('start', conflict))));
  requested += told.length;
  await haveOutcomes(busy);

  progress.say('one worker is told to leave while another one joins');
  workers.add();
  await stage.step(workers.leave());
  await stage.until('what was handed back runs elsewhere', patienceMs, () => {
    const { handedBack, running } = workers;
    return handedBack.every((key) => running.has(key));
  });
  await stage.until('the new worker is registered', patienceMs, areReady);

  progress.say(`${stops.length} stops, ${sizes.restarts} of those jobs started again`);
  const again = new Set([...restartsAtOnce, ...restartsAfterwards].map(({ key }) => key));
  const stopped = new Set(stops.map(({ key }) => key));
  // What is not started again falls silent first, so that what its feed holds is all that there is to record.
  for (const feed of scenario.feeds) if (stopped.has(feed.key) && !again.has(feed.key)) feeds.finish(feed, 'falls-silent');
  await send('stops', stops);
  await send('restarts-at-once', restartsAtOnce);
  await haveEnded(stops);
  await send('restarts-afterwards', restartsAfterwards);
  await haveOutcomes([...restartsAtOnce, ...restartsAfterwards]);

  progress.say('the feeds end, and with them the jobs');
  for (const feed of scenario.feeds) {
    feeds.finish(feed, 'is-over');
    // All at the same moment would have the emulator start a process for every few of them.
    await stage.step(wait(betweenEndsMs));
  }
  await haveOutcomes(waiting);
  await haveEnded(dispatches);
  await stage.step(Promise.all(workers.processes.map((worker) => workers.leave(worker))));

  progress.say('counting');
  const records = await stage.step(Promise.all(dispatches.map(({ dispatchId }) => observer.call('peek', dispatchId))));
  const refusals = malformed.flatMap(({ dispatchId }) => dispatchId ?? []);
  const refused = await stage.step(Promise.all(refusals.map((dispatchId) => observer.call('peek', dispatchId))));
  const reasons = [...told, ...[...records, ...refused].map(({ outcome }) => outcome)].flatMap((outcome) =>
    outcome?.outcome === 'refused' ? outcome.reason : [],
  );
  const { handlerStarts, fencedWrites, overlaps, recorded, duplicated } = sink.tally();
  const { written, lost } = linesOf(scenario, sink);
  const counts: Counts = {
    requested,
    dispatches: dispatches.length,
    started: records.filter(({ outcome }) => outcome?.outcome === 'started').length,
    refused: tallyOf(reasons),
    deadLettered: (await deadLetters()) - deadLettersBefore,
    handlerStarts,
    handedBack: workers.handedBack.length,
    ends: tallyOf(records.flatMap(({ end }) => end?.status ?? [])),
    lines: { written, recorded, duplicated, lost },
    fencedWrites,
    overlaps,
    workers: workers.started,
    seconds: Math.round(progress.seconds * 10) / 10,
  };
  const asked: Asked = {
    requests,
    starts: starts.length + waiting.length + again.size,
    busy: busy.length,
    conflicts: conflicts.length,
    malformed: 2 * malformed.length,
    stops: stops.length,
  };
  const settledOnce = dispatches.filter(({ dispatchId: id }, index) => {
    const { outcome, end } = records[index] ?? {};
    return outcome && end && isDeepStrictEqual({ outcome, end }, { outcome: outcomes.get(id), end: ends.get(id) });
  }).length;
  return { counts, asked, settledOnce };
}

function linesOf({ feeds }: Scenario, sink: Sink): { readonly written: number; readonly lost: number } {
  const written = feeds.map((feed) => ({ feed, lines: linesIn(feed) }));
  const lost = written.map(({ feed, lines }) => lostLines(lines, new Map(sink.lines(feed.key).map(({ number, text }) => [number, text]))));
  return { written: written.reduce((sum, { lines }) => sum + lines.length, 0), lost: lost.reduce((sum, count) => sum + count, 0) };
}
