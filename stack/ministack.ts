import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { trustCertificate } from './environment.ts';
import { StackError } from './errors.ts';
import { type Leashed, startLeashed } from './leashed.ts';

const startDeadlineMs = 30_000;
const lookEveryMs = 50;
const portAttempts = 3;

/** A running emulator, with IAM enforced and TLS, on a loopback port of its own. */
export interface MiniStack {
  readonly url: string;
  /** PEM file of the certificate to trust. */
  readonly certificate: string;
  /** File that takes what the emulator and the functions print. */
  readonly log: string;
  /** Settles when the emulator ended, by itself or not. */
  readonly ended: Promise<unknown>;
  /** Ends the emulator and the functions' processes, and removes its folder. */
  end(): Promise<void>;
}

/** Starts MiniStack and waits until it answers. This process trusts its certificate from then on. */
export async function startMiniStack(python: string, signal?: AbortSignal): Promise<MiniStack> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-stack-'));
  try {
    // MiniStack writes the functions' entry files, which are CommonJS, below its temporary folder; Node looks for the module type upwards.
    await writeFile(join(folder, 'package.json'), '{"type":"commonjs"}');
    const certificate = await makeCertificate(folder);
    trustCertificate(certificate);
    for (let attempt = 1; ; attempt += 1) {
      const port = await freePort();
      const log = join(folder, `ministack-${port}.log`);
      const ministack = { url: `https://localhost:${port}`, certificate, log, ...(await launch(python, folder, port, log)) };
      const answer = await firstAnswer(ministack, signal);
      if (answer === 'up') return ministack;
      const printed = await readFile(log, 'utf8');
      await ministack.end().finally(() => signal?.throwIfAborted());
      // Somebody took the port between our look and MiniStack's.
      if (attempt < portAttempts && answer === 'ended' && printed.includes('address already in use')) continue;
      throw new StackError(
        `MiniStack ${answer === 'ended' ? 'ended at once' : `did not answer within ${startDeadlineMs / 1000} s`}:\n${printed.slice(-4_000)}`,
      );
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function launch(python: string, folder: string, port: number, log: string): Promise<Leashed> {
  const certificate = join(folder, 'cert.pem');
  const key = join(folder, 'key.pem');
  const bind = `127.0.0.1:${port}`;
  // Not the `ministack` command: with TLS it takes port 443 too. Not the whole environment either: functions inherit MiniStack's.
  const args = [
    '-I',
    '-m',
    'hypercorn',
    'ministack.app:app',
    '--workers',
    '0',
    '--bind',
    bind,
    '--certfile',
    certificate,
    '--keyfile',
    key,
    '--keep-alive',
    '75',
  ];
  const environment = {
    PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
    TMPDIR: folder,
    AUTH: 'true',
    USE_SSL: '1',
    BIND_HOST: '127.0.0.1',
    GATEWAY_PORT: String(port),
    MINISTACK_SSL_CERT: certificate,
    MINISTACK_SSL_KEY: key,
    NODE_EXTRA_CA_CERTS: certificate,
    // Services that would listen on ports of their own.
    SFTP_ENABLED: '0',
    IOT_MTLS_ENABLED: '0',
  };
  const file = await open(log, 'w');
  try {
    return startLeashed(python, args, { cwd: folder, environment, folder, log: file.fd });
  } finally {
    await file.close();
  }
}

async function firstAnswer(ministack: MiniStack, signal: AbortSignal | undefined): Promise<'up' | 'ended' | 'silent'> {
  const ended = ministack.ended.then(() => 'ended' as const);
  const deadline = performance.now() + startDeadlineMs;
  while (performance.now() < deadline && signal?.aborted !== true) {
    // Only the certificate's holder can answer: another process on that port fails the handshake.
    const up = fetch(`${ministack.url}/_ministack/health`).then(
      (response) => response.ok && ('up' as const),
      () => false as const,
    );
    const answer = await Promise.race([up, ended]);
    if (answer !== false) return answer;
    await Promise.race([wait(lookEveryMs), ended]);
  }
  return 'silent';
}

/** A TCP port of the loopback interface that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new StackError('The system gave no TCP port on 127.0.0.1');
  return address.port;
}

async function makeCertificate(folder: string): Promise<string> {
  const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const use = ['-addext', 'basicConstraints=critical,CA:FALSE', '-addext', 'extendedKeyUsage=serverAuth'];
  const files = ['-keyout', key, '-out', certificate];
  await promisify(execFile)('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '30',
    ...subject,
    ...use,
    ...files,
  ]).catch((error: NodeJS.ErrnoException & { readonly stderr?: string }) => {
    if (error.code === 'ENOENT')
      throw new StackError('The local stack makes its certificate with openssl, which was not found on the PATH: install it.');
    throw new StackError(`openssl could not make a certificate (OpenSSL 1.1.1 or later is needed):\n${error.stderr ?? error.message}`);
  });
  await chmod(key, 0o600);
  return certificate;
}
