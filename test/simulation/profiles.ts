import { type FaultRates, NO_FAULTS } from '../../lib/testing/faults.ts';
import type { Random } from '../../lib/testing/random.ts';
import type { PlotGroup } from './plots.ts';

export type Profile = 'calm' | 'network' | 'processes' | 'everything' | 'restore';
export const PROFILES: readonly Profile[] = ['calm', 'network', 'processes', 'everything', 'restore'];

/** What goes wrong by itself. */
export const MISHAP_KINDS = [
  // Of a worker's process:
  'kill',
  /** Killed, and there again at once under the same id, as under a supervisor. */
  'restart',
  /** Stopped or suspended, and then it goes on. */
  'freeze',
  /** It does not reach some of the services, or any. */
  'cutOff',
  'drain',
  'setClock',
  // Of messages and records:
  /** The inbox of a worker is deleted. */
  'loseInbox',
  'badMessage',
  'purge',
  /** The record of a job, of a dispatch, or a payload is deleted. */
  'loseRecord',
  /** The tables are restored to earlier moments, and then the pool is recovered. */
  'restoreTable',
  // Of what an operator does:
  'redrive',
  /** A job is asked to move. */
  'move',
  /** The pool is closed, or recovering, for a while. */
  'close',
  /** A worker is asked what it runs, drained or evicted. */
  'operator',
  /** The pool's lease becomes shorter or longer. */
  'deploy',
] as const;
export type MishapKind = (typeof MISHAP_KINDS)[number];

/** Mean time between two of a kind, in leases; absent: never. */
export type MishapRates = { readonly [kind in MishapKind]?: number };

export interface Conditions {
  readonly rates: FaultRates;
  readonly profile: Profile;
  readonly mishaps: MishapRates;
  /** Whether plots are acted out in this world (plots.ts). */
  readonly isPlotted: boolean;
  /** Only those of this group. */
  readonly plots?: PlotGroup;
  /** How likely a handler's call is slow, throws or hangs. */
  readonly badHandler: number;
  readonly leases: readonly number[];
  /** How long jobs live that end by themselves, in leases at most. */
  readonly lives: readonly number[];
}

const NETWORK: FaultRates = {
  ...NO_FAULTS,
  slow: 0.005,
  failed: 0.01,
  throttled: 0.005,
  'answer-lost': 0.01,
  conflict: 0.02,
  lost: 0.02,
  'dead-lettered': 0.005,
  late: 0.02,
  again: 0.05,
  reordered: 0.3,
  lag: 0.2,
};
const PROCESSES: FaultRates = {
  ...NO_FAULTS,
  died: 0.003,
  'worker-died': 0.0005,
  zombie: 0.03,
  'timed-out': 0.02,
  'late-timer': 0.1,
  'failed-execution': 0.05,
  'step-again': 0.05,
};

const OF_NETWORK: MishapRates = { cutOff: 1.5, operator: 3, badMessage: 8, redrive: 6, close: 20, purge: 20, loseInbox: 20 };
const OF_RECORDS: MishapRates = { loseRecord: 0.15, operator: 0.7, restoreTable: 4 };
const OF_PROCESSES: MishapRates = { kill: 4, restart: 4, freeze: 2, drain: 4, move: 1.5, setClock: 4, operator: 3, deploy: 15 };

/** What goes wrong in a profile by itself. */
export function whatFails(profile: Profile): { readonly network: boolean; readonly processes: boolean; readonly records: boolean } {
  const records = profile === 'restore';
  const all = profile === 'everything' || records;
  return { network: profile === 'network' || all, processes: profile === 'processes' || all, records };
}

/**
 * Conditions of one world. Each kind of fault is left out of some worlds and multiplied in others, because what only shows
 * among few faults, or among many of one kind, never shows where everything fails a little.
 */
export function conditionsOf(profile: Profile, random: Random, plots?: PlotGroup): Conditions {
  const { network, processes, records: restore } = whatFails(profile);
  const rates = { ...(network ? NETWORK : NO_FAULTS), ...(processes ? only(PROCESSES) : {}) };
  // Where plots are acted out little else goes wrong, and jobs live until they are told to end: else few plots would come to an end.
  const isPlotted = random.chance(0.65) || plots !== undefined;
  const varied = Object.entries(rates).map(([kind, rate]) => [
    kind,
    random.chance(isPlotted ? 0.7 : 0.3) ? 0 : Math.min(0.5, rate * random.pick([0.3, 1, 1, 3])),
  ]);
  // Few of them disturb a restoration: what was there before it has to be there after it.
  const others = { ...(network ? OF_NETWORK : {}), ...(processes ? OF_PROCESSES : {}) };
  const mishaps = restore ? { ...rarer(others), ...OF_RECORDS } : others;
  const some = Object.entries(mishaps).filter(() => random.chance(isPlotted ? 0.3 : 0.6));
  return {
    profile,
    isPlotted,
    ...(plots ? { plots } : {}),
    rates: Object.fromEntries(varied) as unknown as FaultRates,
    mishaps: Object.fromEntries(some.map(([kind, mean]) => [kind, mean * random.pick([0.3, 1, 3])])),
    badHandler: processes ? random.pick(isPlotted ? [0, 0.05] : [0, 0.1, 0.3, 0.5]) : 0,
    // A recovery takes half a minute at least, whatever the lease, and something has to happen before it.
    leases: restore ? [9_000, 30_000] : isPlotted ? [3_000, 9_000] : [3_000, 9_000, 30_000],
    lives: isPlotted ? [2, 20] : restore ? [0.1, 2, 20] : [0.02, 0.1, 0.5, 2],
  };
}

function rarer(rates: MishapRates): MishapRates {
  return Object.fromEntries(Object.entries(rates).map(([kind, mean]) => [kind, 4 * mean]));
}

function only(rates: FaultRates): Partial<FaultRates> {
  return Object.fromEntries(Object.entries(rates).filter(([, rate]) => rate > 0));
}
