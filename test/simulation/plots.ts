import type { FaultKind } from '../../lib/testing/faults.ts';
import type { Random } from '../../lib/testing/random.ts';
import { CUES } from './cues.ts';
import { type MishapKind, type Profile, whatFails } from './profiles.ts';

/**
 * What is rare seldom meets what is rare besides: a job is being released for some hundred milliseconds in a thousand seconds, and whatever has to
 * meet it then hardly ever does. A plot waits for a situation at one key and then does what could meet it there, one deed shortly after the
 * other; then it waits for its next situation. What else goes on in the world goes on.
 */
export type Plot = readonly Stage[];

export interface Stage {
  readonly at: Situation;
  /** One after the other, some milliseconds apart; of a list, any one. */
  readonly deeds: readonly (Deed | readonly Deed[])[];
}

/** What the record of the key has become, or what became of its owner. */
const SITUATIONS = ['pending', 'assigned', 'running', 'stopping', 'releasing', 'ended', 'deleted', 'owner given up'] as const;
export type Situation = (typeof SITUATIONS)[number];

const ASKED = ['start', 'replay', 'contradict', 'stop', 'notify', 'move'] as const;
/** What becomes for a while of what is sent about the key, and of calls about it; or about its owner. */
const OF_CALLS = ['lost', 'late', 'again', 'slow', 'failed'] as const satisfies readonly FaultKind[];
const OF_OWNER = ['kill', 'restart', 'freeze', 'cutOff', 'drain'] as const satisfies readonly MishapKind[];
export const DEEDS = [
  ...ASKED,
  'resync',
  'resync all',
  ...OF_CALLS,
  'slow owner',
  ...CUES,
  ...OF_OWNER,
  'evict',
  'loseRecord',
  'restoreTable',
  'close',
] as const;
export type Deed = (typeof DEEDS)[number];

const OWNED = ['assigned', 'running', 'stopping', 'releasing'] as const;
const WAYS_TO_END = ['ends', 'fails', 'fails for now', 'stop', 'move', 'drain'] as const;
const WAYS_TO_FAIL = ['start throws', 'start is to be tried again', 'drain', 'stop', 'move'] as const;
const WAYS_TO_DIE = ['kill', 'restart', 'freeze', 'cutOff'] as const;

/** A round brings an end whose report was lost, or that came while the round was under way. */
const ENDS_BY_ROUNDS: readonly Plot[] = [
  plot(['running', 'lost', WAYS_TO_END, 'resync']),
  plot(['running', 'lost', WAYS_TO_END, ['stop', 'move'], 'resync']),
  plot(['running', 'resync', WAYS_TO_END]),
  plot(['assigned', 'lost', ['ends', 'fails', 'drain'], 'resync']),
  plot(['assigned', 'lost', WAYS_TO_FAIL, 'resync']),
  plot(['assigned', 'lost', WAYS_TO_FAIL, ['stop', 'move'], 'resync']),
  plot(['assigned', 'resync', WAYS_TO_FAIL]),
  plot(['assigned', 'start is slow', 'resync', ['stop', 'move', 'drain', ...WAYS_TO_DIE]]),
  plot(['assigned', 'drain', 'lost', ['resync', 'stop', 'move'], 'resync']),
  plot(['running', 'cutOff', 'resync', ['evict', 'stop', 'move']]),
];

/** Of a job that is being stopped or let go. */
const ON_THE_WAY_OUT: readonly Plot[] = (['stop', 'move'] as const).flatMap((by) => {
  const out = by === 'stop' ? 'stopping' : 'releasing';
  return [
    plot(['running', by], [out, ASKED, ASKED]),
    plot(['running', by], [out, 'lost', ['ends', 'fails', 'fails for now', 'drain', 'stop is slow'], 'resync']),
    plot(['running', by], [out, ['resync', 'late'], ['ends', 'fails', 'stop throws', 'stop is slow', 'drain']]),
    plot(['running', by], [out, WAYS_TO_DIE], ['owner given up', ASKED]),
    plot(['running', ['stop throws', 'stop is slow'], by], [out, ['late', 'again', 'resync', ...ASKED], ['ends', 'fails', 'move', 'stop']]),
    plot(['assigned', by], [out, ['late', 'lost', 'resync'], ['start throws', 'start is slow', 'drain'], 'resync']),
    plot(['assigned', ['start throws', 'start is slow', 'start is to be tried again', 'late'], by], [out, ASKED]),
  ];
});

/** An owner is found lost by whatever comes to its key, before those who gave it up have its jobs assigned. */
const OWNERS_LOST: readonly Plot[] = [
  ...OWNED.map((at) => plot([at, WAYS_TO_DIE], ['owner given up', ASKED, ASKED])),
  plot(['running', 'move'], ['releasing', WAYS_TO_DIE], ['owner given up', ['start', 'notify']]),
];

/** Messages that overtake each other, or come again when all has moved on. */
const OVERTAKEN: readonly Plot[] = [
  plot(['assigned', ['slow', 'again', 'late'], ['stop', 'move'], ['start', 'replay']]),
  plot(['running', ['slow', 'again', 'late'], ['stop', 'move'], ['start', 'replay'], ASKED]),
  plot(['running', ['late', 'again'], WAYS_TO_END, ['start', 'replay', 'move', ...WAYS_TO_DIE]]),
  plot(['assigned', ['late', 'again'], WAYS_TO_FAIL, ['start', 'replay', ...WAYS_TO_DIE]]),
  plot(['assigned', 'slow', ['move', 'stop']], ['assigned', ['move', 'stop'], ['start', 'replay']]),
  plot(['running', 'start', ['stop', 'ends', 'fails for now', 'move'], ['start', 'stop', 'replay']]),
];

