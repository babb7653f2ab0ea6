import type { FactReport, NotifyRequest, RunningJob, StartRequest, StopRequest } from '../../lib/wire/index.ts';
import { bytes, type DispatchName, FENCE, fingerprint, KEY, OWNER, PAYLOAD } from '../../protocol/cast.ts';
import type { Answer, Scenario, Step } from '../support/scenario.ts';

const start = (of: DispatchName, more: Partial<StartRequest> = {}): StartRequest => ({
  ...{ op: 'start', key: KEY, payload: PAYLOAD[of], dispatchId: of, ifBusy: 'reject' },
  ...more,
});
const stop = (dispatchId?: DispatchName): StopRequest => ({ op: 'stop', key: KEY, ...(dispatchId ? { dispatchId } : {}) });
const notify: NotifyRequest = { op: 'notify', key: KEY, id: 'n1', payload: bytes('hello') };
const assign = { op: 'assign', key: KEY } as const;
const move = { op: 'move', key: KEY, fence: FENCE } as const;

/** What the owner of the given job reports of it; `more` takes the place of what it says by default. */
const report = (type: FactReport['type'], more: object = {}): FactReport =>
  ({ type, key: KEY, dispatchId: 'd1', fingerprint: fingerprint('d1'), fence: FENCE, ...OWNER, at: 400, ...more }) as FactReport;
/** What a worker reports about what it was sent in the run. */
const answer = (type: FactReport['type'], of: DispatchName, more: object = {}): Answer => ({ answer: type, of, more });

const ran = { startedAt: 160 };
const failed = { error: { code: 'boom', message: 'it broke', retryable: false } };
const failedForNow = { error: { code: 'boom', message: 'it broke', retryable: true } };
const holder: RunningJob = { dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 50, startedAt: 40 };
const keyBusy = { reason: 'key-busy', running: holder };
const anotherOne = { dispatchId: 'd2', fingerprint: fingerprint('d2'), fence: 50 };

/** The same at several columns: what each leaves. */
function at(
  name: string,
  steps: readonly Step[],
  leaves: { readonly [column: string]: string },
  more: Partial<Scenario> = {},
): readonly Scenario[] {
  return Object.entries(leaves).map(([job, left]) => ({ name: `${name}, ${job}`, job, steps, leaves: left, ...more }));
}

