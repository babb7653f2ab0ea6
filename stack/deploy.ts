import { mkdtemp, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { childEnvironment, type Environment, pathToThisNode } from './environment.ts';
import { removeFolder, run } from './leashed.ts';

const cdk = createRequire(import.meta.url).resolve('aws-cdk/bin/cdk');

export interface Deployment {
  /** The folder that holds the app's `cdk.json`. */
  readonly app: string;
  /** CDK context, as given by `-c name=value`. */
  readonly context: Readonly<Record<string, string>>;
  /** `aws://<account>/<region>`. */
  readonly target: string;
  /** Access to the endpoint as the account's root. */
  readonly root: Environment;
  readonly signal?: AbortSignal | undefined;
}

/** Stack name → output name → value. */
export type Outputs = Readonly<Record<string, Readonly<Record<string, string>>>>;

/**
 * Bootstraps the target and deploys every stack of the app. Throws `StackError` with the end of the CDK's output when a step fails.
 *
 * Bootstrapping does not need the app and building it does not need the bootstrap, so they run side by side; the deployment takes what was
 * built. A direct deployment makes no change set: nobody would look at it.
 */
export async function deploy(deployment: Deployment): Promise<Outputs> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-deploy-'));
  try {
    return await deployFrom(folder, deployment);
  } finally {
    await removeFolder(folder);
  }
}

async function deployFrom(folder: string, { app, context, target, root, signal }: Deployment): Promise<Outputs> {
  const assembly = join(folder, 'cdk.out');
  const outputs = join(folder, 'outputs.json');
  const environment = childEnvironment({
    ...root,
    PATH: pathToThisNode(),
    // The CDK remembers under its home which account a key belongs to; an emulator's `test` has no place there.
    CDK_HOME: join(folder, 'cdk-home'),
    CDK_DISABLE_CLI_TELEMETRY: 'true',
    // CloudFormation's own rules take seconds each time; a test of the construct holds it against them.
    CDK_VALIDATION: 'false',
  });
  const failed = new AbortController();
  const step = async (what: string, cwd: string, args: readonly string[]): Promise<void> => {
    const ends = AbortSignal.any([failed.signal, ...(signal === undefined ? [] : [signal])]);
    try {
      await run(what, process.execPath, [cdk, ...args, '--no-notices'], { cwd, environment, folder, signal: ends });
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const given = Object.entries(context).flatMap(([name, value]) => ['--context', `${name}=${value}`]);
  await Promise.allSettled([
    step('cdk synth', app, ['synth', '--quiet', '--output', assembly, ...given]),
    // Below a folder without cdk.json, so that the app is not built twice.
    step('cdk bootstrap', folder, ['bootstrap', target]),
  ]);
  failed.signal.throwIfAborted();
  const how = ['--all', '--require-approval', 'never', '--method', 'direct', '--progress', 'events', '--outputs-file', outputs];
  await step('cdk deploy', app, ['deploy', '--app', assembly, ...how]);
  return JSON.parse(await readFile(outputs, 'utf8')) as Outputs;
}
