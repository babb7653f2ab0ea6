import { DeleteParameterCommand, PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import { afterAll, afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { configParameter, type PoolConfig } from '../../lib/aws/config.ts';
import { loadPoolConfig } from '../../lib/aws/load-config.ts';
import { clientConfig } from '../../stack/environment.ts';
import { adapterPool } from '../support/adapter-pool.ts';

const { environments } = inject('stack');
const pool = await adapterPool();
const ssm = new SSMClient(clientConfig(environments.root));
const { poolName } = pool.config;
const name = configParameter(poolName);
afterAll(async () => {
  await ssm.send(new DeleteParameterCommand({ Name: name }));
  ssm.destroy();
  await pool.remove();
});

async function deployed(config: PoolConfig | string): Promise<void> {
  const Value = typeof config === 'string' ? config : JSON.stringify(config);
  await ssm.send(new PutParameterCommand({ Name: name, Value, Type: 'String', Overwrite: true }));
}

// What a process of the pool finds in its environment.
beforeEach(() => {
  for (const [variable, value] of Object.entries(environments.root)) vi.stubEnv(variable, value);
});
afterEach(() => void vi.unstubAllEnvs());

describe("a pool's parameter", () => {
  it.each([
    ['named by the caller', poolName, {}],
    ['named by the environment', undefined, { HOLDFAST_POOL: poolName }],
    [
      'and not what the environment holds of another pool',
      poolName,
      { HOLDFAST_POOL_CONFIG: JSON.stringify({ ...pool.config, poolName: 'another' }) },
    ],
  ])('is read: %s', async (_, asked, env) => {
    await deployed(pool.config);
    expect(await loadPoolConfig(asked, env)).toEqual(pool.config);
  });

  it('that does not say how to connect is no-such-pool, naming what is missing', async () => {
    await deployed(JSON.stringify({ ...pool.config, requestQueueUrl: undefined }));
    const message = expect.stringContaining(`parameter "${name}": requestQueueUrl: `);
    await expect(loadPoolConfig(poolName, {})).rejects.toMatchObject({ code: 'no-such-pool', message });
  });

  it('that is missing is no-such-pool, naming it', async () => {
    const message = expect.stringContaining(`parameter "/holdfast/${poolName}-2/config"`);
    await expect(loadPoolConfig(`${poolName}-2`, {})).rejects.toMatchObject({ code: 'no-such-pool', retryable: false, message });
  });

  it('that may not be read is not-permitted, naming it', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIAUNKNOWN');
    const message = expect.stringContaining(`parameter "${name}"`);
    await expect(loadPoolConfig(poolName, {})).rejects.toMatchObject({ code: 'not-permitted', message });
  });
});
