import { PoolError } from '../pool/errors.ts';
import type { Process } from './process.ts';
import type { Scheduler } from './scheduler.ts';

/**
 * Every call of a port, on its way over the network. Each one is parked on the scheduler, where its fate is decided: how
 * long it takes, whether it takes effect, whether its answer arrives.
 *
 * The effect of a call happens in one step, whole, while everybody else stands still, as a request to DynamoDB or SQS
 * does; what may come in between is anything at all between two calls. That one step is also where the caller hears of it, unless
 * it is frozen or dead by then.
 */
export interface Call {
  readonly by: Process;
  readonly service: string;
  readonly method: string;
  readonly args: readonly unknown[];
}

export type CallFault =
  /** Did not take effect. */
  | 'failed'
  | 'throttled'
  /** Took effect, but the caller hears of a failure. */
  | 'answer-lost'
  /** A conditional write loses though nobody else wrote. */
  | 'conflict'
  /** The caller dies with the call on its way: before it takes effect, or after. */
  | 'died-before'
  | 'died-after';

export interface Fate {
  readonly delayMs: number;
  readonly fault?: CallFault | undefined;
}

/** Decides what happens to calls. */
export interface Network {
  fate(call: Call): Fate;
  /** A call that is cut off from its service; asked when it arrives there. */
  isCutOff?(call: Call): boolean;
  /** Hears of every call with what came of it; `sentAt` is true time. */
  heard?(call: Call, sentAt: number, result: CallResult): void;
}

export type CallResult = { readonly value: unknown } | { readonly error: unknown; readonly fault?: CallFault | 'cut-off' | undefined };

/** Why a caller that is cut off hears of it only after so long. */
const CONNECT_TIMEOUT_MS = 1_000;

export class Calls {
  readonly #scheduler: Scheduler;
  readonly #network: Network;
  readonly #lostRace: (call: Call) => unknown;

  /** `lostRace`: what a conditional write answers that loses though nobody else wrote. */
  constructor(scheduler: Scheduler, network: Network, lostRace: (call: Call) => unknown) {
    this.#scheduler = scheduler;
    this.#network = network;
    this.#lostRace = lostRace;
  }

  /** The same port, as `by` reaches it over the network. */
  port<T extends object>(port: T, service: string, by: Process): T {
    const methods = new Map<PropertyKey, unknown>();
    return new Proxy(port, {
      get: (target, method) => {
        let call = methods.get(method);
        if (!call) {
          const effect = Reflect.get(target, method) as (...args: unknown[]) => Promise<unknown>;
          call = (...args: unknown[]) => this.call({ by, service, method: String(method), args }, () => effect.apply(target, args));
          methods.set(method, call);
        }
        return call;
      },
    });
  }

  call<T>(call: Call, effect: () => Promise<T>): Promise<T> {
    const { by } = call;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const sentAt = this.#scheduler.now();
    const { delayMs, fault } = this.#network.fate(call);

    const answer = (value: T) => {
      this.#network.heard?.(call, sentAt, { value });
      by.deliver(() => resolve(value));
    };
    const fail = (error: unknown, why?: CallFault | 'cut-off') => {
      this.#network.heard?.(call, sentAt, { error, fault: why });
      by.deliver(() => reject(error));
    };
    const arrive = () => {
      // A request that was on its way when its sender died arrives or not, as the lot fell.
      if (by.state === 'dead' && delayMs % 2 === 0) return;
      if (this.#network.isCutOff?.(call)) {
        this.#scheduler.after(CONNECT_TIMEOUT_MS, () =>
          fail(new PoolError('unavailable', `${call.service} is out of reach`, { retryable: true }), 'cut-off'),
        );
        return;
      }
      switch (fault) {
        case undefined:
          effect().then(answer, fail);
          return;
        case 'failed':
          fail(new PoolError('unavailable', `${call.service}.${call.method} failed`, { retryable: true }), fault);
          return;
        case 'throttled':
          fail(new PoolError('throttled', `${call.service}.${call.method} was throttled`, { retryable: true }), fault);
          return;
        case 'answer-lost': {
          const lost = () => fail(new PoolError('unavailable', `${call.service}.${call.method}: no answer`, { retryable: true }), fault);
          effect().then(lost, lost);
          return;
        }
        case 'conflict':
          answer(this.#lostRace(call) as T);
          return;
        case 'died-before':
          by.kill();
          this.#network.heard?.(call, sentAt, { error: undefined, fault });
          return;
        case 'died-after':
          effect().then(
            () => {},
            () => {},
          );
          by.kill();
          this.#network.heard?.(call, sentAt, { error: undefined, fault });
          return;
        default:
          fault satisfies never;
      }
    };
    this.#scheduler.after(delayMs, arrive);
    return promise;
  }
}
