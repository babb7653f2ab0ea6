import { systemClock as clock } from '../../lib/aws/system.ts';
import { MemoryJobs } from '../../lib/testing/memory-jobs.ts';
import { jobStoreConformance } from './job-store.ts';

const retentionMs = 86_400_000;
const jobs = new MemoryJobs({ clock, retentionMs });

jobStoreConformance('memory', () => ({ jobs, clock, retentionMs }));
