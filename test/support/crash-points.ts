import type { Call, Fate, Network } from '../../lib/testing/calls.ts';
import type { Process } from '../../lib/testing/process.ts';
import { KEY } from '../../protocol/cast.ts';
import type { ControlPlane } from './control-plane.ts';
import { assertSettled, assertTold, type LeftBehind, leftBehind } from './left-behind.ts';
import { type Scenario, type Step, stage, sweepOnceDue, take } from './scenario.ts';

/**
 * The crash-point sweep: a scenario is played once without faults, which counts its calls, then once per point: one port call, one
 * fault, once or twice in a row. The queues deliver until every message is consumed, and whatever the point, what is left behind then has
 * to be what is left behind without it.
 */
export interface Point {
  /** Among all calls of the functions, in their order. */
  readonly call: number;
  readonly fault: Fault;
  /** `twice`: the next delivery meets it at the same call again. */
  readonly times: 'once' | 'twice';
}

export const FAULTS = ['died-before', 'died-after', 'throttled', 'answer-lost', 'conflict', 'overtaken'] as const;
/** `overtaken`: the call takes so long that another function handles the whole message before it goes on. */
export type Fault = (typeof FAULTS)[number];

const CONDITIONAL = new Set(['jobs.commit', 'jobs.commitSettled', 'dispatches.admit', 'dispatches.change', 'restores.restore']);
const WRITES = new Set([
  ...CONDITIONAL,
  ...['dispatches.raiseFence', 'workers.change', 'commands.send', 'requests.send', 'machine.start', 'machine.wake'],
  ...['rounds.open', 'rounds.ask', 'rounds.arm', 'rounds.apply', 'rounds.extend', 'rounds.close'],
]);

/** To die before a read, to die after it and to lose its answer are one and the same. */
function canBefall(fault: Fault, method: string): boolean {
  if (fault === 'conflict') return CONDITIONAL.has(method);
  return WRITES.has(method) || (fault !== 'died-after' && fault !== 'answer-lost');
}

/** A scenario as it is played; what it leaves is the test's to say. */
export type Played = Omit<Scenario, 'leaves'>;

/** Of the calls of the functions that are named so; by default of all. */
export async function pointsOf(scenario: Played, of = /./): Promise<readonly (Point & { readonly method: string })[]> {
  const { calls } = await play(scenario, []);
  return calls.flatMap(({ method, by }, call) =>
    FAULTS.filter((fault) => of.test(by) && canBefall(fault, method)).flatMap((fault) =>
      (['once', 'twice'] as const).map((times) => ({ call, fault, times, method: `${by} ${method}` })),
    ),
  );
}

export interface Left extends LeftBehind {
  /** Some job waited when every message was consumed, for the sweep or for its time. */
  readonly isWaiting: boolean;
  /** The first point's fault befell its call as often as it was to. */
  readonly wasHit: boolean;
}

export async function leftAfter(scenario: Played, ...points: readonly Point[]): Promise<Left> {
  const { plane, wasHit } = await play(scenario, points);
  return { ...(await leftAtRest(plane)), wasHit };
}

/**
 * The function dies at a call, and its message is dead-lettered there and then. Whoever asks is told the truth all the same; the next
 * request at the key and the sweep settle what ended; and the message, redriven, leads where it leads where it was never lost.
 */
export async function leftAfterDeadLetter(scenario: Scenario, point: Point): Promise<Left & { readonly atStep: number }> {
  let isDeadLettered = false;
  let atStep = 0;
  const { plane, wasHit } = await play(scenario, [point], {
    struck: ({ by }, struck) => {
      by.onDeath(() => struck.deadLetterInHand());
      isDeadLettered = true;
    },
    afterStep: async (after, step) => {
      if (!isDeadLettered) return;
      isDeadLettered = false;
      atStep = step;
      const ended = after.services.jobs.all().filter(({ status }) => status === 'ended');
      assertTold(after);
      for (const touch of TOUCH) await take(after, touch);
      for (const { dispatchId } of ended) assertSettled(after, dispatchId);
      after.redrive();
      await after.rest();
    },
  });
  return { ...(await leftAtRest(plane)), wasHit, atStep };
}

