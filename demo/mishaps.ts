/** What may happen to a worker: each is done to a real process, and answers what comes of it once its jobs run elsewhere. */
import type { Sink } from '../examples/follow/sink.ts';
import type { Mishap } from './scenario.ts';
import { overrun, type WorkerProcess, type Workers } from './workers.ts';

interface Scene {
  readonly victim: WorkerProcess;
  readonly workers: Workers;
  readonly sink: Sink;
}

const nothing = async () => undefined;

export const happen = {
  /** SIGKILL, and at once another process under its id. */
  async restarted({ victim, workers, sink }) {
    await kill({ victim, workers, sink });
    await workers.restart(victim);
    return nothing;
  },
  /** SIGKILL, and another worker in its place. */
  async killed({ victim, workers, sink }) {
    await kill({ victim, workers, sink });
    await workers.add();
    return nothing;
  },
  /** SIGSTOP; later SIGCONT, and it finds that its lease is over. */
  async frozen({ victim, workers, sink }) {
    sink.silence(victim.workerId, () => victim.freeze());
    await workers.add();
    return async () => {
      const code = await victim.thaw();
      if (code !== overrun) throw victim.failure(`went on after its lease and ended with exit code ${code}, and not with ${overrun}`);
      workers.bury(victim);
    };
  },
  /** Its network fails; later it is back. */
  async 'cut-off'({ victim }) {
    victim.relay?.cut();
    return async () => victim.relay?.mend();
  },
} as const satisfies Readonly<Record<Mishap, (scene: Scene) => Promise<() => Promise<void>>>>;

/** What is said of the victim. */
export const inWords: Readonly<Record<Mishap, string>> = {
  restarted: 'is killed and started again under its id',
  killed: 'is killed',
  frozen: 'is frozen, and goes on after its lease',
  'cut-off': 'is cut off from its endpoint, and back after its lease',
};

async function kill({ victim, workers, sink }: Scene): Promise<void> {
  await victim.kill();
  workers.bury(victim);
  sink.silence(victim.workerId);
}
