import { createLogUpdate } from 'log-update';

const plainEveryMs = 5_000;

/** What the demo says while it runs, on standard error: a line per step, and below them on a terminal one that changes. */
export class Progress implements Disposable {
  readonly #startedAt = performance.now();
  readonly #stream: NodeJS.WriteStream;
  readonly #update: ReturnType<typeof createLogUpdate> | undefined;
  readonly #timer: NodeJS.Timeout;
  #live: () => string = () => '';

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    this.#update = stream.isTTY ? createLogUpdate(stream) : undefined;
    this.#timer = setInterval(() => this.#show(), this.#update ? 250 : plainEveryMs);
  }

  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1_000;
  }

  say(line: string): void {
    this.#update?.clear();
    this.#stream.write(`${this.seconds.toFixed(1).padStart(6)} s  ${line}\n`);
    this.#show(this.#update);
  }

  /** `line` is asked for what there is to see now, until it is disposed of. */
  watch(line: () => string): Disposable {
    this.#live = line;
    return {
      [Symbol.dispose]: () => {
        this.#update?.clear();
        this.#live = () => '';
      },
    };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#update?.clear();
    this.#update?.done();
  }

  #show(update: ((text: string) => void) | undefined = this.#update ?? ((text) => this.#stream.write(`${text}\n`))): void {
    const line = this.#live();
    if (line !== '') update?.(`${''.padStart(10)}${line}`);
  }
}