/** What comes at the key before the redrive. */
const TOUCH: readonly Step[] = [{ op: 'assign', key: KEY }, 'sweep'];

/** Where nothing was lost, and the same came at the key before that step. */
export function touchedBefore(scenario: Scenario, step: number): Scenario {
  const { name, steps } = scenario;
  return { ...scenario, name: `${name}, touched before step ${step}`, steps: [...steps.slice(0, step), ...TOUCH, ...steps.slice(step)] };
}

/** At rest, and everything that waited for its time got it. */
export async function leftAtRest(plane: ControlPlane): Promise<Omit<Left, 'wasHit'>> {
  const { jobs } = plane.services;
  const waiting = () => jobs.all().filter((job) => job.status === 'pending' || (job.status === 'ended' && job.next !== undefined));
  const isWaiting = waiting().length > 0;
  for (let passes = 0; passes < 3 && waiting().length > 0; passes++) await sweepOnceDue(plane);
  for (const { status, dispatchId } of jobs.all()) if (status === 'ended' || status === 'running') assertSettled(plane, dispatchId);
  return { ...leftBehind(plane), isWaiting };
}

export interface Hooks {
  readonly struck?: (call: Call, plane: ControlPlane) => void;
  readonly afterStep?: (plane: ControlPlane, step: number) => Promise<void>;
}

/** How long an overtaken call is held up; its message is given to another function long before. */
const STALL_MS = 5_000;
const INVOCATION = { batchSize: 10, delayMs: 0, timeoutMs: 10_000, givenUpAfterMs: 1_000, skewMs: 0 };

export async function play(scenario: Played, points: readonly Point[], { struck, afterStep }: Hooks = {}) {
  const network = new FaultsAt(points, (call) => struck?.(call, plane));
  const plane = await stage(scenario, { network, invocations: () => INVOCATION });
  for (const [index, step] of scenario.steps.entries()) {
    network.isArmed = true;
    await take(plane, step);
    network.isArmed = false;
    await afterStep?.(plane, index);
  }
  return { plane, calls: network.calls, wasHit: network.wasHit };
}

class FaultsAt implements Network {
  readonly calls: { readonly method: string; readonly by: string }[] = [];
  isArmed = false;
  readonly #points: readonly Point[];
  readonly #struck: (call: Call) => void;
  readonly #positions = new Map<Process, number>();
  readonly #hits: (Call & { readonly position: number })[] = [];

  constructor(points: readonly Point[], struck: (call: Call) => void) {
    this.#points = points;
    this.#struck = struck;
  }

  get wasHit(): boolean {
    return this.#hits.length === (this.#points[0]?.times === 'twice' ? 2 : 1);
  }

  fate(call: Call): Fate {
    if (!this.isArmed) return { delayMs: 0 };
    const position = this.#positions.get(call.by) ?? 0;
    this.#positions.set(call.by, position + 1);
    const method = `${call.service}.${call.method}`;
    const number = this.calls.push({ method, by: functionOf(call.by) }) - 1;
    const point = this.#points.find((each) => each.call === number || this.#isAgain(each, call, position));
    if (!point || !canBefall(point.fault, method)) return { delayMs: 0 };
    this.#hits.push({ ...call, position });
    this.#struck(call);
    return point.fault === 'overtaken' ? { delayMs: STALL_MS } : { delayMs: 0, fault: point.fault };
  }

  /** The same call at the same place of the next delivery; of the same delivery, where that goes on after the fault. */
  #isAgain({ fault, times }: Point, { by, service, method }: Call, position: number): boolean {
    const [first, second] = this.#hits;
    if (times === 'once' || !first || second || service !== first.service || method !== first.method) return false;
    return fault === 'conflict'
      ? by === first.by
      : by !== first.by && functionOf(by) === functionOf(first.by) && position === first.position;
  }
}

function functionOf({ name }: Process): string {
  return name.replace(/-\d+$/, '');
}
