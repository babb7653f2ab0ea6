import type { TestProject } from 'vitest/node';
import { type LocalStack, startLocalStack } from '../../stack/local-stack.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The deployed pool that the tests of this run share: `inject('stack')`. */
    readonly stack: Pick<LocalStack, 'endpoint' | 'region' | 'pool' | 'poolConfig' | 'environments' | 'log'>;
  }
}

let stack: LocalStack | undefined;

export async function setup(project: TestProject): Promise<void> {
  stack = await startLocalStack({ log: (line) => process.stderr.write(`stack: ${line}\n`) });
  const { endpoint, region, pool, poolConfig, environments, log } = stack;
  // Node reads it when a process starts, and the processes that run the tests have yet to (Vitest forks them; threads would not do).
  const { NODE_EXTRA_CA_CERTS: certificate } = environments.root;
  if (certificate !== undefined) process.env.NODE_EXTRA_CA_CERTS = certificate;
  project.provide('stack', { endpoint, region, pool, poolConfig, environments, ...(log === undefined ? {} : { log }) });
}

export async function teardown(): Promise<void> {
  await stack?.stop();
}
