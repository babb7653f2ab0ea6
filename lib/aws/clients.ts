import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SQSClient } from '@aws-sdk/client-sqs';
import { NodeHttpHandler } from '@smithy/node-http-handler';

/** The service clients of one process; each keeps its connections, so make them once. */
export interface AwsClients {
  readonly dynamo: DynamoDBClient;
  readonly sqs: SQSClient;
  readonly sfn: SFNClient;
  /** Closes their connections. */
  destroy(): void;
}

export interface AwsClientOptions {
  readonly region: string;
  /** Default: that of `AWS_ENDPOINT_URL`, else the region's own. */
  readonly endpoint?: string;
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

/** Time limits of requests, ms. */
const limits = {
  connectionTimeout: 2_000,
  /** Of any request but a long poll, which brings its own. */
  requestTimeout: 5_000,
  /** Of silence on a connection; above the longest poll. */
  socketTimeout: 30_000,
};

/** What every client of a process is made with; one for all, so that they share connections. */
export function clientOptions({ region, endpoint, credentials, requestHandler = nodeRequestHandler() }: AwsClientOptions) {
  return { region, endpoint, credentials, requestHandler, maxAttempts };
}

export function awsClients(options: AwsClientOptions): AwsClients {
  const shared = clientOptions(options);
  const dynamo = new DynamoDBClient(shared);
  const sqs = new SQSClient(shared);
  const sfn = new SFNClient(shared);
  return {
    dynamo,
    sqs,
    sfn,
    destroy() {
      dynamo.destroy();
      sqs.destroy();
      sfn.destroy();
    },
  };
}

export function nodeRequestHandler(other: Partial<typeof limits> = {}): NodeHttpHandler {
  return new NodeHttpHandler({ ...limits, ...other, throwOnRequestTimeout: true, httpsAgent: { keepAlive: true, maxSockets: 100 } });
}
