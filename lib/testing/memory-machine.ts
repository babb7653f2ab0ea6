import type { Silence } from '../resync/decide-expiry.ts';
import type { ExecutionInput, ResyncPorts, RoundMachine, RoundResult } from '../resync/ports.ts';
import { armRound, expireRound, loseRevoked, openRound, type ResyncSettings, reassignStep, type Step } from '../resync/run-round.ts';
import { FUNCTION_TIMEOUT_MS } from './memory-services.ts';
import { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

export interface MemoryMachineOptions {
  readonly scheduler: Scheduler;
  readonly settings: ResyncSettings;
  /** What one step has of the world. */
  readonly ports: (process: Process) => ResyncPorts;
  readonly fate?: ExecutionFate | undefined;
}

/** How late its next timer fires, ms, and whether the execution dies between two steps. */
export type ExecutionFate = () => { readonly lateMs: number; readonly dies: boolean };

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
    let step: Step = { next: 'open', silence: { rounds: 0 } };
    while (step.next !== 'done') {
      step = await this.#enter(step, input);
      if (this.#options.fate?.().dies) return;
    }
  }

  async #enter(step: Exclude<Step, { next: 'done' }>, input: ExecutionInput): Promise<Step> {
    const { settings } = this.#options;
    switch (step.next) {
      case 'open':
        return this.#invoke('resync-open', (ports) => openRound(ports, settings, input, step.silence));
      case 'arm':
        return this.#arm(step.token, step.silence);
      case 'behind':
        await this.#wait(settings.roundTimeoutMs);
        return this.#expire(step.token, step.silence);
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

  async #arm(token: string, silence: Silence): Promise<Step> {
    const { settings } = this.#options;
    const taskToken = `task-${token}-${++this.#steps}`;
    const woken = new Promise<RoundResult>((resolve) => this.#waiting.set(taskToken, resolve));
    const timedOut = this.#wait(settings.roundTimeoutMs).then(() => 'timed-out' as const);
    const asked = this.#invoke('resync-arm', (ports) => armRound(ports, settings, token, taskToken)).then(
      () => new Promise<never>(() => {}),
    );
    const result = await Promise.race([woken, timedOut, asked]);
    this.#waiting.delete(taskToken);
    if (result === 'timed-out') return this.#expire(token, silence);
    return result === 'gone' ? { next: 'open', silence } : { next: 'done' };
  }

  #expire(token: string, silence: Silence): Promise<Step> {
    return this.#invoke('resync-expire', (ports) => expireRound(ports, this.#options.settings, token, silence));
  }

  #wait(ms: number): Promise<void> {
    const { scheduler, fate } = this.#options;
    return new Promise((resolve) => scheduler.after(ms + (fate?.().lateMs ?? 0), resolve));
  }

  /** One Lambda function; it may die, and is tried again. */
  async #invoke<T>(name: string, run: (ports: ResyncPorts) => Promise<T>): Promise<T> {
    const { scheduler, ports } = this.#options;
    for (let tries = 1; ; tries++) {
      const process = new Process(scheduler, { name: `${name}-${++this.#steps}`, kind: 'function' });
      try {
        return await new Promise<T>((resolve, reject) => {
          process.onDeath(() => reject(new Error(`${process.name} died`)));
          scheduler.after(FUNCTION_TIMEOUT_MS, () => process.kill());
          run(ports(process)).then(resolve, reject);
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
