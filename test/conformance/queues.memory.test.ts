import { systemClock as clock, systemTimer as timer } from '../../lib/aws/system.ts';
import type { MemoryQueue } from '../../lib/testing/memory-queue.ts';
import { MemoryServices, silent } from '../../lib/testing/memory-services.ts';
import { reportsConformance } from './reports.ts';
import { requestsConformance } from './requests.ts';

const services = new MemoryServices({ clock, timer });

async function take(queue: MemoryQueue) {
  const received = queue.receive();
  for (const { receipt } of received) queue.delete(receipt);
  return received.map(({ body, group = '' }) => ({ body, group }));
}

requestsConformance('memory', () => ({
  requests: services.poolPorts(silent).requests,
  batches: services.clientPorts().requests,
  take: () => take(services.requests),
  groupOf: (key) => key,
}));
reportsConformance('memory', () => ({ reports: services.workerPorts().reports, take: () => take(services.reports) }));
