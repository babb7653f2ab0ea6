import { setTimeout as sleep } from 'node:timers/promises';
import middy from '@middy/core';
import type { Context, ScheduledEvent } from 'aws-lambda';
import { sweep } from '../lib/pool/sweep.ts';
import { config, ports } from './ports.ts';
import { observed } from './telemetry.ts';

/** Between two passes: a sixth of a lease, so that several fit into one, but 1 to 5 s. */
const pauseMs = Math.min(Math.max(config.leaseMs / 6, 1_000), 5_000);
/** How long a pass may take; the next minute's run begins anew. */
const marginMs = 5_000;

/** Every minute: passes until the minute is over while there is anything to look after, else one, so that an idle pool costs next to nothing. */
export const handler = middy(async (_event: ScheduledEvent, { getRemainingTimeInMillis }: Context) => {
  for (;;) {
    const { due, active } = await sweep(ports);
    if (due + active === 0 || getRemainingTimeInMillis() < pauseMs + marginMs) return;
    await sleep(pauseMs);
  }
}).use(observed());
