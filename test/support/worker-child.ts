/** A worker process on services in its own memory, with one job; told by its arguments what goes wrong. It reports its events to its parent. */
import { systemClock, systemTimer } from '../../lib/aws/system.ts';
import { PoolError } from '../../lib/pool/errors.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { fingerprintOf } from '../../lib/wire/index.ts';
import { defineHandler } from '../../lib/worker/handler.ts';
import { jsonLogger } from '../../lib/worker/logger.ts';
import type { Inboxes, Registry } from '../../lib/worker/ports.ts';
import { ownProcess } from '../../lib/worker/process.ts';
import { createWorker } from '../../lib/worker/runtime.ts';

const faults = new Set(process.argv.slice(2));
const services = new MemoryServices({ clock: systemClock, timer: systemTimer });
const ports = services.workerPorts({ clock: systemClock, timer: systemTimer });
const { inboxes } = services;
// Nothing waits long, so that the process ends soon once it is done.
const impatient: Inboxes = {
  create: async (session) => {
    if (faults.has('not permitted')) throw new PoolError('not-permitted', 'create the inbox: needs grantWork', { retryable: false });
    await inboxes.create(session);
  },
  receive: (session, waitMs) => inboxes.receive(session, Math.min(waitMs, 100)),
  delete: (session, receipts) => inboxes.delete(session, receipts),
};
const logger = jsonLogger((line) => process.stdout.write(line), systemClock.now);
const payload = new TextEncoder().encode('{}');

const handler = defineHandler({
  start: () => ({
    stop: () => (faults.has('stop hangs') ? new Promise<void>(() => {}) : undefined),
  }),
});

await ownProcess({
  logger,
  healthPort: faults.has('health') ? 0 : undefined,
  async create(onEvent) {
    process.send?.({ type: 'begun' });
    if (faults.has('slow to begin')) await new Promise((resolve) => setTimeout(resolve, 60_000));
    return createWorker(
      { ...ports, inboxes: impatient, ...(faults.has('no heartbeats') && { registry: unreachable() }) },
      {
        handler,
        workerId: 'w1',
        leaseMs: 3_000,
        capacity: 1,
        drainDeadlineMs: faults.has('short deadline') ? 300 : 25_000,
        stopDeadlineMs: 20_000,
        logger,
        onEvent(event) {
          process.send?.(event);
          onEvent(event);
          if (event.type !== 'registered') return;
          const start = {
            op: 'start',
            session: event.session,
            key: 'k',
            dispatchId: 'd1',
            fingerprint: fingerprintOf('k', payload),
            payload,
            fence: 5,
            attempt: 1,
          } as const;
          void services.inboxes.send(start);
        },
      },
    );
  },
});
process.send?.({ type: 'resolved' });
process.disconnect();

function unreachable(): Registry {
  const { workers } = services;
  return {
    register: workers.register.bind(workers),
    drain: workers.drain.bind(workers),
    leave: workers.leave.bind(workers),
    heartbeat: async () => {
      throw new Error('no network');
    },
  };
}
