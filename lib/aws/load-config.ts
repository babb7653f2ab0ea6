import { GetParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import type * as z from 'zod';
import { PoolError } from '../pool/errors.ts';
import type { PoolSettings } from '../pool/settings.ts';
import { configParameter, type PoolConfig, poolConfigSchema, poolSettingsSchema, variable } from './config.ts';
import { translated } from './errors.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * How to reach a pool: `HOLDFAST_POOL_CONFIG` where it is set (and of the pool that was asked for), else the pool's SSM
 * parameter. `pool` is its name, default `HOLDFAST_POOL`, or the configuration itself.
 *
 * Throws `no-such-pool`, naming what is missing, and `not-permitted` where the parameter may not be read.
 */
export async function loadPoolConfig(pool: string | PoolConfig | undefined, env: Environment): Promise<PoolConfig> {
  if (typeof pool === 'object') return parsed('pool configuration', poolConfigSchema, pool);
  const given = env[variable.poolConfig];
  if (given) {
    const config = parsedJson(variable.poolConfig, poolConfigSchema, given);
    if (pool === undefined || config.poolName === pool) return config;
  }
  const poolName = pool ?? env[variable.pool];
  if (!poolName) throw noSuchPool(`no pool is named: pass one, or set ${variable.pool} or ${variable.poolConfig}`);
  const name = configParameter(poolName);
  return parsedJson(`parameter "${name}"`, poolConfigSchema, await readParameter(poolName, name));
}

/** What the pool was deployed with, from the environment of its functions. Throws `no-such-pool` where it is not there. */
export function loadPoolSettings(env: Environment): PoolSettings {
  return parsedJson(variable.poolSettings, poolSettingsSchema, required(env, variable.poolSettings));
}

/** Throws `no-such-pool` where the variable is not set. */
export function required(env: Environment, name: string): string {
  const value = env[name];
  if (!value) throw noSuchPool(`${name} is not set`);
  return value;
}

async function readParameter(poolName: string, name: string): Promise<string> {
  const ssm = new SSMClient({ maxAttempts: 4 });
  try {
    const { Parameter: parameter } = await translated(`pool "${poolName}", parameter "${name}"`, () =>
      ssm.send(new GetParameterCommand({ Name: name })),
    );
    return parameter?.Value ?? '';
  } finally {
    ssm.destroy();
  }
}

function parsedJson<T>(where: string, schema: z.ZodType<T>, text: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw noSuchPool(`${where} is not JSON`);
  }
  return parsed(where, schema, value);
}

function parsed<T>(where: string, schema: z.ZodType<T>, value: unknown): T {
  const { data, error } = schema.safeParse(value);
  if (!error) return data;
  const [issue] = error.issues;
  throw noSuchPool(`${where}: ${[...(issue?.path ?? []), issue?.message].join(': ')}`);
}

function noSuchPool(message: string): PoolError {
  return new PoolError('no-such-pool', message, { retryable: false });
}
