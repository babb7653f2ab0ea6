import { parentPort, workerData } from 'node:worker_threads';
import { PROBES, Probe } from './probes.ts';
import type { Task } from './simulate.ts';
import { type Edit, transformOnLoad } from './transform.ts';
import type { WorldResult } from './world.ts';

/** One of several threads (threads.ts). The product is loaded only here and now, so that it can be loaded otherwise than it is written. */
export interface ThreadData {
  readonly edits: readonly Edit[];
  /** Whether to note what is decided. */
  readonly probes: boolean;
}

/** With what was decided, by name (met.ts); empty without probes. */
export type ThreadResult = WorldResult & { readonly met: ReadonlyMap<string, number> };

const { edits, probes } = workerData as ThreadData;
const probe = new Probe();
Object.assign(globalThis, { simulation: probe });
transformOnLoad([...edits, ...(probes ? PROBES : [])]);
const { inThisThread } = await import('./simulate.ts');
probe.namesOf = (await import('./met.ts')).MET;

parentPort?.on('message', async (task: Task) => {
  const result = await inThisThread(task);
  parentPort?.postMessage({ ...result, met: probe.taken() } satisfies ThreadResult);
});
