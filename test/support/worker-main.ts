/** A container's main file, with the worker's events sent to its parent. `stop hangs`: its jobs cannot be stopped. */
import { defineHandler, runWorker } from 'holdfast/worker';

const faults = new Set(process.argv.slice(2));

await runWorker({
  handler: defineHandler({
    start: () => ({ stop: () => (faults.has('stop hangs') ? new Promise<void>(() => {}) : undefined) }),
  }),
  capacity: 10_000,
  onEvent: (event) => void process.send?.(event),
});
process.disconnect?.();
