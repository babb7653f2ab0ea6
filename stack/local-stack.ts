import { fileURLToPath } from 'node:url';
import { GetParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { configParameter, type PoolConfig, poolConfigSchema } from '../lib/aws/config.ts';
import { deploy, type Outputs } from './deploy.ts';
import { awsEnvironment, type Credentials, clientConfig, type Endpoint, type Environment } from './environment.ts';
import { StackError } from './errors.ts';
import { installMiniStack } from './install.ts';
import { type MiniStack, startMiniStack } from './ministack.ts';
import { type Grant, takeRole } from './roles.ts';

export interface LocalStackOptions {
  /** Name of the pool; the app gets it as the context value `pool`. Default: `local`. */
  readonly pool?: string | undefined;
  /** More context values for the app, e.g. `{ leaseSeconds: '5' }`. Default: none, but for MiniStack `maxConcurrency`. */
  readonly context?: Readonly<Record<string, string>>;
  /** The folder that holds the app's `cdk.json`. Default: the project's. */
  readonly app?: string;
  /** Takes a line per step. Default: nobody listens. */
  readonly log?: (line: string) => void;
  /** Breaks the start off and leaves nothing behind. */
  readonly signal?: AbortSignal;
}

/** A deployed pool and the ways into it. */
export interface LocalStack extends AsyncDisposable {
  readonly endpoint: string;
  readonly region: string;
  readonly pool: string;
  readonly poolConfig: PoolConfig;
  readonly outputs: Outputs;
  /** Environment variables for a child process: the role of each grant, and the account's root. */
  readonly environments: Readonly<Record<Grant | 'root', Environment>>;
  /** The emulator's log file, which tells of failing functions too; absent where the endpoint was there before. */
  readonly log?: string;
  /** Settles when the emulator ended, by itself or not; never for an endpoint that was there before. */
  readonly ended: Promise<unknown>;
  /** Ends and removes all that `startLocalStack` started. An endpoint that was there before keeps what was deployed to it. */
  stop(): Promise<void>;
}

/** MiniStack starts a process for every batch at once. A burst would have it start so many that it answers nobody for many seconds. */
const modest = { maxConcurrency: '4' };

const project = fileURLToPath(new URL('../', import.meta.url));

/**
 * Brings the CDK app up on an AWS-compatible endpoint: the one that `AWS_ENDPOINT_URL` names, with credentials and region from the
 * environment, or else a MiniStack of its own, installed into the project on first use, which ends with this process.
 *
 * Throws `StackError` when something is missing on the machine or a step fails, and the signal's reason when aborted.
 */
export async function startLocalStack(options: LocalStackOptions = {}): Promise<LocalStack> {
  const { pool = 'local', context = {}, app = project, log = () => undefined, signal } = options;
  await using started = new AsyncDisposableStack();
  const { endpoint, credentials, ministack } = givenEndpoint(process.env) ?? (await ownEndpoint(started, log, signal));
  const root = { ...awsEnvironment(endpoint, credentials), HOLDFAST_POOL: pool };
  const account = await accountOf(root);

  log(`deploying pool "${pool}" to ${endpoint.url}`);
  const outputs = await deploy({
    app,
    context: { ...(ministack && modest), ...context, pool },
    target: `aws://${account}/${endpoint.region}`,
    root,
    signal,
  });
  const poolConfig = await readPoolConfig(root, pool);
  const environmentOf = async (grant: Grant): Promise<Environment> => {
    const credentials = await takeRole(root, account, pool, grant);
    return { ...awsEnvironment(endpoint, credentials), HOLDFAST_POOL: pool };
  };
  const roles = [environmentOf('produce'), environmentOf('work'), environmentOf('observe'), environmentOf('operate')] as const;
  const [produce, work, observe, operate] = await Promise.all(roles);
  signal?.throwIfAborted();

  const owned = started.move();
  const stop = (): Promise<void> => owned.disposeAsync();
  return {
    endpoint: endpoint.url,
    region: endpoint.region,
    pool,
    poolConfig,
    outputs,
    environments: { produce, work, observe, operate, root },
    ...(ministack === undefined ? {} : { log: ministack.log }),
    ended: ministack?.ended ?? new Promise<never>(() => undefined),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

interface Place {
  readonly endpoint: Endpoint;
  /** Of the account's root, or of whoever may deploy. */
  readonly credentials: Credentials;
  readonly ministack?: MiniStack;
}

async function ownEndpoint(started: AsyncDisposableStack, log: (line: string) => void, signal?: AbortSignal): Promise<Place> {
  const python = await installMiniStack(log, signal);
  log('starting MiniStack');
  const ministack = await startMiniStack(python, signal);
  started.defer(() => ministack.end());
  // The root keys of MiniStack's one account, and its default region.
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  return { endpoint: { url: ministack.url, region: 'us-east-1', certificate: ministack.certificate }, credentials, ministack };
}

/** The endpoint that the environment names, if it names one. Throws `StackError` when it names one without a way in. */
export function givenEndpoint(environment: NodeJS.ProcessEnv): Place | undefined {
  const url = environment.AWS_ENDPOINT_URL;
  if (url === undefined || url === '') return undefined;
  const region = environment.AWS_REGION ?? environment.AWS_DEFAULT_REGION;
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken,
    NODE_EXTRA_CA_CERTS: certificate,
  } = environment;
  if (region === undefined || accessKeyId === undefined || secretAccessKey === undefined) {
    throw new StackError(`AWS_ENDPOINT_URL is set (${url}), so AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set too`);
  }
  return { endpoint: { url, region, certificate }, credentials: { accessKeyId, secretAccessKey, sessionToken } };
}

async function accountOf(root: Environment): Promise<string> {
  const sts = new STSClient(clientConfig(root));
  try {
    const { Account: account } = await sts.send(new GetCallerIdentityCommand({}));
    if (account === undefined) throw new StackError(`${root.AWS_ENDPOINT_URL}: the caller's identity names no account`);
    return account;
  } finally {
    sts.destroy();
  }
}

async function readPoolConfig(root: Environment, pool: string): Promise<PoolConfig> {
  const name = configParameter(pool);
  const ssm = new SSMClient(clientConfig(root));
  try {
    const { Parameter: parameter } = await ssm.send(new GetParameterCommand({ Name: name }));
    return poolConfigSchema.parse(JSON.parse(parameter?.Value ?? ''));
  } catch (cause) {
    throw new StackError(`The app is deployed, but its parameter "${name}" holds no configuration of a pool: ${cause}`, { cause });
  } finally {
    ssm.destroy();
  }
}
