import { Child, type ChildOptions } from './child.ts';

/** What a child process can be asked; `Peer` is the other end. */
export type Methods = { readonly [name: string]: (argument: never) => Promise<unknown> };

type Question = { readonly id: number; readonly method: string; readonly argument: unknown };
type Answer = { readonly id: number; readonly result?: unknown; readonly error?: string };

/** In the child: answers until the parent lets go. */
export function serve(methods: Methods): void {
  process.on('message', async ({ id, method, argument }: Question) => {
    const call = async () => methods[method]?.(argument as never);
    const answer = await call().then(
      (result): Answer => ({ id, result }),
      (error: unknown): Answer => ({ id, error: String(error) }),
    );
    process.send?.(answer);
  });
  process.on('disconnect', () => process.exit());
}

/** A child process that answers. Its rights are those of its environment, which is why it is a process. */
export class Peer<M extends Methods> extends Child {
  #asked = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();

  constructor(options: ChildOptions) {
    super(options);
    this.process.on('message', ({ id, result, error }: Answer) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(new Error(`${this.name}: ${error}`));
    });
    void this.ended.then((code) => {
      for (const { reject } of this.#waiting.values()) reject(this.failure(`ended (exit code ${code}) before it answered`));
    });
  }

  call<K extends keyof M & string>(method: K, argument: Parameters<M[K]>[0]): ReturnType<M[K]> {
    this.#asked += 1;
    const waiting = Promise.withResolvers<unknown>();
    // Whoever asked may have given up by the time that the answer, or the end, comes.
    waiting.promise.catch(() => undefined);
    this.#waiting.set(this.#asked, waiting);
    const question: Question = { id: this.#asked, method, argument };
    this.process.send(question, (error) => error && waiting.reject(error));
    return waiting.promise as ReturnType<M[K]>;
  }
}
