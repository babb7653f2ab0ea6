/**
 * What each port asks of AWS, by the resource that it asks it of: an adapter that calls anything else fails its conformance suite,
 * which runs with exactly these. Grants allow exactly what their processes' ports ask for, the functions' roles no more than that; tests hold
 * them against this list.
 */
export const actions = {
  jobs: {
    // A transaction is allowed to whom each of its writes is.
    jobsTable: ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'],
    jobsTableIndexes: ['dynamodb:Query'],
  },
  dispatches: { jobsTable: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'] },
  workers: {
    workersTable: ['dynamodb:GetItem', 'dynamodb:Scan', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'],
    // The pool's state.
    jobsTable: ['dynamodb:GetItem'],
  },
  commands: { inboxes: ['sqs:SendMessage'] },
  requests: { requestQueue: ['sqs:SendMessage'] },
  /** Deletes the inboxes of sessions that are over. Whoever lists queues lists those of the account. */
  keeper: { inboxes: ['sqs:DeleteQueue'], anything: ['sqs:ListQueues'] },
  rounds: { jobsTable: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'] },
  // As for `jobs`; each record that is only looked at asks for an action of its own.
  restores: {
    jobsTable: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem', 'dynamodb:ConditionCheckItem'],
    workersTable: ['dynamodb:ConditionCheckItem'],
  },
  /** Whoever wakes an execution names it by its task token alone. */
  machine: { resyncMachine: ['states:StartExecution'], anything: ['states:SendTaskSuccess'] },
  registry: { workersTable: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem'] },
  inboxes: { inboxes: ['sqs:CreateQueue', 'sqs:ReceiveMessage', 'sqs:DeleteMessage'] },
  reports: { reportQueue: ['sqs:SendMessage'] },
  records: {
    jobsTable: ['dynamodb:BatchGetItem'],
    jobsTableIndexes: ['dynamodb:Query'],
    workersTable: ['dynamodb:Scan'],
  },
  /** What an operator does with workers, and with the pool: of the Jobs table it writes the pool's own record. */
  operate: {
    workersTable: ['dynamodb:GetItem', 'dynamodb:UpdateItem'],
    jobsTable: ['dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:Query'],
    jobsTableIndexes: ['dynamodb:Scan'],
    requestQueue: ['sqs:GetQueueAttributes'],
    reportQueue: ['sqs:GetQueueAttributes'],
    inboxes: ['sqs:GetQueueAttributes'],
    resyncMachine: ['states:StartExecution'],
  },
  /** `loadPoolConfig`. */
  config: { configParameter: ['ssm:GetParameter'] },
  /** Of a function on its source queue, beside what Lambda needs to poll it, and on its dead-letter queue. */
  source: { sourceQueue: ['sqs:ChangeMessageVisibility'], deadLetterQueue: ['sqs:SendMessage'] },
} as const satisfies Readonly<Record<string, Readonly<Partial<Record<Resource, readonly string[]>>>>>;

export type Resource =
  | 'jobsTable'
  | 'jobsTableIndexes'
  | 'workersTable'
  | 'requestQueue'
  | 'reportQueue'
  | 'inboxes'
  | 'sourceQueue'
  | 'deadLetterQueue'
  | 'configParameter'
  | 'resyncMachine'
  /** `*`: the service knows no narrower one. */
  | 'anything';
