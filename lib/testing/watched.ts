import type { Handler } from '../worker/handler.ts';
import type { Checker, LiveHandler } from './invariants.ts';
import type { Process } from './process.ts';
import type { Tell } from './story.ts';

/** The handler as it is, with the checker knowing at each moment what of it is alive in `process`. */
export function watched(handler: Handler, process: () => Process, checker: Checker, tell: Tell): Handler {
  return {
    async start(job) {
      const live = checker.starting(process(), job.key, job.dispatchId, job.fence);
      tell(process().name, () => `calls the handler: start "${live.key}" for dispatch ${live.dispatchId} under fence ${live.fence}`);
      job.lost.addEventListener('abort', () => {
        live.isLost = true;
        tell(process().name, () => `tells the handler that "${live.key}" is lost`);
      });
      try {
        const running = await handler.start(job);
        checker.up(live);
        live.end = () => running.stop({ reason: 'worker-draining', mayWrite: false, deadline: AbortSignal.abort() });
        return {
          ...(running.done ? { done: watchedEnd(running.done, live, checker) } : {}),
          ...(running.notify ? { notify: (payload, id) => running.notify?.(payload, id) } : {}),
          async stop(stopping) {
            checker.stopping(live, stopping.reason);
            tell(
              process().name,
              () => `calls the handler: stop "${live.key}" (${stopping.reason}${stopping.mayWrite ? '' : ', may not write'})`,
            );
            try {
              await running.stop(stopping);
            } catch (error) {
              checker.stopFailed(live);
              throw error;
            }
            checker.over(live);
          },
        };
      } catch (error) {
        checker.over(live, { failed: true });
        throw error;
      }
    },
  };
}

function watchedEnd(done: PromiseLike<unknown>, live: LiveHandler, checker: Checker): Promise<unknown> {
  const end = Promise.resolve(done).then(
    (result) => {
      checker.over(live, { failed: false });
      return result;
    },
    (error: unknown) => {
      checker.over(live, { failed: true });
      throw error;
    },
  );
  // Its process may have died, and then nobody listens.
  end.catch(() => {});
  return end;
}
