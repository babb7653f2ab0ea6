import { systemClock as clock, systemTimer as timer } from '../../lib/aws/system.ts';
import { MemoryInboxes } from '../../lib/testing/memory-inboxes.ts';
import { inboxesConformance } from './inboxes.ts';

const inboxes = new MemoryInboxes({ clock, timer });

inboxesConformance('memory', () => ({ inboxes, commands: inboxes, keeper: inboxes }));
