import { readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { delimiter, dirname } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/** Environment variables, ready for a child process. */
export type Environment = Readonly<Record<string, string>>;

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface Endpoint {
  /** Base address of the AWS-compatible endpoint, without a path. */
  readonly url: string;
  readonly region: string;
  /** PEM file of the certificate to trust, where the endpoint's own is not signed by a known authority. */
  readonly certificate?: string | undefined;
}

/** The variables with which an AWS SDK (any language), the AWS CLI and the CDK CLI reach `endpoint` as the holder of `credentials`. */
export function awsEnvironment(endpoint: Endpoint, credentials: Credentials): Environment {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  return {
    AWS_ENDPOINT_URL: endpoint.url,
    AWS_REGION: endpoint.region,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    ...(sessionToken === undefined ? {} : { AWS_SESSION_TOKEN: sessionToken }),
    ...(endpoint.certificate === undefined ? {} : { NODE_EXTRA_CA_CERTS: endpoint.certificate, AWS_CA_BUNDLE: endpoint.certificate }),
  };
}

/** The same access for an SDK client of this process: `new SQSClient(clientConfig(stack.environments.produce))`. */
export function clientConfig(environment: Environment) {
  const {
    AWS_ENDPOINT_URL: endpoint = '',
    AWS_REGION: region = '',
    AWS_ACCESS_KEY_ID: accessKeyId = '',
    AWS_SECRET_ACCESS_KEY: secretAccessKey = '',
    AWS_SESSION_TOKEN: sessionToken,
  } = environment;
  return { endpoint, region, credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) } };
}

/** The environment of a child process: this process's, with no AWS setting of the machine left in it, and `environment` on top. */
export function childEnvironment(environment: Environment, base: NodeJS.ProcessEnv = process.env): Environment {
  const kept = Object.entries(base).filter((entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('AWS_'));
  return { ...Object.fromEntries(kept), AWS_CONFIG_FILE: devNull, AWS_SHARED_CREDENTIALS_FILE: devNull, ...environment };
}

/** A PATH on which `node` is the one that runs this process. */
export function pathToThisNode(): string {
  return [dirname(process.execPath), process.env.PATH].join(delimiter);
}

/** Makes this process trust a certificate too, as `NODE_EXTRA_CA_CERTS` does for a process that is yet to start. */
export function trustCertificate(file: string): void {
  setDefaultCACertificates([...getCACertificates('default'), readFileSync(file, 'utf8')]);
}

const secretName = /SECRET|TOKEN|PASSWORD|PASSWD/i;
// Shorter ones are placeholders such as `test`; replacing them would garble the text.
const shortestSecret = 8;

/** `text` without the secrets of `environment` and without the user part of any URL. */
export function redact(text: string, environment: Environment): string {
  const secrets = Object.entries(environment).filter(([name, value]) => secretName.test(name) && value.length >= shortestSecret);
  const bare = text.replaceAll(/(\w:\/\/)[^\s/@]+@/g, '$1***@');
  return secrets.reduce((redacted, [, value]) => redacted.replaceAll(value, '***'), bare);
}
