import middy from '@middy/core';
import type { Silence } from '../lib/resync/decide-expiry.ts';
import {
  armRound,
  expireRound,
  loseRevoked,
  openRound,
  type ReassignStep,
  reassignStep,
  type Step,
  type Subject,
} from '../lib/resync/run-round.ts';
import { ports, resyncSettings as settings } from './ports.ts';
import { observed } from './telemetry.ts';

/** What the state machine asks for; `infra/resync-machine.ts` writes it. */
export type ResyncTask =
  | ({ readonly task: 'open'; readonly silence: Silence } & Subject)
  | { readonly task: 'arm'; readonly token: string; readonly taskToken: string }
  /** `waitedSeconds`: by the machine's own timer, which an earlier deploy may have set. */
  | { readonly task: 'expire'; readonly token: string; readonly silence: Silence; readonly waitedSeconds: number }
  | ({ readonly task: 'lose' } & Subject)
  | ({ readonly task: 'reassign'; readonly step: ReassignStep } & Subject);

/** One step of a resync round. */
export const handler = middy((event: ResyncTask): Promise<Step | undefined> => run(event)).use(observed());

async function run(event: ResyncTask): Promise<Step | undefined> {
  switch (event.task) {
    case 'open':
      return openRound(ports, settings, event, event.silence);
    case 'arm':
      await armRound(ports, settings, event.token, event.taskToken);
      return undefined;
    case 'expire':
      return expireRound(ports, { ...settings, roundTimeoutMs: event.waitedSeconds * 1_000 }, event.token, event.silence);
    case 'lose':
      return loseRevoked(ports, event);
    case 'reassign':
      return reassignStep(ports, event, event.step);
    default:
      return event satisfies never;
  }
}
