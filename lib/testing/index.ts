export type { FakeTimers } from './driver.ts';
export { type RecordingHandler, recordingHandler } from './recording-handler.ts';
export {
  createTestPool,
  type MessageMatch,
  type TestPool,
  type TestPoolOptions,
  type TestWorker,
  type TestWorkerOptions,
} from './test-pool.ts';
