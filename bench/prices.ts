/** List prices, us-east-1, US dollars, without free tiers. Lambda on arm64. */
export const prices = {
  fifoRequest: 0.5e-6,
  standardRequest: 0.4e-6,
  writeUnit: 0.625e-6,
  readUnit: 0.125e-6,
  invocation: 0.2e-6,
  gigabyteSecond: 13.3334e-6,
  loggedByte: 0.5 / 1e9,
} as const;

/** What cannot be counted here. */
export const assumptions = {
  functionMemoryMb: 256,
  /** A warm invocation with one message. */
  invocationMs: 100,
  /** For each further message of its batch; they are handled side by side. */
  furtherMessageMs: 10,
  /** What the logger adds to the facts of a line: time, function, request id. */
  bytesAroundLine: 420,
  /** START, END and REPORT. */
  bytesAroundInvocation: 300,
} as const;
