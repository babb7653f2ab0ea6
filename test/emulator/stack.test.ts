import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AttachRolePolicyCommand, IAMClient, ListAttachedRolePoliciesCommand, ListRolePoliciesCommand } from '@aws-sdk/client-iam';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { afterEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { childEnvironment, clientConfig } from '../../stack/environment.ts';
import { installMiniStack } from '../../stack/install.ts';
import { startMiniStack } from '../../stack/ministack.ts';

const { endpoint, region, pool, poolConfig, environments, log } = inject('stack');
afterEach(() => void vi.unstubAllEnvs());

const grants = ['produce', 'work', 'observe', 'operate'] as const;

describe.each(grants)('the role of %s', (grant) => {
  const config = clientConfig(environments[grant]);
  const name = `holdfast-${pool}-${region}-${grant}`;

  it('may not give itself more than its grant', async () => {
    const policy = 'arn:aws:iam::aws:policy/AdministratorAccess';
    const attached = new IAMClient(config).send(new AttachRolePolicyCommand({ RoleName: name, PolicyArn: policy }));
    await expect(attached).rejects.toThrow(/not authorized/);
  });

  it('may not make queues of any name', async () => {
    const created = new SQSClient(config).send(new CreateQueueCommand({ QueueName: `stray-${grant}` }));
    await expect(created).rejects.toThrow(/not authorized/);
  });

  it("holds the grant's policy alone", async () => {
    const iam = new IAMClient(clientConfig(environments.root));
    const { AttachedPolicies: attached } = await iam.send(new ListAttachedRolePoliciesCommand({ RoleName: name }));
    expect(attached?.map(({ PolicyName }) => PolicyName)).toEqual([name]);
    const { PolicyNames: inline } = await iam.send(new ListRolePoliciesCommand({ RoleName: name }));
    expect(inline).toEqual([]);
  });

  it('is who its credentials say', async () => {
    const { Arn: arn } = await new STSClient(config).send(new GetCallerIdentityCommand({}));
    expect(arn).toContain(`assumed-role/${name}/`);
  });
});

it.each([
  ['unknown keys', 'InvalidClientTokenId', { accessKeyId: 'AKIAUNKNOWN', secretAccessKey: 'test' }],
  [
    'known keys with a wrong secret',
    'SignatureDoesNotMatch',
    { ...clientConfig(environments.produce).credentials, secretAccessKey: 'wrong' },
  ],
])('refuses %s', async (_, name, credentials) => {
  const sts = new STSClient({ ...clientConfig(environments.root), credentials });
  await expect(sts.send(new GetCallerIdentityCommand({}))).rejects.toMatchObject({ name });
});

it('reads the configuration that the pool published', () => {
  expect(poolConfig).toMatchObject({ poolName: pool, region });
  expect(environments.produce.HOLDFAST_POOL).toBe(pool);
});

it('keeps to an endpoint that was there before, prints one line of JSON and ends when interrupted', async () => {
  const cli = spawn(process.execPath, [fileURLToPath(new URL('../../stack/cli.ts', import.meta.url))], {
    // A pool of its own: the others of this run go on using theirs.
    env: { ...childEnvironment(environments.root), HOLDFAST_POOL: 'beside' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void cli.kill());
  const [printed, said] = [cli.stdout.setEncoding('utf8').toArray(), cli.stderr.setEncoding('utf8').toArray()];
  await once(cli.stdout, 'readable');
  cli.kill('SIGINT');
  const [code] = await once(cli, 'exit');
  expect(code, (await said).join('')).toBe(0);
  const [line = '', ...rest] = (await printed).join('').split('\n');
  expect(JSON.parse(line)).toMatchObject({ endpoint, region, pool: 'beside', poolConfig: { poolName: 'beside' } });
  expect(rest).toEqual(['']);
  expect((await said).join('')).not.toContain('MiniStack');
});

// What follows is about MiniStack; an endpoint that was there before may do as it likes.
describe.runIf(log !== undefined)('an emulator of its own', () => {
  it('does not answer plain http', async () => {
    const { port } = new URL(endpoint);
    const answered = new Promise((resolve, reject) => {
      request({ host: '127.0.0.1', port, path: '/_ministack/health' }, resolve).on('error', reject).end();
    });
    await expect(answered).rejects.toThrow();
  });

  it('listens on the loopback interface alone', async () => {
    const port = Number(new URL(endpoint).port);
    expect(await accepts('127.0.0.1', port)).toBe(true);
    const outward = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    for (const { address } of outward.filter(({ internal, family }) => !internal && family === 'IPv4')) {
      expect(await accepts(address, port), address).toBe(false);
    }
  });

  it('stands beside another one, which leaves nothing behind', async () => {
    const other = await startMiniStack(await installMiniStack(() => undefined));
    expect(other.url).not.toBe(endpoint);
    const port = Number(new URL(other.url).port);
    expect(await accepts('127.0.0.1', port)).toBe(true);
    await other.end();
    expect(await accepts('127.0.0.1', port)).toBe(false);
    expect(existsSync(dirname(other.log))).toBe(false);
  });

  it('says what the emulator printed when it cannot start, and leaves nothing behind', async () => {
    const temporary = mkdtempSync(join(tmpdir(), 'holdfast-stack-test-'));
    onTestFinished(() => rmSync(temporary, { recursive: true }));
    vi.stubEnv('TMPDIR', temporary);
    await expect(startMiniStack('no-such-python')).rejects.toThrow(/MiniStack ended at once:\nno-such-python: .*ENOENT/);
    expect(readdirSync(temporary)).toEqual([]);
    vi.stubEnv('PATH', temporary);
    await expect(startMiniStack('no-such-python')).rejects.toThrow(/openssl, which is not on the PATH: install it/);
    expect(readdirSync(temporary)).toEqual([]);
  });
});

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port }, () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}
