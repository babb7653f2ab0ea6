import { type AwsClients, awsClients } from '../lib/aws/clients.ts';
import { installMiniStack } from '../stack/install.ts';
import { givenEndpoint } from '../stack/local-stack.ts';
import { startMiniStack } from '../stack/ministack.ts';

/** An AWS-compatible endpoint, and clients that may do anything there. */
export interface Access extends AsyncDisposable {
  readonly region: string;
  clients(): AwsClients;
}

/** The endpoint that `AWS_ENDPOINT_URL` names, with the environment's credentials; else an emulator of its own, which ends with it. */
export async function openEndpoint(log: (line: string) => void): Promise<Access> {
  await using opened = new AsyncDisposableStack();
  const given = givenEndpoint(process.env);
  const access = given
    ? { region: given.endpoint.region, credentials: given.credentials }
    : { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
  if (!given) {
    const ministack = await startMiniStack(await installMiniStack(log));
    opened.defer(() => ministack.end());
    // Where the clients look, as in any process.
    process.env.AWS_ENDPOINT_URL = ministack.url;
  }
  const owned = opened.move();
  return {
    region: access.region,
    clients() {
      const clients = awsClients(access);
      owned.defer(() => clients.destroy());
      return clients;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
