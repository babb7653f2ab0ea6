import { AttachRolePolicyCommand, CreateRoleCommand, EntityAlreadyExistsException, IAMClient } from '@aws-sdk/client-iam';
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts';
import { type Credentials, clientConfig, type Environment } from './environment.ts';
import { StackError } from './errors.ts';

/** What a pool grants: it makes one managed policy for each. */
export type Grant = 'produce' | 'work' | 'observe' | 'operate';

// The longest that IAM allows: a stack may be kept up for a working day.
const sessionSeconds = 12 * 60 * 60;

/** Makes a role that holds exactly what one grant of the pool gave, and takes it. */
export async function takeRole(root: Environment, account: string, pool: string, grant: Grant): Promise<Credentials> {
  const config = clientConfig(root);
  const iam = new IAMClient(config);
  const sts = new STSClient(config);
  try {
    const name = `holdfast-${pool}-${config.region}-${grant}`;
    const trust = {
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${account}:root` }, Action: 'sts:AssumeRole' }],
    };
    await iam
      .send(new CreateRoleCommand({ RoleName: name, AssumeRolePolicyDocument: JSON.stringify(trust), MaxSessionDuration: sessionSeconds }))
      // An endpoint that was there before may hold the role of an earlier run.
      .catch((error: unknown) => {
        if (!(error instanceof EntityAlreadyExistsException)) throw error;
      });
    await iam.send(new AttachRolePolicyCommand({ RoleName: name, PolicyArn: `arn:aws:iam::${account}:policy/${name}` }));
    const { Credentials: taken } = await sts.send(
      new AssumeRoleCommand({ RoleArn: `arn:aws:iam::${account}:role/${name}`, RoleSessionName: grant, DurationSeconds: sessionSeconds }),
    );
    if (taken?.AccessKeyId === undefined || taken.SecretAccessKey === undefined)
      throw new StackError(`role "${name}": no credentials were returned`);
    return { accessKeyId: taken.AccessKeyId, secretAccessKey: taken.SecretAccessKey, sessionToken: taken.SessionToken };
  } finally {
    iam.destroy();
    sts.destroy();
  }
}
