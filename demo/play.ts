import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Sink } from '../examples/follow/sink.ts';
import { Random } from '../lib/testing/random.ts';
import { type Counted, count, lookBefore, type Notes } from './count.ts';
import { Feeds } from './feeds.ts';
import { happen, inWords } from './mishaps.ts';
import type { Progress } from './progress.ts';
import { type Body, type Deletion, dispatchesOf, fallsSilent, type Malformed, type Sizes, scenarioOf, shuffled } from './scenario.ts';
import { Stage } from './stage.ts';

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
export async function play({ sizes, seed, folder, progress, signal }: PlayOptions): Promise<Counted> {
  const run = basename(folder).slice(-6);
  const scenario = scenarioOf(sizes, join(folder, 'feeds'), run, seed);
  const { starts, malformed, busy, waiting, conflicts, deletions, deletionsAtStop, stops, restartsAtOnce, restartsAfterwards } = scenario;

  const sinkFile = join(folder, 'sink.db');
  using sink = new Sink(sinkFile);
  await using stage = await Stage.set({
    ...{ run, folder, sink: sinkFile, capacity: sizes.jobs, signal },
    log: (line) => progress.say(line),
    overran({ name, workerId }) {
      sink.silence(workerId);
      progress.say(`${name} was kept from its lease for too long by other work on this machine, has ended itself, and is started again`);
    },
  });
  const { client, raw, observer, operator, workers, records } = stage;
  const left = await stage.step(observer.call('liveKeys', undefined));
  if (left.length > 0) {
    progress.say(`this pool was here before; ending ${left.length} jobs of a run that was broken off`);
    await stage.step(client.call('stop', left));
    const areGone = async () => (await observer.call('liveKeys', undefined)).length === 0;
    await stage.until('the jobs of an earlier run have ended', takeOverMs, areGone);
  }
  const before = await lookBefore(stage);
  const notes: Notes = { requests: 0, requested: 0, outcomes: new Map(), ends: new Map(), conflicts: [], restored: 0, mishaps: new Map() };
  const { outcomes, ends } = notes;

  /** Sends a file of requests by each of the producers. */
  async function send(name: string, wave: readonly (Body | Malformed)[], producers: readonly Pick<Stage['raw'], 'call'>[] = [client, raw]) {
    const file = join(folder, `${name}.ndjson`);
    // A client sends no line that is no request, so the other one sends it twice.
    const lines = wave.flatMap((entry) => ('op' in entry ? [JSON.stringify(entry)] : [entry.body, entry.body]));
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
    for (const sent of await stage.step(Promise.all(producers.map((producer) => producer.call('send', file))))) notes.requested += sent;
    notes.requests += 2 * wave.length;
  }
  async function haveOutcomes(of: readonly { readonly dispatchId: string }[]): Promise<void> {
    await stage.step(Promise.all(of.map(async ({ dispatchId: id }) => outcomes.set(id, await observer.call('outcome', id)))));
  }
  async function haveEnded(of: readonly { readonly dispatchId: string }[]): Promise<void> {
    await stage.step(Promise.all(of.map(async ({ dispatchId: id }) => ends.set(id, await observer.call('ended', id)))));
  }
  /** Has records deleted, and what brings them back done; notes whose are as they were, with no handler more than before. */
  async function lose(deletions: readonly Deletion[], repair: () => Promise<void>): Promise<void> {
    const starts = deletions.map(({ key }) => sink.starts(key));
    const deleted = await stage.step(Promise.all(deletions.map((deletion) => records.delete(deletion))));
    await repair();
    const areThere = async () => (await Promise.all(deleted.map((each) => records.areThere(each)))).every(Boolean);
    await stage.until('the deleted records are there again', patienceMs, areThere);
    const areAsBefore = await stage.step(Promise.all(deleted.map((each) => records.areAsBefore(each))));
    notes.restored += deletions.filter(({ key }, index) => areAsBefore[index] && sink.starts(key) === starts[index]).length;
  }
  const areReady = async () => workers.areAmong(await observer.call('workers', undefined));

  progress.say(`starting ${sizes.workers} workers`);
  for (let i = 0; i < sizes.workers; i += 1) await stage.step(workers.add());
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
  notes.conflicts.push(...(await stage.step(Promise.all(conflicts.map((conflict) => operator.call('start', conflict))))));
  notes.requested += conflicts.length;
  await haveOutcomes(busy);

  progress.say(`${deletions.length} jobs run on while somebody deletes their records; each worker is asked what it really runs`);
  await lose(deletions, async () => {
    await stage.step(Promise.all(workers.processes.map(({ workerId }) => operator.call('resync', workerId))));
  });

  progress.say('one worker is told to leave while another one joins');
  await stage.step(workers.add());
  await stage.step(workers.leave());
  await stage.until('what was handed back runs elsewhere', patienceMs, () => {
    const { handedBack, running } = workers;
    return handedBack.every((key) => running.has(key));
  });
  await stage.until('the new worker is registered', patienceMs, areReady);

  progress.say(
    `${stops.length} stops, ${deletionsAtStop.length} where the dispatch record was deleted; ${sizes.restarts} of those jobs started again`,
  );
  const again = new Set([...restartsAtOnce, ...restartsAfterwards].map(({ key }) => key));
  const stopped = new Set(stops.map(({ key }) => key));
  // What is not started again falls silent first, so that what its feed holds is all that there is to record.
  for (const feed of scenario.feeds) if (stopped.has(feed.key) && !again.has(feed.key)) feeds.finish(feed, 'falls-silent');
  await lose(deletionsAtStop, async () => {
    await send('stops', stops);
    await send('restarts-at-once', restartsAtOnce);
    await haveEnded(stops);
  });
  await send('restarts-afterwards', restartsAfterwards);
  await haveOutcomes([...restartsAtOnce, ...restartsAfterwards]);

  for (const mishap of scenario.mishaps) {
    if (mishap === 'cut-off' && !stage.canCut) continue;
    if (fallsSilent(mishap)) await stage.isSwept();
    const victim = workers.busiest;
    const jobs = workers.lose(victim, mishap);
    progress.say(`${victim.name}, which runs ${jobs} jobs, ${inWords[mishap]}`);
    notes.mishaps.set(mishap, jobs);
    const thereafter = await stage.step(happen[mishap]({ victim, workers, sink }));
    await stage.until('its jobs run elsewhere', takeOverMs, () => workers.hasRecoveredFrom(mishap));
    await stage.step(thereafter());
    await stage.until('all workers are registered', patienceMs, areReady);
  }

  progress.say('the feeds end, and with them the jobs');
  for (const feed of scenario.feeds) {
    feeds.finish(feed, 'is-over');
    // All at the same moment would have the emulator start a process for every few of them.
    await stage.step(wait(betweenEndsMs));
  }
  await haveOutcomes(waiting);
  await haveEnded(dispatchesOf(scenario));
  await stage.step(Promise.all(workers.processes.map((worker) => workers.leave(worker))));

  progress.say('counting');
  return await count(stage, sink, scenario, notes, before);
}
