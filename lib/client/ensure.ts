import { type Calls, checkedTimeout, type Wait } from './calls.ts';
import { endIn, type Observation, type Outcome, outcomeIn, type Subject } from './observation.ts';
import type { Schema } from './payload.ts';
import { startOf, subjectOf } from './start.ts';

/** A job with that payload runs at the key, started now or before (`existing`); or what became of the start instead. */
export type Ensured =
  | { readonly outcome: 'running'; readonly dispatchId: string; readonly existing: boolean }
  | Exclude<Outcome, { readonly outcome: 'started' }>;

/**
 * A turn reads the job record first, because in the usual case the job runs and there is nothing to send. Else it starts one; where
 * that meets the same request at the key, it waits until that one is up. Where that one was over before it was seen running, the key
 * is free again, and there is another turn.
 */
export async function ensure(calls: Calls, schema: Schema | undefined, key: string, payload: unknown, wait: Wait): Promise<Ensured> {
  const { ids, clock, records } = calls.ports;
  const { signal } = wait ?? {};
  const timeoutMs = checkedTimeout('ensure', wait?.timeoutMs);
  const deadlineAt = clock.now() + timeoutMs;
  const what = `ensure() does not see "${key}" running after ${timeoutMs} ms`;

  const until = <T>(subject: Subject, find: (seen: Observation) => T | undefined) =>
    calls.run('ensure', 'grantObserve', undefined, () => {
      const leftMs = Math.min(Math.max(deadlineAt - clock.now(), 1), timeoutMs);
      return calls.waits.until(subject, find, { timeoutMs: leftMs, signal, what });
    });

  for (;;) {
    const start = await calls.run('ensure', 'grantProduce', signal, () => startOf({ key, payload }, schema, ids));
    const subject = subjectOf(start);
    const job = await calls.run('ensure', 'grantObserve', signal, async () => (await records.jobs([key])).get(key));
    if (job?.status === 'running' && job.fingerprint === subject.fingerprint) {
      return { outcome: 'running', dispatchId: job.dispatchId, existing: true };
    }

    await calls.run('ensure', 'grantProduce', signal, () => calls.send(start));
    const outcome = await until(subject, (seen) => outcomeIn(seen, subject));
    if (outcome.outcome === 'started') return { outcome: 'running', dispatchId: start.dispatchId, existing: false };
    if (!(outcome.outcome === 'refused' && outcome.reason === 'key-busy' && outcome.holder.sameRequest)) return outcome;

    const holder = { ...subject, dispatchId: outcome.holder.dispatchId };
    const joined = await until(holder, (seen) => {
      if (seen.job?.status === 'running' && seen.job.dispatchId === holder.dispatchId) return 'running';
      return endIn(seen, holder) && 'over';
    });
    if (joined === 'running') return { outcome: 'running', dispatchId: holder.dispatchId, existing: true };
  }
}
