import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { pathToThisNode, trustCertificate } from './environment.ts';
import { StackError } from './errors.ts';
import { removeFolder, startLeashed } from './leashed.ts';

const startDeadlineMs = 30_000;
const lookEveryMs = 50;
const portAttempts = 3;

/** A running emulator, with IAM enforced and TLS, on a loopback port of its own. */
export interface MiniStack {
  readonly url: string;
  /** PEM file of the certificate to trust. */
  readonly certificate: string;
  /** File that takes what the emulator prints; it tells of failing functions too. */
  readonly log: string;
  /** Settles when the emulator ended, by itself or not. */
  readonly ended: Promise<unknown>;
  /** Ends the emulator and the functions' processes, and removes its folder. */
  end(): Promise<void>;
}

/** Starts MiniStack and waits until it answers. This process trusts its certificate from then on. */
export async function startMiniStack(python: string, signal?: AbortSignal): Promise<MiniStack> {
  for (let attempt = 1; ; attempt += 1) {
    const ministack = await launch(python);
    const answer = await firstAnswer(ministack, signal);
    if (answer === 'up') return ministack;
    const printed = await readFile(ministack.log, 'utf8');
    await ministack.end();
    signal?.throwIfAborted();
    // Somebody took the port between our look and MiniStack's.
    if (attempt < portAttempts && answer === 'ended' && printed.includes('address already in use')) continue;
    const fact = answer === 'ended' ? 'ended at once' : `did not answer within ${startDeadlineMs / 1000} s`;
    throw new StackError(`MiniStack ${fact}:\n${printed.slice(-4_000)}`);
  }
}

async function launch(python: string): Promise<MiniStack> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-stack-'));
  try {
    // MiniStack writes the functions' entry files, which are CommonJS, below its temporary folder; Node looks for the module type upwards.
    await writeFile(join(folder, 'package.json'), '{"type":"commonjs"}');
    const { certificate, key } = await makeCertificate(folder);
    trustCertificate(certificate);
    const port = await freePort();
    // Not the `ministack` command, which takes port 443 too where it can.
    const command = '-I -m hypercorn ministack.app:app --workers 0 --keep-alive 75'.split(' ');
    const args = [...command, '--bind', `127.0.0.1:${port}`, '--certfile', certificate, '--keyfile', key];
    // Not this process's environment: functions inherit MiniStack's.
    const environment = {
      PATH: pathToThisNode(),
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
    const log = join(folder, 'ministack.log');
    const file = await open(log, 'w');
    const leashed = startLeashed(python, args, { cwd: folder, environment, folder, log: file.fd });
    await file.close();
    const end = async (): Promise<void> => {
      leashed.release();
      await leashed.ended;
      // It is still there where MiniStack ended by itself.
      await removeFolder(folder);
    };
    return { url: `https://localhost:${port}`, certificate, log, ended: leashed.ended, end };
  } catch (error) {
    await removeFolder(folder);
    throw error;
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
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new StackError('The system gave no TCP port on 127.0.0.1');
  return address.port;
}

async function makeCertificate(folder: string): Promise<{ readonly certificate: string; readonly key: string }> {
  const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const request = 'req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1';
  const use = '-addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=serverAuth';
  try {
    await promisify(execFile)('openssl', [...request.split(' '), ...use.split(' '), '-keyout', key, '-out', certificate]);
  } catch (error) {
    const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: string };
    if (code === 'ENOENT') throw new StackError('The local stack makes its certificate with openssl, which is not on the PATH: install it');
    throw new StackError(`openssl could not make a certificate (1.1.1 or later is needed):\n${stderr}`, { cause: error });
  }
  return { certificate, key };
}
