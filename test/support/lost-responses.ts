import { nodeRequestHandler, type RequestHandler } from '../../lib/aws/clients.ts';

/** Sends requests as usual, but loses a response when told to: the request was performed, and the client does not know. */
export class ResponseLoser implements RequestHandler {
  readonly #sent = nodeRequestHandler();
  #losing: { readonly action: string; left: number } | undefined;
  /** How many responses were lost. */
  lost = 0;

  /** Loses the response to the next call of this action, such as `PutItem`, or to the one so many calls on. */
  lose(action: string, nth = 1): void {
    this.#losing = { action, left: nth };
  }

  async handle(...[request, options]: Parameters<RequestHandler['handle']>): ReturnType<RequestHandler['handle']> {
    const answer = await this.#sent.handle(request, options);
    if (!this.#losing || !String(request.headers['x-amz-target']).endsWith(`.${this.#losing.action}`)) return answer;
    this.#losing.left -= 1;
    if (this.#losing.left > 0) return answer;
    this.#losing = undefined;
    this.lost += 1;
    // Read to its end, so that the endpoint has done its work and the connection is free.
    for await (const _ of answer.response.body);
    throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
  }
}
