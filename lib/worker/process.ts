/**
 * A process that is a worker: signals, the health port, the exit code. What it cannot promise in good order it ends hard, because the control
 * plane counts on it that nothing lives on in a process that ran out of its lease.
 *
 *     0    left, or nothing of its jobs is left here
 *     1    jobs whose handler would not stop were abandoned at the drain's deadline
 *     70   a job was still live when the lease ended, or the runtime broke one of its own rules
 *     130  a second signal
 */
import type { AddressInfo } from 'node:net';
import type { WorkerEvent } from './events.ts';
import { serveHealth } from './health.ts';
import type { Logger } from './logger.ts';
import type { Runtime } from './runtime.ts';

export const exitCodes = { abandoned: 1, overrun: 70, secondSignal: 130 } as const;

const signals = ['SIGTERM', 'SIGINT'] as const;

export interface OwnedProcess {
  /** Makes the worker, which is to tell its events to the function given. */
  create(onEvent: (event: WorkerEvent) => void): Runtime;
  /** Undefined: no probes are answered. */
  readonly healthPort: number | undefined;
  readonly logger: Logger;
}

/** Resolves once the worker has left with nothing alive; in every other case the process ends here. Rejects where it cannot register. */
export async function ownProcess({ create, healthPort, logger }: OwnedProcess): Promise<void> {
  let abandoned = 0;
  const worker = create((event) => {
    if (event.type === 'overrun') process.exit(exitCodes.overrun);
    if (event.type === 'left') abandoned = event.abandoned;
  });
  const { workerId } = worker;

  let isSignalled = false;
  function onSignal(signal: NodeJS.Signals): void {
    if (isSignalled) {
      logger.warn('a second signal: gone at once, the rest is left to the lease', { workerId, signal });
      process.exit(exitCodes.secondSignal);
    }
    isSignalled = true;
    logger.info('signal', { workerId, signal });
    void worker.drain();
  }
  for (const signal of signals) process.on(signal, onSignal);

  const server = healthPort === undefined ? undefined : await serveHealth(healthPort, () => worker.health);
  if (server) logger.info('health', { workerId, port: (server.address() as AddressInfo).port });
  try {
    // A signal may end it while it still tries to register.
    await Promise.race([worker.start(), worker.closed]);
    await worker.closed;
  } finally {
    server?.close();
    server?.closeAllConnections();
    for (const signal of signals) process.off(signal, onSignal);
  }
  if (!worker.health.live) process.exit(exitCodes.overrun);
  if (abandoned > 0) process.exit(exitCodes.abandoned);
}
