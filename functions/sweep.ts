import { setTimeout as sleep } from 'node:timers/promises';
import middy from '@middy/core';
import type { Context, ScheduledEvent } from 'aws-lambda';
import { passIntervalMs, Sweep } from '../lib/resync/sweep.ts';
import { config, freshPorts, resyncSettings } from './ports.ts';
import { observed } from './telemetry.ts';

/** How long a pass may take; the next minute's run begins anew. */
const marginMs = 5_000;
const pauseMs = passIntervalMs(config.leaseMs);

/** Every minute: passes until the minute is over while there is anything to look after, else one, so that an idle pool costs next to nothing. */
export const handler = middy(async (_event: ScheduledEvent, { getRemainingTimeInMillis }: Context) => {
  const sweep = new Sweep(freshPorts, resyncSettings);
  for (;;) {
    const { isIdle } = await sweep.pass();
    if (isIdle || getRemainingTimeInMillis() < pauseMs + marginMs) return;
    await sleep(pauseMs);
  }
}).use(observed());
