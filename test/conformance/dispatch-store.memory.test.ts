import { systemClock as clock } from '../../lib/aws/system.ts';
import { MemoryDispatches } from '../../lib/testing/memory-dispatches.ts';
import { dispatchStoreConformance } from './dispatch-store.ts';

const dispatches = new MemoryDispatches({ clock });

dispatchStoreConformance('memory', () => ({ dispatches, clock }));
