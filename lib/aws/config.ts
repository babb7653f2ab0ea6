import * as z from 'zod';
import type { PoolSettings } from '../pool/settings.ts';

/**
 * What a process needs to connect to a pool. The deployment writes it, as JSON, into one SSM parameter and into the
 * environment of functions. Fields that a reader does not know are ignored, so that processes outlive a deployment.
 */
export interface PoolConfig {
  readonly v: 1;
  /** `[a-z0-9-]`, at most 32 characters. */
  readonly poolName: string;
  readonly region: string;
  readonly requestQueueUrl: string;
  readonly reportQueueUrl: string;
  /** The state machine that times resync rounds. */
  readonly resyncMachineArn: string;
  /** Names of the tables. */
  readonly jobsTable: string;
  readonly workersTable: string;
  /** The lease with which a worker registers, ms. */
  readonly leaseMs: number;
  /** How long an ended dispatch and job are remembered, ms. */
  readonly retentionMs: number;
  /** The KMS key of the pool's queues; absent: SQS's own. */
  readonly encryptionKeyArn?: string;
}

const text = z.string().min(1);

export const poolConfigSchema: z.ZodType<PoolConfig> = z.object({
  v: z.literal(1),
  poolName: z.string().regex(/^[a-z0-9-]{1,32}$/, 'is not 1 to 32 of a-z, 0-9 and "-"'),
  region: text,
  requestQueueUrl: text,
  reportQueueUrl: text,
  resyncMachineArn: text,
  jobsTable: text,
  workersTable: text,
  leaseMs: z.int().min(3_000).max(90_000),
  retentionMs: z.int().positive(),
  encryptionKeyArn: text.optional(),
});

const count = z.int().positive();

export const poolSettingsSchema: z.ZodType<PoolSettings> = z.object({
  retentionMs: count,
  restart: z.discriminatedUnion('type', [
    z.object({ type: z.literal('never') }),
    z.object({ type: z.literal('on-failure'), maxAttempts: count, backoffMs: count.optional() }),
  ]),
  startAttempts: count,
  backoffMs: count,
  maxBackoffMs: count,
  refusedDelayMs: count,
  unplacedDelayMs: count,
});

/** The environment variables that processes and functions read. */
export const variable = {
  /** Name of the pool, for processes that read its parameter. */
  pool: 'HOLDFAST_POOL',
  /** `PoolConfig` as JSON: nothing is looked up. */
  poolConfig: 'HOLDFAST_POOL_CONFIG',
  /** `PoolSettings` as JSON, for the functions. */
  poolSettings: 'HOLDFAST_POOL_SETTINGS',
  /** Where the request and the report function put what they cannot handle. */
  requestDeadLetterQueue: 'HOLDFAST_REQUEST_DLQ_URL',
  reportDeadLetterQueue: 'HOLDFAST_REPORT_DLQ_URL',
  /** ARN of the bus that the events function publishes on, and where it puts what it cannot publish. */
  eventBus: 'HOLDFAST_EVENT_BUS',
  eventDeadLetterQueue: 'HOLDFAST_EVENT_DLQ_URL',
} as const;

/** Name of the SSM parameter that holds a pool's `PoolConfig`. */
export function configParameter(poolName: string): string {
  return `/holdfast/${poolName}/config`;
}

/** What the names of all inboxes of a pool begin with; `_` ends the pool's name, because a name cannot hold it. */
export function inboxPrefix(poolName: string): string {
  return `holdfast-${poolName}_`;
}

/** Name of the inbox queue of a worker session. */
export function inboxName(poolName: string, session: string): string {
  return `${inboxPrefix(poolName)}${session}.fifo`;
}
