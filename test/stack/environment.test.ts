import { expect, it } from 'vitest';
import { awsEnvironment, childEnvironment, clientConfig, redact } from '../../stack/environment.ts';
import { givenEndpoint } from '../../stack/local-stack.ts';

const endpoint = { url: 'https://localhost:4000', region: 'eu-west-1' };
const temporary = { accessKeyId: 'ASIA', secretAccessKey: 'secret', sessionToken: 'token' };

it('keeps every AWS setting of the machine from a child process', () => {
  const base = { PATH: '/bin', AWS_PROFILE: 'production', AWS_SESSION_TOKEN: 'live', AWS_ENDPOINT_URL_SQS: 'https://sqs', HOLDFAST_X: 'x' };
  const child = childEnvironment(awsEnvironment(endpoint, { accessKeyId: 'test', secretAccessKey: 'test' }), base);
  expect(child).toEqual({
    PATH: '/bin',
    HOLDFAST_X: 'x',
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_ENDPOINT_URL: 'https://localhost:4000',
    AWS_REGION: 'eu-west-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  });
});

it('has an SDK client and a child process hold the same credentials', () => {
  const environment = awsEnvironment(endpoint, temporary);
  expect(environment).toMatchObject({ AWS_SESSION_TOKEN: 'token' });
  expect(clientConfig(environment)).toEqual({ endpoint: 'https://localhost:4000', region: 'eu-west-1', credentials: temporary });
});

it('names the certificate to trust for Node and for the AWS CLI', () => {
  const environment = awsEnvironment({ ...endpoint, certificate: '/cert.pem' }, temporary);
  expect(environment).toMatchObject({ NODE_EXTRA_CA_CERTS: '/cert.pem', AWS_CA_BUNDLE: '/cert.pem' });
});

it('takes secrets and the user part of URLs out of a text, and leaves placeholders', () => {
  const environment = {
    AWS_SECRET_ACCESS_KEY: 'wJalrXUtnFEMI',
    AWS_SESSION_TOKEN: 'FwoGZXIvYXdz',
    PIP_PASSWORD: 'test',
    PATH: '/usr/local/bin',
  };
  const text = 'wJalrXUtnFEMI FwoGZXIvYXdz test /usr/local/bin https://me:pass@index.example/simple';
  expect(redact(text, environment)).toBe('*** *** test /usr/local/bin https://***@index.example/simple');
});

it('starts its own endpoint only where the environment names none', () => {
  expect(givenEndpoint({ AWS_REGION: 'eu-west-1' })).toBeUndefined();
  expect(givenEndpoint({ AWS_ENDPOINT_URL: '' })).toBeUndefined();
});

it('takes endpoint, region, credentials and certificate from the environment', () => {
  const environment = { ...awsEnvironment({ ...endpoint, certificate: '/cert.pem' }, temporary) };
  expect(givenEndpoint(environment)).toEqual({ endpoint: { ...endpoint, certificate: '/cert.pem' }, credentials: temporary });
});

it.each(['AWS_REGION', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'])(
  'refuses an endpoint without %s, naming what must be set',
  (missing) => {
    const environment = { ...awsEnvironment(endpoint, temporary), [missing]: undefined };
    expect(() => givenEndpoint(environment)).toThrow(
      /AWS_ENDPOINT_URL is set \(https:\/\/localhost:4000\), so AWS_REGION, .* must be set too/,
    );
  },
);
