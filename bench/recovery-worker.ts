/** The smallest worker there is: a job runs until it is stopped. */
import { defineHandler, runWorker } from 'holdfast/worker';

await runWorker({ handler: defineHandler({ start: () => ({ stop() {} }) }) });
