export type { PoolFunctions } from './functions.ts';
export { type IJobPool, JobPool, type JobPoolProps, type Restart } from './job-pool.ts';
export type { PoolMetric } from './metrics.ts';
