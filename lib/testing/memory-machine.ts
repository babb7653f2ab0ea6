import type { Silence } from '../resync/decide-expiry.ts';
import type { ExecutionInput, ResyncPorts, RoundMachine, RoundResult } from '../resync/ports.ts';
import { armRound, expireRound, loseRevoked, openRound, type ResyncSettings, reassignStep, type Step } from '../resync/run-round.ts';
import { FUNCTION_TIMEOUT_MS } from './memory-services.ts';
import { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

export interface MemoryMachineOptions {
  readonly scheduler: Scheduler;
  /** As deployed; looked at anew by each function and each execution. */
  readonly settings: ResyncSettings;
  /** What one step has of the world. */
  readonly ports: (process: Process) => ResyncPorts;
  readonly fate?: ExecutionFate | undefined;
}

/** Asked at each timer how late it fires, ms; at the end of each function whether it runs again; and after each step whether the execution dies. */
export type ExecutionFate = (at: 'timer' | 'function' | 'step') => {
  readonly lateMs: number;
  readonly dies: boolean;
  readonly runsTwice?: boolean;
};

/** A step that fails is tried again after so long, this often; then the execution has failed. */
const RETRY_MS = 2_000;
const TRIES = 4;

/**
 * The resync state machine, as `infra/` describes it to Step Functions: the same steps in the same order, each a function of its own, timers
 * on the scheduler. A name is taken for ever; a task token works once.
 */
export class MemoryMachine implements RoundMachine {
  readonly #options: MemoryMachineOptions;
  readonly #names = new Set<string>();
  readonly #waiting = new Map<string, (result: RoundResult) => void>();
  #steps = 0;
  #running = 0;

  constructor(options: MemoryMachineOptions) {
    this.#options = options;
  }

  /** Executions that have not come to an end. */
  get running(): number {
    return this.#running;
  }

  async start(name: string, input: ExecutionInput): Promise<void> {
    if (this.#names.has(name)) return;
    this.#names.add(name);
    this.#running += 1;
    const over = () => {
      this.#running -= 1;
    };
    this.#execute(input).then(over, over);
  }

  async wake(taskToken: string, result: RoundResult): Promise<void> {
    this.#waiting.get(taskToken)?.(result);
  }

  async #execute(input: ExecutionInput): Promise<void> {
    // An execution's own timeout is that of the machine as it was when it began; its functions are those of the last deploy.
    const { roundTimeoutMs } = this.#options.settings;
    let step: Step = { next: 'open', silence: { rounds: 0 } };
    while (step.next !== 'done') {
      step = await this.#enter(step, input, roundTimeoutMs);
      if (this.#options.fate?.('step').dies) return;
    }
  }

  async #enter(step: Exclude<Step, { next: 'done' }>, input: ExecutionInput, timeoutMs: number): Promise<Step> {
    switch (step.next) {
      case 'open':
        return this.#invoke('resync-open', (ports, settings) => openRound(ports, settings, input, step.silence));
      case 'arm':
        return this.#arm(step.token, step.silence, timeoutMs);
      case 'behind':
        await this.#wait(timeoutMs);
        return this.#expire(step.token, step.silence, timeoutMs);
      case 'wait':
        await this.#wait(step.waitSeconds * 1_000);
        return this.#invoke('resync-lost', (ports) => loseRevoked(ports, input));
      case 'reassign':
        await this.#wait(step.afterSeconds * 1_000);
        return this.#invoke('resync-reassign', (ports) => reassignStep(ports, input, step));
      default:
        return step satisfies never;
    }
  }

  async #arm(token: string, silence: Silence, timeoutMs: number): Promise<Step> {
    const taskToken = `task-${token}-${++this.#steps}`;
    const woken = new Promise<RoundResult>((resolve) => this.#waiting.set(taskToken, resolve));
    const timedOut = this.#wait(timeoutMs).then(() => 'timed-out' as const);
    const asked = this.#invoke('resync-arm', (ports, settings) => armRound(ports, settings, token, taskToken)).then(
      () => new Promise<never>(() => {}),
      () => 'failed' as const,
    );
    const result = await Promise.race([woken, timedOut, asked]);
    this.#waiting.delete(taskToken);
    if (result === 'failed') return { next: 'behind', token, silence };
    if (result === 'timed-out') return this.#expire(token, silence, timeoutMs);
    return result === 'gone' ? { next: 'open', silence } : { next: 'done' };
  }

  #expire(token: string, silence: Silence, waitedMs: number): Promise<Step> {
    return this.#invoke('resync-expire', (ports, settings) =>
      expireRound(ports, { ...settings, roundTimeoutMs: waitedMs }, token, silence),
    );
  }

  #wait(ms: number): Promise<void> {
    const { scheduler, fate } = this.#options;
    return new Promise((resolve) => scheduler.after(ms + (fate?.('timer').lateMs ?? 0), resolve));
  }

  /** One Lambda function, tried again where it failed, or where nobody heard that it did not. */
  async #invoke<T>(name: string, run: (ports: ResyncPorts, settings: ResyncSettings) => Promise<T>): Promise<T> {
    const done = await this.#untilItSucceeds(name, run);
    return this.#options.fate?.('function').runsTwice ? this.#untilItSucceeds(name, run) : done;
  }

  async #untilItSucceeds<T>(name: string, run: (ports: ResyncPorts, settings: ResyncSettings) => Promise<T>): Promise<T> {
    const { scheduler, ports, settings } = this.#options;
    for (let tries = 1; ; tries++) {
      const process = new Process(scheduler, { name: `${name}-${++this.#steps}`, kind: 'function' });
      try {
        return await new Promise<T>((resolve, reject) => {
          process.onDeath(() => reject(new Error(`${process.name} died`)));
          scheduler.after(FUNCTION_TIMEOUT_MS, () => process.kill());
          run(ports(process), { ...settings }).then(resolve, reject);
        });
      } catch (error) {
        if (tries >= TRIES) throw error;
        await this.#wait(RETRY_MS * tries);
      } finally {
        process.kill();
      }
    }
  }
}
