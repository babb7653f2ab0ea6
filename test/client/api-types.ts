import * as v from 'valibot';
import { z } from 'zod';
import { connect, type End, type Entry, type Outcome, type Pool, type PoolError } from '../../lib/client/index.ts';

// Nothing here runs: that it compiles is the test, and each error that is expected must be one.

const Feed = z.object({
  url: z.url(),
  since: z
    .string()
    .transform((text) => new Date(text))
    .optional(),
});
const Rate = v.object({ rate: v.number() });
const log = console;

interface Surroundings {
  readonly order: { readonly id: number };
  readonly url: string;
  readonly signal: AbortSignal;
  readonly file: AsyncIterable<Entry<{ url: string }>>;
}

/** The examples of the client's documentation. */
export async function examples({ order, url, signal, file }: Surroundings): Promise<void> {
  using pool = await connect('feeds', { payload: Feed });
  const dispatch = await pool.start('tenant:17', { url }, { dispatchId: `order-${order.id}` });
  const outcome = await dispatch.outcome({ timeoutMs: 30_000 });
  if (outcome.outcome === 'refused' && outcome.reason === 'key-busy') log.info(`already run by ${outcome.holder.dispatchId}`);

  const end = await pool.dispatch(`order-${order.id}`).ended({ timeoutMs: 3_600_000, signal });
  if (end.status === 'failed') log.error(end.error.message);

  for await (const sent of pool.startMany(file)) if (!sent.sent) log.error(sent.key, { code: sent.error.code });
  const seen = await pool.ensure('tenant:17', { url }, { timeoutMs: 30_000 });
  if (seen.outcome === 'running') log.info(seen.existing, seen.dispatchId);
  else log.info(seen.outcome satisfies 'refused' | 'start-failed' | 'cancelled');
}

/** What an operator does. */
export async function operate(pool: Pool, signal: AbortSignal): Promise<void> {
  const worker = pool.worker('w-7f3');
  const drained = await worker.drain({ timeoutMs: 600_000, signal });
  log.info(drained.outcome satisfies 'left' | 'lost' | 'revoked' | 'replaced', drained.jobs);
  await worker.evict();
  const resync = await worker.resync({ timeoutMs: 60_000 });
  if (resync.outcome === 'answered') log.info(resync.complete, resync.counts['entry agrees']);
  // @ts-expect-error without a deadline it would wait for ever
  await worker.drain();
}

export async function refused(pool: Pool<{ url: string }, { rate: number }>): Promise<void> {
  // @ts-expect-error without a deadline it would wait for ever
  await pool.dispatch('d').ended();
  // @ts-expect-error a signal alone is no deadline
  await pool.dispatch('d').ended({ signal: AbortSignal.timeout(5) });
  // @ts-expect-error likewise
  await pool.ensure('k', { url: '' });
  // @ts-expect-error not the pool's payload
  await pool.start('k', { uri: '' });
  // @ts-expect-error not the pool's notification
  await pool.notify('k', { rate: 'fast' });
  // @ts-expect-error only these three
  await pool.start('k', { url: '' }, { ifBusy: 'wait' });
  // @ts-expect-error a job that ended is not listed
  pool.list({ status: 'ended' });
  // @ts-expect-error an outcome says no owner
  log.info((await pool.dispatch('d').outcome()).worker);
  await pool.dispatch('d').outcome({ signal: AbortSignal.timeout(5) });
}

/** With a schema it is the input that is given, transforms and all; without one, anything but undefined. */
export async function payloads(): Promise<void> {
  const feeds = await connect('feeds', { payload: Feed, notification: Rate });
  await feeds.start('k', { url: '', since: '2030-01-01' });
  // @ts-expect-error the schema's output
  await feeds.start('k', { url: '', since: new Date() });
  await feeds.notify('k', { rate: 5 });
  const raw = await connect();
  for (const payload of ['text', Uint8Array.of(1), { any: ['json'] }, 17, true, null]) await raw.start('k', payload);
  // @ts-expect-error nothing to send
  await raw.start('k', undefined);
  const rated = await connect('feeds', { notification: Rate });
  await rated.start('k', 'any payload');
}

/** Every outcome and end can be told apart, and there is no other. */
export function texts(outcome: Outcome, end: End, error: PoolError): readonly string[] {
  return [outcomeText(outcome), endText(end), error.code === 'deadline-exceeded' ? 'later' : error.message];
}

function outcomeText(outcome: Outcome): string {
  switch (outcome.outcome) {
    case 'started':
      return new Date(outcome.at).toISOString();
    case 'refused':
      return outcome.reason === 'key-busy' ? outcome.holder.dispatchId : outcome.reason;
    case 'start-failed':
      return `${outcome.error.code} after ${outcome.attempts}`;
    case 'cancelled':
      return outcome.by;
    default:
      return outcome satisfies never;
  }
}

function endText(end: End): string {
  switch (end.status) {
    case 'succeeded':
      return String(end.result);
    case 'failed':
      return end.error.message;
    case 'stopped':
      return end.reason;
    case 'never-started':
      return outcomeText(end.outcome);
    default:
      return end satisfies never;
  }
}
