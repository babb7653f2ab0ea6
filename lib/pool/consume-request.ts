import { parseRequest, type Refusal } from '../wire/index.ts';
import type { Delivery } from './batch.ts';
import { PoolError } from './errors.ts';
import { handleRequest } from './handle-request.ts';
import type { PoolPorts } from './ports.ts';
import type { PoolSettings } from './settings.ts';

/** One delivery of the request queue: what does not parse is refused, and its reason goes with it to the dead-letter queue. */
export async function consumeRequest(ports: PoolPorts, settings: PoolSettings, { body }: Delivery): Promise<void> {
  const parsed = parseRequest(body);
  if (parsed.ok) return handleRequest(ports, settings, parsed.value);
  await recordRefusal(ports, settings, parsed.refusal);
  throw refused(parsed.refusal);
}

/** Whoever waits for a dispatch that a broken message names is answered; an admitted dispatch is not settled by it. */
async function recordRefusal(ports: PoolPorts, settings: PoolSettings, { key, dispatchId }: Refusal): Promise<void> {
  if (key === undefined || dispatchId === undefined) return;
  if (await ports.dispatches.get(dispatchId)) return;
  const now = ports.clock.now();
  const outcome = { outcome: 'refused', reason: 'invalid' } as const;
  await ports.dispatches.change(
    { status: 'never-started', dispatchId, key, fence: 0, requestedAt: now, outcome, expiresAt: now + settings.retentionMs },
    'absent',
  );
}

function refused({ message }: Refusal): PoolError {
  return new PoolError('invalid-request', message, { retryable: false });
}
