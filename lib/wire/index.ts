export {
  type AskedJob,
  type Command,
  type ConfirmCommand,
  encodeCommand,
  type NotifyCommand,
  parseCommand,
  type ReleaseCommand,
  type ResyncCommand,
  type StartCommand,
  type StopCommand,
  type StopReason,
} from './command.ts';
export {
  type DispatchEndEvent,
  type DispatchOutcomeEvent,
  eventSource,
  type JobChangeEvent,
  type PoolEvent,
  type WorkerChangeEvent,
} from './event.ts';
export { fingerprintOf } from './fingerprint.ts';
export { assertId, assertKey, groupIdOf } from './key.ts';
export { maxBodyBytes, type Parsed } from './message.ts';
export { decodePayload, encodePayload, jsonPayload, maxPayloadBytes, type WirePayload } from './payload.ts';
export { type Refusal, WireError } from './refusal.ts';
export {
  type ConfirmedReport,
  cutMessage,
  cutResult,
  encodeReport,
  type FactReport,
  type FinishedReport,
  type JobError,
  type KeyBusyReport,
  type LeftReport,
  parseReport,
  type RefusedReport,
  type RegisteredReport,
  type ReleasedReport,
  type Report,
  type ResyncEntry,
  type ResyncReport,
  type RunningJob,
  type StartedReport,
  type StartFailedReport,
  type StopFailedReport,
  type StoppedReport,
  type WorkerRefusal,
} from './report.ts';
export {
  type AssignRequest,
  encodeRequest,
  type IfBusy,
  type MoveRequest,
  type NotifyRequest,
  parseRequest,
  type Request,
  type StartRequest,
  type StopRequest,
} from './request.ts';
