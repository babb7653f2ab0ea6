import { readFile } from 'node:fs/promises';
import { connect } from 'holdfast/client';
import { parseRequest } from 'holdfast/wire';
import { serve } from './peer.ts';

const connected = connect();

const methods = {
  /** Sends the requests of an NDJSON file through the client, and answers how many the queue has. What is no request is not for a client to send. */
  async send(file: string): Promise<number> {
    const pool = await connected;
    const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
    const requests = lines.map(parseRequest).flatMap((parsed) => (parsed.ok ? [parsed.value] : []));
    let sent = 0;
    for await (const each of pool.startMany(requests.filter((request) => request.op === 'start'))) {
      if (!each.sent) throw each.error;
      sent += 1;
    }
    const stops = requests.filter((request) => request.op === 'stop');
    await Promise.all(stops.map(({ key, dispatchId }) => pool.stop(key, { dispatchId })));
    return sent + stops.length;
  },
  /** Stops whatever is admitted at these keys. */
  async stop(keys: readonly string[]): Promise<void> {
    const pool = await connected;
    await Promise.all(keys.map((key) => pool.stop(key)));
  },
};
export type Producer = typeof methods;
serve(methods);