/** To add one: what stands at the key, what comes, and what is left behind. */
export const scenarios: readonly Scenario[] = [
  // Starts.
  { name: 'a start', steps: [start('d1')], leaves: 'd1 assigned | d1 admitted | s2 start d1' },
  {
    name: 'a start while no worker has room',
    workers: { w1: 'full', w2: 'full' },
    steps: [start('d1')],
    leaves: 'd1 pending (admitted) | d1 admitted | nothing sent',
  },
  {
    name: 'a start whose first delivery died before its commit',
    dispatches: { d1: 'admitted' },
    steps: [start('d1')],
    leaves: 'd1 assigned | d1 admitted | s2 start d1',
  },
  {
    name: 'a start whose owner was lost unseen',
    workers: { w1: 'full', w2: 'unlisted' },
    steps: [start('d1')],
    leaves: 'd1 pending (owner-lost) | d1 admitted | nothing sent',
  },
  { name: 'a start that is too late', steps: [start('d1', { expiresAt: 500 })], leaves: 'no record | d1 refused: expired | nothing sent' },
  { name: 'a start in a closed pool', pool: 'closed', steps: [start('d1')], leaves: 'no record | d1 refused: pool-closed | nothing sent' },
  {
    name: 'a start in a pool that recovers',
    pool: 'recovering',
    steps: [start('d1')],
    leaves: 'd1 pending (admitted) | d1 admitted | nothing sent',
  },
  {
    name: 'a start after an end that is not settled yet',
    job: 'ended',
    dispatches: { d1: 'started' },
    steps: [start('d2')],
    leaves: 'd2 assigned | d1 succeeded, d2 admitted | s2 start d2',
  },
  ...at('a start while somebody waits for its turn', [start('d2')], {
    'ended, next': 'd3 assigned | d1 succeeded, d2 refused: key-busy, d3 admitted | s2 start d3',
  }),
  ...at('a start, to wait, while somebody waits for its turn', [start('d2', { ifBusy: 'next' })], {
    'ended, next': 'd3 assigned, next d2 | d1 succeeded, d2 admitted, d3 admitted | s2 start d3',
  }),
  ...at('a start, replacing, while somebody waits for its turn', [start('d2', { ifBusy: 'replace' })], {
    'ended, next': 'd3 stopping (replaced), next d2 | d1 succeeded, d2 admitted, d3 admitted | s2 start d3, s2 stop d3',
  }),
  ...at(
    'a start while somebody waits whose owner will be lost unseen',
    [start('d2', { ifBusy: 'next' })],
    { 'ended, next': 'd3 pending (owner-lost), next d2 | d1 succeeded, d2 admitted, d3 admitted | nothing sent' },
    { workers: { w1: 'full', w2: 'unlisted' } },
  ),
  {
    name: 'starts of two dispatches',
    steps: [start('d1'), start('d2')],
    leaves: 'd1 assigned | d1 admitted, d2 refused: key-busy | s2 start d1',
  },

  // Starts at a busy key.
  ...at('a start at a busy key', [start('d2')], {
    'pending (admitted)': 'd1 assigned | d1 admitted, d2 refused: key-busy | s2 start d1',
    assigned: 'd1 assigned | d1 admitted, d2 refused: key-busy | nothing sent',
    running: 'd1 running | d1 started, d2 refused: key-busy | nothing sent',
    stopping: 'd1 stopping (stop-requested), next d2 | d1 admitted, d2 admitted | nothing sent',
    releasing: 'd1 releasing | d1 admitted, d2 refused: key-busy | nothing sent',
    'running, next': 'd1 running, next d3 | d1 started, d2 refused: key-busy, d3 admitted | nothing sent',
    'stopping, next': 'd1 stopping (stop-requested), next d3 | d1 admitted, d2 refused: next-taken, d3 admitted | nothing sent',
  }),
  ...at('a start that waits its turn', [start('d2', { ifBusy: 'next' })], {
    'pending (admitted)': 'd1 assigned, next d2 | d1 admitted, d2 admitted | s2 start d1',
    assigned: 'd1 assigned, next d2 | d1 admitted, d2 admitted | nothing sent',
    running: 'd1 running, next d2 | d1 started, d2 admitted | nothing sent',
    stopping: 'd1 stopping (stop-requested), next d2 | d1 admitted, d2 admitted | nothing sent',
    releasing: 'd1 releasing, next d2 | d1 admitted, d2 admitted | nothing sent',
    'running, next': 'd1 running, next d3 | d1 started, d2 refused: next-taken, d3 admitted | nothing sent',
    'stopping, next': 'd1 stopping (stop-requested), next d3 | d1 admitted, d2 refused: next-taken, d3 admitted | nothing sent',
  }),
  ...at('a start that replaces', [start('d2', { ifBusy: 'replace' })], {
    'pending (admitted)': 'd2 assigned | d1 cancelled, d2 admitted | s2 start d2',
    assigned: 'd1 stopping (replaced), next d2 | d1 admitted, d2 admitted | s1 stop d1',
    running: 'd1 stopping (replaced), next d2 | d1 started, d2 admitted | s1 stop d1',
    stopping: 'd1 stopping (stop-requested), next d2 | d1 admitted, d2 admitted | s1 stop d1',
    releasing: 'd1 stopping (replaced), next d2 | d1 admitted, d2 admitted | s1 stop d1',
    'running, next': 'd1 running, next d3 | d1 started, d2 refused: next-taken, d3 admitted | nothing sent',
    'stopping, next': 'd1 stopping (stop-requested), next d3 | d1 admitted, d2 refused: next-taken, d3 admitted | nothing sent',
    'pending, ran before': 'd2 assigned | d1 stopped, d2 admitted | s2 start d2',
  }),
  ...at(
    'a replaced job stops, and the other starts',
    [start('d2', { ifBusy: 'replace' }), answer('stopped', 'd1', ran), answer('started', 'd2', ran)],
    { running: 'd2 running | d1 stopped, d2 started | s1 stop d1, s2 start d2' },
  ),

  // Starts replayed.
  ...at('a start replayed', [start('d1')], {
    'pending (admitted)': 'd1 assigned | d1 admitted | s2 start d1',
    'pending, not due': 'd1 assigned | d1 admitted | s2 start d1',
    assigned: 'd1 assigned | d1 admitted | s1 start d1',
    running: 'd1 running | d1 started | nothing sent',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    releasing: 'd1 releasing | d1 admitted | s1 release d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3',
  }),
  ...at(
    'a start replayed whose started was never settled',
    [start('d1')],
    { running: 'd1 running | d1 started | nothing sent' },
    { dispatches: { d1: 'admitted' } },
  ),
  ...at(
    'a start replayed whose end was never settled',
    [start('d1')],
    { ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent', 'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3' },
    { dispatches: { d1: 'started' } },
  ),
  ...at(
    'a start replayed that was refused',
    [start('d2')],
    {
      running: 'd1 running | d1 started, d2 cancelled | nothing sent',
      ended: 'd1 ended (succeeded) | d1 succeeded, d2 cancelled | nothing sent',
    },
    { dispatches: { d2: 'never-started' } },
  ),
  ...at('a start replayed that waits, replacing', [start('d3', { ifBusy: 'replace' })], {
    'running, next': 'd1 running, next d3 | d1 started, d3 admitted | nothing sent',
    'stopping, next': 'd1 stopping (stop-requested), next d3 | d1 admitted, d3 admitted | s1 stop d1',
    'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3',
  }),
  ...at('a start replayed with another payload', [start('d1', { payload: bytes('other') })], {
    running: 'd1 running | d1 started | nothing sent',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),

  // Stops.
  ...at('a stop', [stop('d1')], {
    'pending (admitted)': 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    'pending, ran before': 'd1 ended (stopped) | d1 stopped | nothing sent',
    assigned: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    running: 'd1 stopping (stop-requested) | d1 started | s1 stop d1',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    releasing: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    'pending (admitted), next': 'd3 assigned | d1 cancelled, d3 admitted | s2 start d3',
    'running, next': 'd1 stopping (stop-requested), next d3 | d1 started, d3 admitted | s1 stop d1',
    'stopping, next': 'd1 stopping (stop-requested), next d3 | d1 admitted, d3 admitted | s1 stop d1',
    'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3',
  }),
  ...at('a stop by key', [stop()], {
    'pending (admitted)': 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    'pending, ran before': 'd1 ended (stopped) | d1 stopped | nothing sent',
    assigned: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    running: 'd1 stopping (stop-requested) | d1 started | s1 stop d1',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    releasing: 'd1 stopping (stop-requested) | d1 admitted | s1 stop d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    'pending (admitted), next': 'd1 ended (cancelled) | d1 cancelled, d3 cancelled | nothing sent',
    'running, next': 'd1 stopping (stop-requested) | d1 started, d3 cancelled | s1 stop d1',
    'stopping, next': 'd1 stopping (stop-requested) | d1 admitted, d3 cancelled | s1 stop d1',
    'ended, next': 'd1 ended (succeeded) | d1 succeeded, d3 cancelled | nothing sent',
  }),
  ...at('a stop of the one that waits', [stop('d3')], {
    'pending (admitted), next': 'd1 assigned | d1 admitted, d3 cancelled | s2 start d1',
    'running, next': 'd1 running | d1 started, d3 cancelled | nothing sent',
    'stopping, next': 'd1 stopping (stop-requested) | d1 admitted, d3 cancelled | nothing sent',
    'ended, next': 'd1 ended (succeeded) | d1 succeeded, d3 cancelled | nothing sent',
  }),
  ...at(
    'a stop while the end is not settled yet',
    [stop('d1')],
    { ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent', 'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3' },
    { dispatches: { d1: 'started' } },
  ),
  { name: 'a stop by key where nothing is', steps: [stop()], leaves: 'no record | no dispatch | nothing sent' },
  { name: 'a stop before its start', steps: [stop('d1'), start('d1')], leaves: 'no record | d1 cancelled | nothing sent' },
  ...at('a stop before its start, which then waits its turn', [stop('d2'), start('d2', { ifBusy: 'next' })], {
    running: 'd1 running | d1 started, d2 cancelled | nothing sent',
  }),
  ...at(
    'a stop of what was refused',
    [stop('d2')],
    { running: 'd1 running | d1 started, d2 cancelled | nothing sent' },
    { dispatches: { d2: 'never-started' } },
  ),
  ...at('a stop that fails, then succeeds', [stop('d1'), answer('stop-failed', 'd1', failed), answer('stopped', 'd1', ran)], {
    running: 'd1 ended (stopped) | d1 stopped | s1 stop d1',
  }),

  // What the owner reports.
  ...at('started', [report('started', ran)], {
    assigned: 'd1 running | d1 started | nothing sent',
    running: 'd1 running | d1 started | nothing sent',
    stopping: 'd1 stopping (stop-requested) | d1 started | s1 stop d1',
    releasing: 'd1 releasing | d1 started | s1 release d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('succeeded', [report('finished', { ...ran, result: { lines: 3 } })], {
    assigned: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    running: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    stopping: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    releasing: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    'pending (owner-lost)': 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed', [report('finished', { ...ran, ...failed })], {
    assigned: 'd1 ended (failed) | d1 failed | nothing sent',
    running: 'd1 ended (failed) | d1 failed | nothing sent',
    stopping: 'd1 ended (failed) | d1 failed | nothing sent',
    releasing: 'd1 ended (failed) | d1 failed | nothing sent',
    'pending (owner-lost)': 'd1 ended (failed) | d1 failed | nothing sent',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed, to be tried again', [report('finished', { ...ran, ...failedForNow })], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (failed) | d1 failed | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed to start', [report('start-failed', failed)], {
    assigned: 'd1 ended (start-failed) | d1 start-failed | nothing sent',
    running: 'd1 ended (failed) | d1 failed | nothing sent',
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    releasing: 'd1 ended (start-failed) | d1 start-failed | nothing sent',
    'pending (owner-lost)': 'd1 ended (start-failed) | d1 start-failed | nothing sent',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed to start, to be tried again', [report('start-failed', failedForNow)], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('handed back', [report('released', ran)], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (stopped) | d1 stopped | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('stopped', [report('stopped', ran)], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (stopped) | d1 stopped | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed to stop', [report('stop-failed', failed)], {
    assigned: 'd1 assigned | d1 admitted | s1 start d1',
    running: 'd1 running | d1 started | nothing sent',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s1 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('failed to let go', [report('stop-failed', { ...ran, ...failed })], {
    'releasing, ran': 'd1 running | d1 started | nothing sent',
  }),
  ...at('failed to let go, its start still out though an owner before had it up', [report('stop-failed', failed)], {
    releasing: 'd1 assigned | d1 admitted | s1 start d1',
    'releasing, ran': 'd1 assigned | d1 started | s1 start d1',
  }),
  ...at('refused for lack of room', [report('refused', { reason: 'at-capacity' })], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('refused in a drain', [report('refused', { reason: 'draining' })], {
    assigned: 'd1 assigned | d1 admitted | s2 start d1',
    running: 'd1 assigned | d1 started | s2 start d1',
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s2 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('refused as another request than the one that runs', [report('refused', { reason: 'fingerprint-mismatch' })], {
    assigned: 'd1 assigned | d1 admitted | s1 start d1',
    running: 'd1 running | d1 started | nothing sent',
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    releasing: 'd1 assigned | d1 admitted | s1 start d1',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('refused as busy', [report('refused', keyBusy)], {
    stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    'pending (owner-lost)': 'd1 assigned | d1 admitted | s1 stop d2, s2 start d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('refused as busy, and again when it comes back', [report('refused', keyBusy), 'sweep', answer('refused', 'd1', keyBusy)], {
    assigned: 'd1 assigned | d1 admitted | s1 stop d2, s1 start d1',
    running: 'd1 assigned | d1 started | s1 stop d2, s1 start d1',
    releasing: 'd1 assigned | d1 admitted | s1 stop d2, s1 start d1',
  }),
  ...at(
    'refused as busy by a dispatch that the records know to run',
    [report('refused', keyBusy)],
    {
      assigned: 'd2 running | d1 refused: key-busy, d2 started | nothing sent',
      stopping: 'd2 running | d1 cancelled, d2 started | nothing sent',
      releasing: 'd2 running | d1 refused: key-busy, d2 started | nothing sent',
      'assigned, next': 'd2 running, next d3 | d1 refused: key-busy, d2 started, d3 admitted | nothing sent',
    },
    { dispatches: { d2: 'started' } },
  ),
  ...at(
    'refused as busy by a dispatch that runs though this one ran, and again when it comes back',
    [report('refused', keyBusy), 'sweep', answer('refused', 'd1', keyBusy)],
    { 'releasing, ran': 'd1 assigned | d1 started, d2 started | s1 stop d2, s1 start d1' },
    { dispatches: { d2: 'started' } },
  ),

  // The last attempts.
  ...at(
    'failed to start at the last attempt',
    [report('start-failed', failedForNow)],
    { assigned: 'd1 ended (start-failed) | d1 start-failed | nothing sent' },
    { settings: { startAttempts: 1 } },
  ),
  ...at(
    'failed to start at the last attempt but one',
    [report('start-failed', failedForNow)],
    { assigned: 'd1 assigned | d1 admitted | s2 start d1' },
    { settings: { startAttempts: 2 } },
  ),
  ...at(
    'failed at the last attempt',
    [report('finished', { ...ran, ...failedForNow })],
    { running: 'd1 ended (failed) | d1 failed | nothing sent' },
    { settings: { startAttempts: 1 } },
  ),
  ...at(
    'failed at the last attempt but one',
    [report('finished', { ...ran, ...failedForNow })],
    { running: 'd1 assigned | d1 started | s2 start d1' },
    { settings: { startAttempts: 2 } },
  ),
  ...at(
    'failed, and restarted by the policy for the last time',
    [report('finished', { ...ran, ...failed })],
    { running: 'd1 assigned | d1 started | s2 start d1' },
    { settings: { restart: { type: 'on-failure', maxAttempts: 2 } } },
  ),

  // Late, repeated, out of order.
  ...at('finished twice, the second time otherwise', [report('finished', ran), report('finished', { ...ran, ...failed, at: 500 })], {
    running: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('started after finished', [report('finished', ran), report('started', ran)], {
    assigned: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('finished, under a fence that was passed', [report('finished', { ...ran, fence: FENCE - 1 })], {
    running: 'd1 running | d1 started | nothing sent',
  }),
  ...at('started, under a fence that was passed', [report('started', { ...ran, fence: FENCE - 1 })], {
    running: 'd1 running | d1 started | s1 stop d1',
  }),
  ...at(
    'started, of a dispatch that is over',
    [report('started', { ...ran, ...anotherOne })],
    { running: 'd1 running | d1 started, d2 succeeded | s1 stop d2' },
    { dispatches: { d2: 'ended' } },
  ),
  ...at(
    'finished, of a dispatch that no job names',
    [report('finished', { ...ran, ...anotherOne })],
    {
      running: 'd1 running | d1 started, d2 succeeded | nothing sent',
      'ended, next': 'd3 assigned | d1 succeeded, d2 succeeded, d3 admitted | s2 start d3',
    },
    { dispatches: { d2: 'started' } },
  ),
  { name: 'started, without any record', steps: [report('started', ran)], leaves: 'no record | no dispatch | s1 confirm' },
  { name: 'finished, without any record', steps: [report('finished', ran)], leaves: 'no record | d1 succeeded | nothing sent' },
  {
    name: 'handed back, without a record of the job',
    dispatches: { d1: 'started' },
    steps: [report('released', ran)],
    leaves: 'no record | d1 failed | nothing sent',
  },
  ...at('finished, at a fence above the record', [report('finished', { ...ran, fence: FENCE + 1 })], {
    assigned: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),

  // Whoever waits gets its turn.
  ...at('the next one after an end', [report('finished', ran), answer('started', 'd3', ran)], {
    'running, next': 'd3 running | d1 succeeded, d3 started | s2 start d3',
  }),
  ...at(
    'the next one after an end, while no worker has room',
    [report('finished', ran)],
    { 'running, next': 'd3 pending (admitted) | d1 succeeded, d3 admitted | nothing sent' },
    { workers: { w1: 'full', w2: 'full' } },
  ),
  ...at('the next one after a stop', [report('stopped', ran)], { 'stopping, next': 'd3 assigned | d1 stopped, d3 admitted | s2 start d3' }),
  ...at('the next one after a start that failed', [report('start-failed', failed)], {
    'assigned, next': 'd3 assigned | d1 start-failed, d3 admitted | s2 start d3',
  }),
  ...at(
    'a next one that was cancelled meanwhile',
    [assign],
    { 'ended, next': 'd1 ended (succeeded) | d1 succeeded, d3 cancelled | nothing sent' },
    { dispatches: { d3: 'never-started' } },
  ),
  ...at(
    'a next one whose record is gone',
    [assign],
    { 'ended, next': 'd1 ended (succeeded) | d1 succeeded | nothing sent' },
    { dispatches: { d3: 'absent' } },
  ),

  // An owner that is lost.
  ...at('the owner left, found by assign', [assign], { running: 'd1 assigned | d1 started | s2 start d1' }, { workers: { w1: 'left' } }),
  ...at(
    'the owner was replaced, found by assign',
    [assign],
    { running: 'd1 assigned | d1 started | s2 start d1' },
    { workers: { w1: 'replaced' } },
  ),
  ...at('the owner is gone, found by assign', [assign], { running: 'd1 assigned | d1 started | s2 start d1' }, { workers: { w1: 'gone' } }),
  ...at(
    'the owner is lost, found by assign',
    [assign],
    {
      assigned: 'd1 assigned | d1 admitted | s2 start d1',
      running: 'd1 assigned | d1 started | s2 start d1',
      stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
      releasing: 'd1 assigned | d1 admitted | s2 start d1',
    },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, found by the start',
    [start('d1')],
    {
      assigned: 'd1 assigned | d1 admitted | s2 start d1',
      stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
      releasing: 'd1 assigned | d1 admitted | s2 start d1',
    },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, found by assign, and no other has room',
    [assign],
    { running: 'd1 pending (owner-lost) | d1 started | nothing sent' },
    { workers: { w1: 'lost', w2: 'full' } },
  ),
  ...at(
    'the owner is lost, and so is the next one, unseen',
    [assign],
    { running: 'd1 pending (owner-lost) | d1 started | nothing sent' },
    { workers: { w1: 'lost', w2: 'unlisted' } },
  ),
  ...at(
    'the owner is lost, found by a notification',
    [notify],
    {
      assigned: 'd1 assigned | d1 admitted | s2 start d1',
      running: 'd1 assigned | d1 started | s2 start d1',
      releasing: 'd1 assigned | d1 admitted | s2 start d1',
    },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost while it stops, found by a notification',
    [notify],
    { stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent' },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, found by a move',
    [move],
    {
      assigned: 'd1 assigned | d1 admitted | s2 start d1',
      running: 'd1 assigned | d1 started | s2 start d1',
      releasing: 'd1 assigned | d1 admitted | s2 start d1',
    },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, found by a stop',
    [stop('d1')],
    {
      assigned: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
      running: 'd1 ended (stopped) | d1 stopped | nothing sent',
      stopping: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
      releasing: 'd1 ended (cancelled) | d1 cancelled | nothing sent',
    },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, found by a start that replaces',
    [start('d2', { ifBusy: 'replace' })],
    { running: 'd2 assigned | d1 stopped, d2 admitted | s2 start d2' },
    { workers: { w1: 'lost' } },
  ),
  ...at(
    'the owner is lost, and it turns out to have finished',
    [assign, report('finished', ran)],
    { running: 'd1 ended (succeeded) | d1 succeeded | nothing sent' },
    { workers: { w1: 'lost', w2: 'full' } },
  ),

  // Notifications and moves.
  ...at('a notification', [notify], {
    'pending (admitted)': 'd1 assigned | d1 admitted | s2 start d1',
    assigned: 'd1 assigned | d1 admitted | s1 notify',
    running: 'd1 running | d1 started | s1 notify',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | s1 notify',
    releasing: 'd1 releasing | d1 admitted | s1 notify',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3',
  }),
  ...at('a move', [move], {
    'pending (admitted)': 'd1 assigned | d1 admitted | s2 start d1',
    assigned: 'd1 releasing | d1 admitted | s1 release d1',
    running: 'd1 releasing | d1 started | s1 release d1',
    stopping: 'd1 stopping (stop-requested) | d1 admitted | nothing sent',
    releasing: 'd1 releasing | d1 admitted | s1 release d1',
    ended: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
  }),
  ...at('a move of another fence', [{ ...move, fence: FENCE - 1 }], { running: 'd1 running | d1 started | nothing sent' }),
  ...at('a move to its end', [move, answer('released', 'd1', ran), answer('started', 'd1', ran)], {
    running: 'd1 running | d1 started | s1 release d1, s2 start d1',
  }),
  ...at('a move that fails: the original handler goes on (P12)', [move, answer('stop-failed', 'd1', { ...ran, ...failed })], {
    running: 'd1 running | d1 started | s1 release d1',
  }),
  ...at('a move overtaken by a stop', [move, stop('d1'), answer('released', 'd1', ran)], {
    running: 'd1 ended (stopped) | d1 stopped | s1 release d1, s1 stop d1',
  }),

  // Workers that come and go, and the sweep.
  {
    name: 'a worker registers',
    workers: { w1: 'gone', w2: 'unseen' },
    steps: [{ type: 'registered', worker: 'w2', session: 's2', at: 400 }],
    leaves: 'no record | no dispatch | nothing sent',
  },
  ...at(
    'a worker leaves with a job',
    [{ type: 'left', ...OWNER, at: 400 }],
    { running: 'd1 assigned | d1 started | s2 start d1' },
    { workers: { w1: 'left' } },
  ),
  ...at(
    'a job finishes while its worker leaves (P15)',
    [report('finished', ran), { type: 'left', ...OWNER, at: 400 }],
    {
      running: 'd1 ended (succeeded) | d1 succeeded | nothing sent',
      'stopping, ran': 'd1 ended (succeeded) | d1 succeeded | nothing sent',
    },
    { workers: { w1: 'left' } },
  ),
  ...at(
    'a job is stopped as its worker, found gone, leaves (P15)',
    [{ type: 'left', ...OWNER, at: 400 }, report('stopped', ran)],
    { 'stopping, ran': 'd1 ended (stopped) | d1 stopped | nothing sent' },
    { workers: { w1: 'left' } },
  ),
  ...at('a sweep, a job is due', ['sweep'], { 'pending (start-failed)': 'd1 assigned | d1 admitted | s2 start d1' }),
  ...at(
    'a sweep, somebody waits behind an end',
    ['sweep'],
    { 'ended, next': 'd3 assigned | d1 succeeded, d3 admitted | s2 start d3' },
    { dispatches: { d1: 'started' } },
  ),
  ...at('a sweep, the owner left', ['sweep'], { running: 'd1 assigned | d1 started | s2 start d1' }, { workers: { w1: 'left' } }),
  ...at(
    'a sweep, the owner was lost while it stopped',
    ['sweep'],
    { 'stopping, ran': 'd1 ended (stopped) | d1 stopped | nothing sent' },
    { workers: { w1: 'lost' } },
  ),

  // Lives.
  {
    name: 'started, stopped, started anew',
    steps: [
      start('d1'),
      answer('started', 'd1', ran),
      stop('d1'),
      answer('stopped', 'd1', ran),
      start('d2'),
      answer('started', 'd2', ran),
      answer('finished', 'd2', ran),
    ],
    leaves: 'd2 ended (succeeded) | d1 stopped, d2 succeeded | s2 start d1, s2 stop d1, s2 start d2',
  },
  {
    name: 'failed to start, tried again, succeeded',
    steps: [start('d1'), answer('start-failed', 'd1', failedForNow), 'sweep', answer('started', 'd1', ran), answer('finished', 'd1', ran)],
    leaves: 'd1 ended (succeeded) | d1 succeeded | s2 start d1, s1 start d1',
  },
];
