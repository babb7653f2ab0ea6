import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { NodeHttpHandler } from '@smithy/node-http-handler';

/** The service clients of one process; each keeps its connections, so make them once. */
export interface AwsClients {
  readonly dynamo: DynamoDBClient;
  readonly sqs: SQSClient;
  /** Closes their connections. */
  destroy(): void;
}

export interface AwsClientOptions {
  readonly region: string;
  /** Default: those of the environment, refreshed by the SDK as they expire. */
  readonly credentials?: Credentials;
  /** Sends the requests. Default: Node's HTTP client with kept connections and time limits. */
  readonly requestHandler?: RequestHandler;
}

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export type RequestHandler = Pick<NodeHttpHandler, 'handle'>;

/** Tries in all, with the SDK's own backoff in between. */
const maxAttempts = 4;

const limits = {
  connectionTimeout: 2_000,
  // A single request of any kind but a long poll, which brings its own.
  requestTimeout: 5_000,
  throwOnRequestTimeout: true,
  // Silence on a connection; above the longest poll.
  socketTimeout: 30_000,
} as const;

/** The endpoint is that of `AWS_ENDPOINT_URL`, else the region's own. */
export function awsClients({ region, credentials, requestHandler = nodeRequestHandler() }: AwsClientOptions): AwsClients {
  const options = { region, credentials, requestHandler, maxAttempts };
  const dynamo = new DynamoDBClient(options);
  const sqs = new SQSClient(options);
  return {
    dynamo,
    sqs,
    destroy() {
      dynamo.destroy();
      sqs.destroy();
    },
  };
}

export function nodeRequestHandler(): NodeHttpHandler {
  return new NodeHttpHandler({ ...limits, httpsAgent: { keepAlive: true, maxSockets: 100 } });
}
