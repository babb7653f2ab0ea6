import { describe, expect, it } from 'vitest';
import { inboxName, type PoolConfig, variable } from '../../lib/aws/config.ts';
import { loadPoolConfig, loadPoolSettings } from '../../lib/aws/load-config.ts';
import { inboxUrl } from '../../lib/aws/sqs-inboxes.ts';
import { DEFAULT_SETTINGS } from '../../lib/pool/settings.ts';

const config: PoolConfig = {
  v: 1,
  poolName: 'feeds',
  region: 'eu-central-1',
  requestQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests.fifo',
  reportQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/123456789012/reports',
  resyncMachineArn: 'arn:aws:states:us-east-1:000000000000:stateMachine:holdfast-test-resync',
  jobsTable: 'jobs',
  workersTable: 'workers',
  leaseMs: 30_000,
  retentionMs: 86_400_000,
};

describe('the configuration of a pool', () => {
  it('is what was passed', async () => {
    expect(await loadPoolConfig(config, {})).toEqual(config);
  });

  it.each([undefined, 'feeds'])('is what the environment holds, with %s asked for', async (pool) => {
    expect(await loadPoolConfig(pool, { [variable.poolConfig]: JSON.stringify(config), [variable.pool]: 'another' })).toEqual(config);
  });

  it('may hold more than this version knows (P17)', async () => {
    const text = JSON.stringify({ ...config, later: 'addition' });
    expect(await loadPoolConfig(undefined, { [variable.poolConfig]: text })).toEqual(config);
  });

  it.each([
    ['no pool', undefined, {}, 'no pool is named: pass one, or set HOLDFAST_POOL or HOLDFAST_POOL_CONFIG'],
    ['an empty name', '', {}, 'no pool is named'],
    ['no JSON', undefined, { [variable.poolConfig]: '{' }, 'HOLDFAST_POOL_CONFIG is not JSON'],
    [
      'a field left out',
      undefined,
      { [variable.poolConfig]: JSON.stringify({ ...config, jobsTable: undefined }) },
      'HOLDFAST_POOL_CONFIG: jobsTable: Invalid input: expected string, received undefined',
    ],
    ['another version', { ...config, v: 2 } as unknown as PoolConfig, {}, 'pool configuration: v: Invalid input: expected 1'],
    [
      'a name that reaches into other pools',
      { ...config, poolName: 'feeds_2' },
      {},
      'pool configuration: poolName: is not 1 to 32 of a-z, 0-9 and "-"',
    ],
  ])('that cannot be used says what is missing: %s', async (_, pool, env, message) => {
    await expect(loadPoolConfig(pool, env)).rejects.toMatchObject({ code: 'no-such-pool', message: expect.stringContaining(message) });
  });
});

describe('the settings of the functions', () => {
  it('come from the environment', () => {
    const settings = { ...DEFAULT_SETTINGS, restart: { type: 'on-failure', maxAttempts: 3 } };
    expect(loadPoolSettings({ [variable.poolSettings]: JSON.stringify(settings) })).toEqual(settings);
  });

  it('that are missing are named', () => {
    expect(() => loadPoolSettings({})).toThrow('HOLDFAST_POOL_SETTINGS is not set');
  });
});

describe('the name of an inbox', () => {
  it("stands beside the request queue, and no pool's grants reach another's", () => {
    expect(inboxUrl(config, '01J')).toBe('https://sqs.eu-central-1.amazonaws.com/123456789012/holdfast-feeds_01J.fifo');
    expect(inboxName('feeds-2', '01J').startsWith('holdfast-feeds_')).toBe(false);
  });

  it('fits a queue name for the longest pool name and a session', () => {
    expect(inboxName('p'.repeat(32), '0'.repeat(26)).length).toBeLessThanOrEqual(80);
  });
});
