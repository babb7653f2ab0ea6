import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ReleaseCommand, RunningJob, StartCommand, StopCommand } from '../../lib/wire/index.ts';
import { decideEnding, decideStart, type EndReport, Ends, type KeyState } from '../../lib/worker/fences.ts';

// One key, acted on by the rules alone: what a start, stop or release decides is done at once, and the job that is up may end by itself.

type Step =
  | { readonly op: 'start' | 'stop' | 'release'; readonly dispatch: number; readonly fence: number; readonly payload: number }
  | { readonly op: 'finish' }
  | { readonly op: 'room' | 'drain'; readonly is: boolean };

const fence = fc.integer({ min: 1, max: 6 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constantFrom('start' as const, 'stop' as const, 'release' as const),
      dispatch: fc.integer({ min: 1, max: 3 }),
      fence,
      payload: fc.integer({ min: 1, max: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ op: 'finish' as const }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('room' as const, 'drain' as const), is: fc.boolean() }) },
);
const steps = fc.array(step, { maxLength: 40 });

class Key {
  readonly ends = new Ends();
  up: RunningJob | undefined;
  hasRoom = true;
  isDraining = false;
  starts: number[] = [];

  get state(): KeyState {
    const { up, ends, hasRoom, isDraining } = this;
    return { up, ends, hasRoom, isDraining };
  }

  act(step: Step): void {
    if (step.op === 'room') this.hasRoom = step.is;
    else if (step.op === 'drain') this.isDraining = step.is;
    else if (step.op === 'finish') this.#end('finished');
    else if (step.op === 'start') this.#start(startOf(step));
    else if (step.op === 'stop' || step.op === 'release') this.#stop(endingOf(step.op, step));
  }

  #start(command: StartCommand): void {
    const decision = decideStart(command, this.state);
    if (decision.do === 'start') {
      this.starts.push(command.fence);
      this.up = { dispatchId: command.dispatchId, fingerprint: command.fingerprint, fence: command.fence, startedAt: 1 };
    } else if (decision.do === 'keep' && this.up) {
      this.up = { ...this.up, fence: Math.max(this.up.fence, decision.fence) };
    } else if (decision.do === 'refuse') {
      this.ends.record(report(command, 'refused'));
    } else if (decision.do === 'answer') {
      this.ends.record(report(command, decision.type));
    }
  }

  #stop(command: StopCommand | ReleaseCommand): void {
    if (decideEnding(command, this.state).do !== 'end') return;
    const answer = command.op === 'stop' ? 'stopped' : 'released';
    this.#end(answer);
    this.ends.cutOff({ upTo: command.fence, answer, reason: command.reason });
    this.ends.record(report(command, answer));
  }

  #end(type: 'finished' | 'stopped' | 'released'): void {
    const { up } = this;
    if (!up) return;
    this.up = undefined;
    this.ends.record(report(up, type));
  }
}

function startOf({
  dispatch,
  fence,
  payload,
}: {
  readonly dispatch: number;
  readonly fence: number;
  readonly payload: number;
}): StartCommand {
  return {
    op: 'start',
    session: 's',
    key: 'k',
    dispatchId: `d${dispatch}`,
    fingerprint: `p${payload}`,
    payload: new Uint8Array(),
    fence,
    attempt: 1,
  };
}

function endingOf(op: 'stop' | 'release', { dispatch, fence, payload }: Parameters<typeof startOf>[0]): StopCommand | ReleaseCommand {
  return { op, session: 's', key: 'k', dispatchId: `d${dispatch}`, fingerprint: `p${payload}`, fence, reason: 'stop-requested' };
}

function report(
  { dispatchId, fingerprint, fence }: Pick<RunningJob, 'dispatchId' | 'fingerprint' | 'fence'>,
  type: EndReport['type'],
): EndReport {
  return {
    type,
    key: 'k',
    dispatchId,
    fingerprint,
    fence,
    worker: 'w',
    session: 's',
    at: 1,
    startedAt: 1,
    reason: 'at-capacity',
  } as unknown as EndReport;
}

function acted(all: readonly Step[]): Key {
  const key = new Key();
  for (const each of all) key.act(each);
  return key;
}

test('the handler is called with rising fences only, and for one job at a time (P1, P14)', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const { starts } = acted(all);
      expect(starts).toEqual([...new Set(starts)].toSorted((a, b) => a - b));
    }),
  );
});

