import { connect, type End, type Outcome } from 'holdfast/client';
import { serve } from './peer.ts';

const timeoutMs = 60_000;
const connected = connect();

const methods = {
  async outcome(dispatchId: string): Promise<Outcome> {
    return (await connected).dispatch(dispatchId).outcome({ timeoutMs });
  },
  async ended(dispatchId: string): Promise<End> {
    return (await connected).dispatch(dispatchId).ended({ timeoutMs });
  },
  async peek(dispatchId: string): Promise<{ readonly outcome?: Outcome; readonly end?: End }> {
    return (await connected).dispatch(dispatchId).peek();
  },
  /** Keys of whatever runs or waits. */
  async liveKeys(_: undefined): Promise<readonly string[]> {
    const keys: string[] = [];
    for await (const { key } of (await connected).list()) keys.push(key);
    return keys;
  },
  /** The workers that jobs may go to. */
  async workers(_: undefined): Promise<readonly string[]> {
    const ready: string[] = [];
    for await (const { workerId, state, generation } of (await connected).workers()) {
      if (state === 'active' && generation !== undefined) ready.push(workerId);
    }
    return ready;
  },
};
export type Observer = typeof methods;
serve(methods);
