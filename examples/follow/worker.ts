import { runWorker } from 'holdfast/worker';
import { follower } from './follower.ts';
import { Sink } from './sink.ts';

using sink = new Sink(process.env.FOLLOW_SINK ?? 'follow.db');
await runWorker({ handler: follower(sink) });
