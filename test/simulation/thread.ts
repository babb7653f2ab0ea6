import { parentPort, workerData } from 'node:worker_threads';
import { type Edit, transformOnLoad } from './transform.ts';
import type { WorldOptions } from './world.ts';

/** One of several threads (threads.ts). The product is loaded only here and now, so that it can be loaded otherwise than it is written. */
export interface ThreadData {
  readonly edits: readonly Edit[];
}

transformOnLoad((workerData as ThreadData).edits);
const { World } = await import('./world.ts');

parentPort?.on('message', async (options: WorldOptions) => {
  parentPort?.postMessage(await new World(options).run());
});
