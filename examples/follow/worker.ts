import { runWorker } from 'holdfast/worker';
import { follower } from './follower.ts';
import { Sink } from './sink.ts';

// A worker's id is fresh for each process unless a supervisor, such as a StatefulSet, sees to it that an id has one process at a time.
const { FOLLOW_SINK = 'follow.db', FOLLOW_WORKER_ID: workerId } = process.env;
using sink = new Sink(FOLLOW_SINK, workerId);
await runWorker({ handler: follower(sink), workerId });
