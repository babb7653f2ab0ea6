import { systemClock as clock, systemTimer as timer } from '../../lib/aws/system.ts';
import { MemoryServices } from '../../lib/testing/memory-services.ts';
import { recoverPortsConformance } from './recover-ports.ts';

const services = new MemoryServices({ clock, timer });
const { operate } = services.clientPorts();
const { jobs, requests, commands } = services.poolPorts();
const { inboxes, reports } = services.workerPorts();

recoverPortsConformance('memory', () => ({
  ...{ ...operate, jobs, requests, reports, inboxes },
  command: (session) => commands.send({ op: 'confirm', session, key: 'k', fence: 1 }),
}));
