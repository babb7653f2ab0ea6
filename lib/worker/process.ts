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
import { guarded, type Logger } from './logger.ts';
import type { Runtime } from './runtime.ts';

const exitCodes = { abandoned: 1, overrun: 70, secondSignal: 130 } as const;

const signals = ['SIGTERM', 'SIGINT'] as const;

export interface OwnedProcess {
  /** Makes the worker, which is to tell its events to the function given. */
  create(onEvent: (event: WorkerEvent) => void): Runtime | Promise<Runtime>;
  /** Undefined: no probes are answered. */
  readonly healthPort: number | undefined;
  readonly logger: Logger;
}

/** Resolves once the worker has left with nothing alive; in every other case the process ends here. Rejects where it cannot register. */
export async function ownProcess({ create, healthPort, logger: given }: OwnedProcess): Promise<void> {
  const logger = guarded(given);
  let worker: Runtime | undefined;
  let abandoned = 0;
  let isSignalled = false;
  function onSignal(signal: NodeJS.Signals): void {
    logger.info(signal, { workerId: worker?.workerId });
    if (isSignalled) process.exit(exitCodes.secondSignal);
    isSignalled = true;
    if (!worker) process.exit();
    void worker.drain();
  }
  // Before anything else: as process 1 of a container, one that is not listened for is ignored.
  for (const signal of signals) process.on(signal, onSignal);
  try {
    worker = await create((event) => {
      if (event.type === 'overrun') process.exit(exitCodes.overrun);
      if (event.type === 'left') abandoned = event.abandoned;
    });
    await live(worker, healthPort, logger);
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
  if (!worker.health.live) process.exit(exitCodes.overrun);
  if (abandoned > 0) process.exit(exitCodes.abandoned);
}

async function live(worker: Runtime, healthPort: number | undefined, logger: Logger): Promise<void> {
  const server = healthPort === undefined ? undefined : await serveHealth(healthPort, () => worker.health);
  if (server) logger.info('health', { workerId: worker.workerId, port: (server.address() as AddressInfo).port });
  try {
    // A signal may end it while it still tries to register.
    await Promise.race([worker.start(), worker.closed]);
    await worker.closed;
  } finally {
    server?.close();
    server?.closeAllConnections();
  }
}
