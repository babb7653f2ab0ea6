import { MemoryWorkers } from '../../lib/testing/memory-workers.ts';
import { registryConformance } from './registry.ts';
import { workerStoreConformance } from './worker-store.ts';

const workers = new MemoryWorkers();

workerStoreConformance('memory', () => ({ workers, registry: workers }));
registryConformance('memory', () => ({ workers, registry: workers }));
