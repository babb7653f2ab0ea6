import { systemClock as clock } from '../../lib/aws/system.ts';
import { MemoryDispatches } from '../../lib/testing/memory-dispatches.ts';
import { MemoryJobs } from '../../lib/testing/memory-jobs.ts';
import { MemoryRestores } from '../../lib/testing/memory-restores.ts';
import { MemoryWorkers } from '../../lib/testing/memory-workers.ts';
import { restoreStoreConformance } from './restore-store.ts';

const dispatches = new MemoryDispatches({ clock });
const jobs = new MemoryJobs({ clock, retentionMs: 86_400_000, dispatches });
const workers = new MemoryWorkers();
const restores = new MemoryRestores({ jobs, dispatches, workers });

restoreStoreConformance('memory', () => ({
  ...{ restores, jobs, dispatches, workers, clock },
  recovered: (generation) => restores.recovered(generation),
  registry: workers,
  setPool: async (pool) => workers.setPool(pool ?? { state: 'open', generation: 1 }),
}));
