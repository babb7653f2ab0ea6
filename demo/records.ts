import { isDeepStrictEqual } from 'node:util';
import { type AttributeValue, DeleteItemCommand, DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { headKey, payloadKey } from '../lib/aws/dispatch-item.ts';
import { toItem } from '../lib/aws/item.ts';
import { jobKey } from '../lib/aws/job-item.ts';
import { clientConfig } from '../stack/environment.ts';
import type { LocalStack } from '../stack/local-stack.ts';
import type { Deletion, RecordName } from './scenario.ts';

type Item = Readonly<Record<string, AttributeValue>>;

/** A deletion, and what the records said. */
export interface Deleted extends Deletion {
  readonly items: Readonly<Partial<Record<RecordName, Item>>>;
}

/** The records in the table, in the hands of somebody who has the account: no grant of the pool lets anybody delete one. */
export class Records implements Disposable {
  readonly #client: DynamoDBClient;
  readonly #table: string;

  constructor({ environments, poolConfig }: LocalStack) {
    this.#client = new DynamoDBClient(clientConfig(environments.root));
    this.#table = poolConfig.jobsTable;
  }

  /** Throws where one of them is not there. */
  async delete(deletion: Deletion): Promise<Deleted> {
    const items = deletion.records.map(async (record) => {
      const wanted = { TableName: this.#table, Key: keyOf(record, deletion), ReturnValues: 'ALL_OLD' } as const;
      const { Attributes: item } = await this.#client.send(new DeleteItemCommand(wanted));
      if (!item) throw new Error(`there is no ${record} record of ${JSON.stringify(deletion.key)} to delete`);
      return [record, item] as const;
    });
    return { ...deletion, items: Object.fromEntries(await Promise.all(items)) };
  }

  async areThere(deleted: Deleted): Promise<boolean> {
    const now = await this.#read(deleted);
    return deleted.records.every((record) => now[record]);
  }

  /** Whether all of them say again what they said: whose job it is, under which fence and since when, and what it was asked for with. */
  async areAsBefore(deleted: Deleted): Promise<boolean> {
    const now = await this.#read(deleted);
    return deleted.records.every((record) => isDeepStrictEqual(told(deleted, now[record]), told(deleted, deleted.items[record])));
  }

  async #read(deletion: Deletion): Promise<Deleted['items']> {
    const items = deletion.records.map(async (record) => {
      const wanted = { TableName: this.#table, Key: keyOf(record, deletion), ConsistentRead: true };
      return [record, (await this.#client.send(new GetItemCommand(wanted))).Item] as const;
    });
    return Object.fromEntries(await Promise.all(items));
  }

  [Symbol.dispose](): void {
    this.#client.destroy();
  }
}

function keyOf(record: RecordName, { key, dispatchId, fingerprint }: Deletion): Item & Record<string, AttributeValue> {
  switch (record) {
    case 'job':
      return toItem(jobKey(key));
    case 'dispatch':
      return toItem(headKey(dispatchId));
    case 'payload':
      return toItem(payloadKey({ dispatchId, fingerprint }));
    default:
      return record satisfies never;
  }
}

/** What a record says, of whichever kind it is. */
function told({ records }: Deletion, item: Item = {}): readonly (AttributeValue | undefined)[] {
  const [isJob, isDispatch] = [records.includes('job'), records.includes('dispatch')];
  const facts = ['key', 'dispatchId', 'fingerprint', 'owner', 'session', 'fence', 'attempt', 'startedAt', 'outcome'];
  // When it was asked for nobody knows any more once both are gone.
  if (!isJob || !isDispatch) facts.push('admittedAt', 'requestedAt');
  // The end that brought its dispatch record back had no more use for it.
  if (isJob) facts.push('payload');
  return facts.map((name) => item[name]);
}
