/**
 * Loaded before a worker's main file: hands the worker's events to the demo, so that the example needs no line for it. The channel does not
 * keep the worker alive, and when the demo is gone the worker leaves as if it had been told to.
 */
import { subscribe } from 'node:diagnostics_channel';

subscribe('holdfast:worker', (event) => {
  if (process.connected) process.send?.(event);
});
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.channel?.unref();
