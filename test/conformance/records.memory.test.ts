import { systemClock as clock, systemTimer as timer } from '../../lib/aws/system.ts';
import { MemoryServices, silent } from '../../lib/testing/memory-services.ts';
import { recordsConformance } from './records.ts';

const retentionMs = 86_400_000;
const services = new MemoryServices({ clock, timer, retentionMs });
const { jobs, dispatches } = services.poolPorts(silent);
const { registry } = services.workerPorts();

recordsConformance('memory', () => ({ records: services.clientPorts().records, jobs, dispatches, registry, clock, retentionMs }));
