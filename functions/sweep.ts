import { setTimeout as sleep } from 'node:timers/promises';
import middy from '@middy/core';
import type { ScheduledEvent } from 'aws-lambda';
import { passIntervalMs, Sweep } from '../lib/resync/sweep.ts';
import { config, freshPorts, resyncSettings } from './ports.ts';
import { observed } from './telemetry.ts';

/** Until the next run begins. What the last pass takes beyond it, the function's timeout allows; two runs at once do no harm. */
const runMs = 60_000;
const pauseMs = passIntervalMs(config.leaseMs);

const sweep = new Sweep(freshPorts, resyncSettings);

/** Every minute: passes until the next run while there is anything to look after, else one, so that an idle pool costs next to nothing. */
export const handler = middy(async (_event: ScheduledEvent) => {
  const endsAt = performance.now() + runMs;
  sweep.begin();
  for (let passAt = performance.now(); ; ) {
    const { isIdle } = await sweep.pass();
    passAt = Math.max(passAt + pauseMs, performance.now());
    if (isIdle || passAt >= endsAt) return;
    await sleep(passAt - performance.now());
  }
}).use(observed());
