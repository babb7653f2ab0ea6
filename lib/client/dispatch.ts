import { type Abortable, type Calls, checkedTimeout, type Wait } from './calls.ts';
import { type End, endIn, type Observation, type Outcome, outcomeIn, type Subject } from './observation.ts';

/** One request to start, by its id. */
export interface Dispatch {
  readonly dispatchId: string;
  /** What became of the request; waits for it, 60 s by default. Throws `deadline-exceeded` with what is known by then. */
  outcome(wait?: Partial<Wait>): Promise<Outcome>;
  /**
   * What became of the job; waits for it. A request that never started one has the end `never-started`. Throws `deadline-exceeded`
   * with what is known by then.
   */
  ended(wait: Wait): Promise<End>;
  /** What is known now. */
  peek(options?: Abortable): Promise<{ readonly outcome?: Outcome; readonly end?: End }>;
}

const OUTCOME_TIMEOUT_MS = 60_000;

export function dispatchHandle(calls: Calls, subject: Subject): Dispatch {
  const { dispatchId } = subject;
  const { records } = calls.ports;

  async function until<T>(method: string, find: (seen: Observation, of: Subject) => T | undefined, wait: Partial<Wait>): Promise<T> {
    const { signal } = wait;
    const timeoutMs = checkedTimeout(method, wait.timeoutMs);
    const what = `${method}() of dispatch "${dispatchId}" is not known after ${timeoutMs} ms`;
    return calls.run(method, 'grantObserve', undefined, () =>
      calls.waits.until(subject, (seen) => find(seen, subject), { timeoutMs, signal, what }),
    );
  }

  async function look(): Promise<Observation> {
    const dispatch = (await records.dispatches([dispatchId])).get(dispatchId);
    const key = dispatch?.key ?? subject.key;
    if (key === undefined || endIn({ dispatch }, subject)) return { dispatch };
    return { dispatch, job: (await records.jobs([key])).get(key) };
  }

  return {
    dispatchId,
    outcome: async ({ timeoutMs = OUTCOME_TIMEOUT_MS, signal } = {}) => until('outcome', outcomeIn, { timeoutMs, signal }),
    ended: async (wait) => until('ended', endIn, wait ?? {}),
    async peek({ signal } = {}) {
      const seen = await calls.run('peek', 'grantObserve', signal, look);
      const outcome = outcomeIn(seen, subject);
      const end = endIn(seen, subject);
      return { ...(outcome && { outcome }), ...(end && { end }) };
    },
  };
}