/** A record is gone, and its key is wanted, before whoever runs it is heard. */
const DELETED: readonly Plot[] = [
  plot(['running', 'loseRecord', ASKED, 'resync all']),
  plot(['running', 'loseRecord', 'contradict', 'resync all'], ['assigned', 'resync all']),
  plot(['running', 'lost', 'resync', 'ends', 'loseRecord']),
  plot(['running', 'loseRecord', ['start', 'replay']], ['assigned', ['move', 'stop', 'resync all', ...WAYS_TO_DIE], 'resync all']),
  plot(['running', 'loseRecord', ['start', 'replay']], ['assigned', 'stop'], ['stopping', 'resync all']),
  plot(['running', 'loseRecord', ['start', 'replay']], ['assigned', 'move'], ['releasing', 'resync all']),
  plot(['running', 'loseRecord', 'resync all', ['close', 'ends', 'fails', 'start', 'replay', 'slow', ...WAYS_TO_DIE]]),
  plot(['running', 'loseRecord', ['start', 'replay']], ['ended', 'resync all']),
  plot(['assigned', 'loseRecord', WAYS_TO_FAIL, 'resync all']),
  plot(['pending', 'start', 'start', 'loseRecord', ASKED]),
  plot(['running', 'loseRecord', 'slow', 'replay'], ['assigned', ['move', 'stop']], ['releasing', 'stop']),
  plot(['running', 'loseRecord', 'slow', ['replay', 'start']], ['assigned', 'resync all', ['start', 'replay']]),
  plot(['running', 'lost', 'ends', 'loseRecord', ['resync', 'resync all'], ['start', 'replay']]),
  plot(['running', 'loseRecord', ['restoreTable', 'close'], 'resync all', ['start', 'replay']]),
  plot(['running', 'start', 'loseRecord', ['stop', 'ends'], ASKED]),
];

/** Two decide about a key at once, or one of them fails half way, and comes again. */
const RACES: readonly Plot[] = OWNED.flatMap((at) => [
  plot([at, 'slow', ['ends', 'fails', 'fails for now', 'resync'], ['stop', 'move', 'start', 'replay'], ASKED]),
  plot([at, ['stop', 'move', 'start'], 'slow', ['ends', 'fails', 'resync'], 'resync']),
  plot([at, 'failed', ['ends', 'fails', 'fails for now', ...ASKED], ASKED]),
  plot([at, ['stop', 'move', 'start', 'ends'], 'failed', 'resync']),
  plot([at, 'resync', 'slow owner', ['resync', ...WAYS_TO_DIE], 'resync']),
]);

export const PLOTS = {
  rounds: ENDS_BY_ROUNDS,
  exits: ON_THE_WAY_OUT,
  'owners lost': OWNERS_LOST,
  overtaking: OVERTAKEN,
  races: RACES,
  deletions: DELETED,
} as const satisfies Readonly<Record<string, readonly Plot[]>>;
export type PlotGroup = keyof typeof PLOTS;

function isDoneIn(profile: Profile, deed: Deed): boolean {
  const { network, processes, records } = whatFails(profile);
  if (among(OF_CALLS, deed) || deed === 'slow owner' || deed === 'cutOff') return network;
  if (among(OF_OWNER, deed) || (among(CUES, deed) && deed !== 'ends')) return processes;
  return deed === 'loseRecord' || deed === 'restoreTable' || deed === 'close' ? records : true;
}

/** What of the plots can be done in a profile; of one group, where only that is wanted. */
export function plotsOf(profile: Profile, group?: PlotGroup): readonly Plot[] {
  // Where records are deleted, mostly that.
  const groups = profile === 'restore' ? [...Object.values(PLOTS), ...Array.from({ length: 4 }, () => DELETED)] : Object.values(PLOTS);
  return (group ? PLOTS[group] : groups.flat()).flatMap((stages: Plot): Plot[] => {
    const done = stages.map(({ at, deeds }) => ({
      at,
      deeds: deeds.map((deed) => [deed].flat().filter((each) => isDoneIn(profile, each))),
    }));
    return done.some(({ deeds }) => deeds.some((any) => any.length === 0)) ? [] : [done];
  });
}

/** One that nobody thought of. */
export function anyPlot(profile: Profile, random: Random): Plot {
  const deeds = DEEDS.filter((deed) => isDoneIn(profile, deed));
  const some = <T>(most: number, of: () => T) => Array.from({ length: random.between(1, most) }, of);
  return some(2, () => ({ at: random.pick(SITUATIONS), deeds: some(3, () => random.pick(deeds)) }));
}

function plot(...stages: readonly (readonly [Situation, ...(Deed | readonly Deed[])[]])[]): Plot {
  return stages.map(([at, ...deeds]) => ({ at, deeds }));
}

function among<T extends Deed>(some: readonly T[], deed: Deed): deed is T {
  return (some as readonly Deed[]).includes(deed);
}