test('after a stop or a release of a fence, no start at or below it calls the handler again, whatever comes between', () => {
  fc.assert(
    fc.property(steps, steps, fence, fence, fc.constantFrom('stop' as const, 'release' as const), (before, after, f, below, op) => {
      const key = acted(before);
      const command = endingOf(op, { dispatch: 1, fence: f, payload: 1 });
      fc.pre(decideEnding(command, key.state).do === 'end');
      key.act({ op, dispatch: 1, fence: f, payload: 1 });
      for (const each of after) key.act(each);
      expect(decideStart(startOf({ dispatch: 2, fence: Math.min(below, f), payload: 1 }), { ...key.state, up: undefined }).do).not.toBe(
        'start',
      );
    }),
  );
});

test('a fence that ended says the same for ever, to starts, stops and releases alike (a finished is never answered as released)', () => {
  fc.assert(
    fc.property(steps, steps, fence, (before, after, f) => {
      const key = acted(before);
      const said = key.ends.at(f);
      fc.pre(said !== undefined && key.up === undefined && said.type !== 'refused');
      for (const each of after) key.act(each);
      expect(key.ends.at(f)).toBe(said);
      const idle = { ...key.state, up: undefined };
      expect(decideStart(startOf({ dispatch: 3, fence: f, payload: 1 }), idle)).toEqual({ do: 'repeat', report: said });
    }),
  );
});

test('a refusal ends exactly its fence: what runs under a lower one goes on, and can be stopped (P2, P4)', () => {
  fc.assert(
    fc.property(steps, step, (before, last) => {
      const key = acted(before);
      fc.pre(key.up !== undefined && last.op === 'start');
      const up = key.up as RunningJob;
      key.act(last);
      expect(key.up).toMatchObject({ dispatchId: up.dispatchId, fingerprint: up.fingerprint });
      const stop = endingOf('stop', { dispatch: 1, fence: key.up?.fence ?? 0, payload: 1 });
      expect(decideEnding(stop, key.state)).toEqual({ do: 'end' });
    }),
  );
});

test('a stop of a fence that was refused leaves everything as it is', () => {
  fc.assert(
    fc.property(steps, fence, (before, f) => {
      const key = acted(before);
      const said = key.ends.at(f);
      fc.pre(said?.type === 'refused' && key.up?.fence !== f);
      expect(decideEnding(endingOf('stop', { dispatch: 1, fence: f, payload: 1 }), key.state)).toEqual({ do: 'repeat', report: said });
    }),
  );
});

test('a start decides the same again on what it left behind, but that a start which was made is kept', () => {
  fc.assert(
    fc.property(steps, step, (before, last) => {
      fc.pre(last.op === 'start');
      const key = acted(before);
      const command = startOf(last as Extract<Step, { op: 'start' | 'stop' | 'release' }>);
      const first = decideStart(command, key.state);
      key.act(last);
      const again = decideStart(command, key.state);
      if (first.do === 'start') expect(again).toEqual({ do: 'keep', fence: command.fence });
      else if (first.do === 'refuse' && !key.up)
        expect(again).toMatchObject({ do: 'repeat', report: { fence: command.fence, type: 'refused' } });
      else if (first.do === 'answer') expect(again).toMatchObject({ do: 'repeat', report: { fence: command.fence, type: first.type } });
      else expect(again).toEqual(first);
    }),
  );
});

test('an end is forgotten only after a later round that does not name the key, and then only when the inbox can hold nothing older', () => {
  const ends = new Ends();
  const end = ends.record(report({ dispatchId: 'd1', fingerprint: 'p', fence: 5 }, 'stopped'));
  const hour = 3_600_000;
  ends.unnamed(100, 0);
  ends.forget(10 * hour, hour);
  expect(ends.at(5), 'the report was not accepted').toBeDefined();
  end.isAccepted = true;
  end.provenBeat = 7;
  ends.unnamed(6, 10 * hour);
  ends.forget(20 * hour, hour);
  expect(ends.at(5), 'the round was opened before').toBeDefined();
  ends.unnamed(7, 20 * hour);
  ends.forget(21 * hour - 1, hour);
  expect(ends.at(5), 'a command from before the round may be in the inbox').toBeDefined();
  ends.forget(21 * hour, hour);
  expect(ends.at(5)).toBeUndefined();
  expect(ends.isEmpty).toBe(true);
});

test('in a later session the beats begin anew: what was accepted before is older than each of its rounds', () => {
  const ends = new Ends();
  const accepted = ends.record(report({ dispatchId: 'd1', fingerprint: 'p', fence: 5 }, 'stopped'));
  const unsaid = ends.record(report({ dispatchId: 'd1', fingerprint: 'p', fence: 6 }, 'stopped'));
  accepted.isAccepted = true;
  accepted.provenBeat = 900;
  unsaid.provenBeat = undefined;
  ends.beginSession();
  ends.unnamed(0, 0);
  ends.forget(1, 1);
  expect(ends.at(5)).toBeUndefined();
  expect(ends.at(6)).toBeDefined();
});
