import { systemClock as clock } from '../../lib/aws/system.ts';
import { MemoryDispatches } from '../../lib/testing/memory-dispatches.ts';
import { MemoryJobs } from '../../lib/testing/memory-jobs.ts';
import { jobStoreConformance } from './job-store.ts';

const retentionMs = 86_400_000;
const dispatches = new MemoryDispatches({ clock });
const jobs = new MemoryJobs({ clock, retentionMs, dispatches });

jobStoreConformance('memory', () => ({ jobs, dispatches, clock, retentionMs }));
