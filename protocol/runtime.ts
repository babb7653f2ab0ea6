/**
 * Table 4: what the worker runtime does with a command, under the key's lock, the lease checked before each call of the handler.
 *
 * Each row has cases: what happened before, what happens, and all that it brings about. The tests act them out on the real runtime; the page
 * prints them. A case is written in steps:
 *
 * - commands: `start d1 5` (dispatch d1 under fence 5, at key k), `start d1 5 with another payload`, `start d9 1 at j`, `stop d1 5`, `release d1 5`,
 *   `notify 5`, `confirm 5`, `ask 5` (a resync round about k at fence 5; `ask nothing`; `as of before`: opened at the session's first beat)
 * - the handler, from here on: `start hangs`, `start throws`, `start throws retryably`, `start works`; `stop …`, `notify …` alike
 * - the handler, of a call that hangs: `start returns`, `start rejects`, `stop returns`, `stop rejects`; of a job that is up: `k finishes`, `k fails`
 * - the world: `drain`, `an operator drains`, `an operator evicts`, `the inbox is deleted`, `the row is unreachable`, `the row is reachable`, `20 s pass`
 *
 * What it brings about: calls of the handler (`call start d1 5`), signals (`signal: …`, `lost: …`), reports (`started d1 5`; `ran`: with the time since
 * when it was up), `dropped: …`, `registered` (a new session), `overrun`.
 */
export interface RuntimeRow {
  readonly meets: string;
  readonly does: string;
  readonly cases: readonly RuntimeCase[];
}

export interface RuntimeCase {
  readonly given?: readonly string[];
  readonly when: string;
  readonly yields: readonly string[];
}

const up = ['start d1 5'];
const busy: RuntimeCase['yields'] = ['refused d2 7 (key-busy: d1 5)'];

export const runtimeRows: readonly RuntimeRow[] = [
  {
    meets: 'start: nothing running, fence above every fence ended here, room, not draining',
    does: '`handler.start`, then `started` or `start-failed`',
    cases: [
      { when: 'start d1 5', yields: ['call start d1 5', 'started d1 5'] },
      { given: ['start throws'], when: 'start d1 5', yields: ['call start d1 5', 'start-failed d1 5 (Error)'] },
      {
        given: ['start throws retryably'],
        when: 'start d1 5',
        yields: ['call start d1 5', 'start-failed d1 5 (RetryableError, retryable)'],
      },
      { given: [...up, 'stop d1 5'], when: 'start d2 6', yields: ['call start d2 6', 'started d2 6'] },
      { given: ['start throws retryably', ...up, 'start works'], when: 'start d1 6', yields: ['call start d1 6', 'started d1 6'] },
      { given: [...up, 'k fails'], when: 'start d1 6', yields: ['call start d1 6', 'started d1 6'] },
    ],
  },
  {
    meets: 'start: same dispatch and fingerprint running',
    does: 'keep the higher fence (`job.fence` is live), report `started` with it; the handler is not called',
    cases: [
      { given: up, when: 'start d1 5', yields: ['started d1 5'] },
      { given: up, when: 'start d1 7', yields: ['started d1 7'] },
      { given: [...up, 'start d1 7'], when: 'start d1 5', yields: ['started d1 7'] },
      { given: [...up, 'start d1 7'], when: 'stop d1 7', yields: ['call stop d1 7: stop-requested', 'stopped d1 7 (stop-requested, ran)'] },
      { given: [...up, 'start d1 7'], when: 'k finishes', yields: ['finished d1 7 (ran)'] },
    ],
  },
  {
    meets: 'start: same dispatch, other fingerprint',
    does: '`refused: fingerprint-mismatch`; the job keeps running',
    cases: [
      { given: up, when: 'start d1 7 with another payload', yields: ['refused d1 7 (fingerprint-mismatch)'] },
      { given: [...up, 'start d1 7 with another payload'], when: 'ask 5', yields: ['answer 1/2: k 5 running', 'answer 2/2: k 7 refused'] },
      { given: [...up, 'start d1 5 with another payload'], when: 'ask 5', yields: ['answer 1/1: k 5 running'] },
      {
        given: [...up, 'start d1 5 with another payload'],
        when: 'stop d1 5',
        yields: ['call stop d1 5: stop-requested', 'stopped d1 5 (stop-requested, ran)'],
      },
      { given: [...up, 'start d1 5 with another payload', 'k finishes'], when: 'start d1 5', yields: ['finished d1 5 (ran)'] },
    ],
  },
  {
    meets: 'start: another dispatch running',
    does: 'lower fence: drop. Higher: `refused: key-busy` with what runs',
    cases: [
      { given: up, when: 'start d2 4', yields: ['dropped: lower-fence'] },
      { given: up, when: 'start d2 7', yields: busy },
      { given: [...up, 'start d2 7'], when: 'start d2 7', yields: busy },
      { given: [...up, 'start d2 7'], when: 'start d2 8', yields: ['refused d2 8 (key-busy: d1 5)'] },
    ],
  },
  {
    meets: 'start: fence ended here',
    does: "repeat that fence's recorded end or refusal",
    cases: [
      { given: [...up, 'k finishes'], when: 'start d1 5', yields: ['finished d1 5 (ran)'] },
      { given: [...up, 'k fails'], when: 'start d1 5', yields: ['finished d1 5 (Error, ran)'] },
      { given: ['start throws', ...up, 'start works'], when: 'start d1 5', yields: ['start-failed d1 5 (Error)'] },
      { given: [...up, 'stop d1 5'], when: 'start d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'release d1 5'], when: 'start d1 5', yields: ['released d1 5 (ran)'] },
      { given: [...up, 'start d2 7', 'k finishes'], when: 'start d2 7', yields: busy },
    ],
  },
  {
    meets: 'start: never seen, at or below a fence ended here',
    does: 'answer as the command that ended it, for that fence; none → `stopped`',
    cases: [
      { given: ['stop d1 5'], when: 'start d1 5', yields: ['stopped d1 5 (stop-requested)'] },
      { given: ['stop d1 5'], when: 'start d2 4', yields: ['stopped d2 4 (stop-requested)'] },
      { given: ['release d1 5'], when: 'start d2 4', yields: ['released d2 4'] },
      { given: ['stop d1 5', 'release d2 7'], when: 'start d2 6', yields: ['released d2 6'] },
      { given: ['stop d1 5', 'release d2 7'], when: 'start d2 4', yields: ['stopped d2 4 (stop-requested)'] },
      { given: [...up, 'k finishes'], when: 'start d2 4', yields: ['stopped d2 4'] },
      { given: [...up, 'k finishes', 'release d1 5'], when: 'start d2 4', yields: ['released d2 4'] },
      { given: [...up, 'start d2 7', 'stop d1 5'], when: 'start d2 6', yields: ['stopped d2 6'] },
    ],
  },
  {
    meets: 'start: over capacity, or draining',
    does: '`refused`; **a refusal ends exactly its fence** (not lower ones: one may be running), and its start, stop or release repeats it',
    cases: [
      { given: ['start d9 1 at j', 'start d8 1 at i'], when: 'start d1 5', yields: ['refused d1 5 (at-capacity)'] },
      {
        given: ['start d9 1 at j', 'start d8 1 at i', ...up, 'stop d9 1 at j'],
        when: 'start d1 5',
        yields: ['refused d1 5 (at-capacity)'],
      },
      { given: ['start d9 1 at j', 'start d8 1 at i', ...up], when: 'release d1 5', yields: ['refused d1 5 (at-capacity)'] },
      {
        given: ['start d9 1 at j', 'start d8 1 at i', ...up, 'stop d9 1 at j'],
        when: 'start d1 6',
        yields: ['call start d1 6', 'started d1 6'],
      },
      { given: ['start d9 1 at j', 'stop hangs', 'drain'], when: 'start d1 5', yields: ['refused d1 5 (draining)'] },
      { given: [...up, 'start d2 7'], when: 'stop d2 7', yields: busy },
      { given: [...up, 'start d2 7', 'stop d2 7'], when: 'ask 5', yields: ['answer 1/2: k 5 running', 'answer 2/2: k 7 refused'] },
      {
        given: [...up, 'start d2 7'],
        when: 'stop d1 6',
        yields: ['call stop d1 5: stop-requested', 'stopped d1 5 (stop-requested, ran)', 'stopped d1 6 (stop-requested, ran)'],
      },
    ],
  },
  {
    meets: 'stop / release of fence f',
    does: 'a refused fence repeats its refusal, and nothing else happens. Otherwise **ends every fence ≤ f of that key, whether it ran or not**, and stops a running fence ≤ f, answering for both; a fence already ended repeats its recorded end (`finished` stays `finished`); else stop answers `stopped`, release `released`; a running fence above f: drop',
    cases: [
      { given: up, when: 'stop d1 5', yields: ['call stop d1 5: stop-requested', 'stopped d1 5 (stop-requested, ran)'] },
      { given: up, when: 'release d1 5', yields: ['call stop d1 5: moved', 'released d1 5 (ran)'] },
      { when: 'stop d1 5', yields: ['stopped d1 5 (stop-requested)'] },
      { when: 'release d1 5', yields: ['released d1 5'] },
      {
        given: up,
        when: 'stop d2 7',
        yields: ['call stop d1 5: stop-requested', 'stopped d1 5 (stop-requested, ran)', 'stopped d2 7 (stop-requested)'],
      },
      { given: up, when: 'release d2 7', yields: ['call stop d1 5: moved', 'released d1 5 (ran)', 'released d2 7'] },
      { given: up, when: 'stop d1 4', yields: ['dropped: lower-fence'] },
      { given: [...up, 'stop d1 4'], when: 'ask 5', yields: ['answer 1/1: k 5 running'] },
      { given: [...up, 'k finishes'], when: 'stop d1 5', yields: ['finished d1 5 (ran)'] },
      { given: [...up, 'k finishes'], when: 'release d1 5', yields: ['finished d1 5 (ran)'] },
      { given: [...up, 'stop d1 5'], when: 'stop d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'stop d1 5'], when: 'release d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'release d1 5', 'start d1 6'], when: 'stop d1 5', yields: ['released d1 5 (ran)'] },
      { given: ['stop d1 5'], when: 'start d2 6', yields: ['call start d2 6', 'started d2 6'] },
    ],
  },
  {
    meets: 'stop meets a start not yet returned',
    does: 'its signal fires; the stop waits under its deadline',
    cases: [
      { given: ['start hangs', ...up], when: 'stop d1 5', yields: ['signal: stop-requested'] },
      {
        given: ['start hangs', ...up, 'stop d1 5'],
        when: 'start rejects',
        yields: ['stopped d1 5 (stop-requested)', 'stopped d1 5 (stop-requested)'],
      },
      {
        given: ['start hangs', ...up, 'stop d1 5'],
        when: 'start returns',
        yields: ['call stop d1 5: stop-requested', 'started d1 5', 'stopped d1 5 (stop-requested, ran)'],
      },
      { given: ['start hangs', ...up, 'stop d1 5'], when: '20 s pass', yields: ['stop-failed d1 5 (timeout)'] },
      {
        given: ['start hangs', ...up, 'stop d1 5', '20 s pass'],
        when: 'start returns',
        yields: ['call stop d1 5: stop-requested', 'started d1 5', 'stopped d1 5 (stop-requested, ran)'],
      },
      { given: ['start hangs', ...up, 'release d1 5', '20 s pass'], when: 'start returns', yields: ['started d1 5'] },
      { given: ['start hangs', ...up], when: 'stop d1 4', yields: [] },
      { given: ['start hangs', ...up, 'stop d1 4'], when: 'start returns', yields: ['started d1 5', 'dropped: lower-fence'] },
    ],
  },
  {
    meets: 'stop fails or passes its deadline',
    does: '`stop-failed`, tried again with backoff; completing later → `stopped`. A failed release is not tried again',
    cases: [
      { given: [...up, 'stop throws'], when: 'stop d1 5', yields: ['call stop d1 5: stop-requested', 'stop-failed d1 5 (Error)'] },
      {
        given: [...up, 'stop throws', 'stop d1 5', 'stop works'],
        when: '1 s pass',
        yields: ['call stop d1 5: stop-requested', 'stopped d1 5 (stop-requested, ran)'],
      },
      { given: [...up, 'stop hangs', 'stop d1 5'], when: '20 s pass', yields: ['stop-failed d1 5 (timeout)'] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: 'start d1 5', yields: ['started d1 5'] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: '60 s pass', yields: [] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: 'stop returns', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: 'stop rejects', yields: ['stop-failed d1 5 (Error)'] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: 'stop d1 5', yields: [] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass', 'stop d1 5'], when: '20 s pass', yields: ['stop-failed d1 5 (timeout)'] },
      { given: [...up, 'stop throws'], when: 'release d1 5', yields: ['call stop d1 5: moved', 'stop-failed d1 5 (Error)'] },
      { given: [...up, 'stop throws', 'release d1 5', 'stop works'], when: '60 s pass', yields: [] },
      { given: [...up, 'stop hangs', 'release d1 5', '20 s pass'], when: 'stop returns', yields: ['stopped d1 5 (moved, ran)'] },
      { given: [...up, 'stop throws', 'stop d1 5'], when: 'k finishes', yields: ['finished d1 5 (ran)'] },
      { given: [...up, 'stop throws', 'stop d1 5', 'start d1 7', 'stop works'], when: '60 s pass', yields: [] },
      { given: [...up, 'stop throws', 'stop d1 5', 'start d1 7'], when: 'k finishes', yields: ['finished d1 7 (ran)'] },
      {
        given: [...up, 'stop throws', 'stop d2 7'],
        when: 'k finishes',
        yields: ['finished d1 5 (ran)', 'stopped d2 7 (stop-requested)'],
      },
      { given: [...up, 'stop throws', 'release d2 7', 'k finishes'], when: 'start d2 6', yields: ['released d2 6'] },
    ],
  },
  {
    meets: 'notify: nothing up, or other fence',
    does: 'drop, count',
    cases: [
      { given: up, when: 'notify 5', yields: ['call notify d1 n1'] },
      { when: 'notify 5', yields: ['dropped: not-up'] },
      { given: up, when: 'notify 4', yields: ['dropped: not-up'] },
      { given: up, when: 'notify 6', yields: ['dropped: not-up'] },
      { given: [...up, 'k finishes'], when: 'notify 5', yields: ['dropped: not-up'] },
      { given: ['start throws', ...up], when: 'notify 5', yields: ['dropped: not-up'] },
      { given: [...up, 'stop hangs', 'stop d1 5', '20 s pass'], when: 'notify 5', yields: ['dropped: stopping'] },
      { given: [...up, 'notify throws', 'notify 5'], when: 'ask 5', yields: ['answer 1/1: k 5 running'] },
    ],
  },
  {
    meets: 'confirm: that fence is up',
    does: "`confirmed` (payload, true times); the fence is then remembered for the session's life. Not up, or other fence: no answer",
    cases: [
      { given: up, when: 'confirm 5', yields: ['confirmed d1 5 one'] },
      { when: 'confirm 5', yields: ['dropped: not-up'] },
      { given: up, when: 'confirm 6', yields: ['dropped: not-up'] },
      { given: up, when: 'confirm 4', yields: ['dropped: not-up'] },
      { given: [...up, 'stop d1 5'], when: 'confirm 5', yields: ['dropped: not-up'] },
    ],
  },
  {
    meets: 'resync page',
    does: 'per asked key: `running` (exactly that fence is up), its remembered end, or `unrecognized` (also while start is running, and when a *lower* fence runs: that one is listed as unasked); an ended fence above the asked one of that key is listed too; a start not yet returned is listed unasked as `starting` (no fact; `recover` waits for it). Answered without the lock',
    cases: [
      { given: up, when: 'ask 5', yields: ['answer 1/1: k 5 running'] },
      { when: 'ask 5', yields: ['answer 1/1: k 5 unrecognized'] },
      { when: 'ask nothing', yields: ['answer 1/1: nothing'] },
      { given: up, when: 'ask nothing', yields: ['answer 1/2: nothing', 'answer 2/2: k 5 running'] },
      { given: up, when: 'ask 7', yields: ['answer 1/2: k 7 unrecognized', 'answer 2/2: k 5 running'] },
      { given: up, when: 'ask 4', yields: ['answer 1/2: k 4 unrecognized', 'answer 2/2: k 5 running'] },
      { given: [...up, 'k finishes'], when: 'ask 5', yields: ['answer 1/1: k 5 succeeded'] },
      { given: [...up, 'k fails'], when: 'ask 5', yields: ['answer 1/1: k 5 failed'] },
      { given: [...up, 'stop d1 5'], when: 'ask 5', yields: ['answer 1/1: k 5 stopped'] },
      { given: [...up, 'release d1 5'], when: 'ask 5', yields: ['answer 1/1: k 5 released'] },
      { given: ['start throws', ...up], when: 'ask 5', yields: ['answer 1/1: k 5 start-failed'] },
      { given: [...up, 'start d2 7'], when: 'ask 7', yields: ['answer 1/2: k 7 refused', 'answer 2/2: k 5 running'] },
      { given: [...up, 'k finishes'], when: 'ask 4', yields: ['answer 1/2: k 4 unrecognized', 'answer 2/2: k 5 succeeded'] },
      { given: [...up, 'k finishes'], when: 'ask nothing', yields: ['answer 1/1: nothing'] },
      { given: ['start hangs', ...up], when: 'ask 5', yields: ['answer 1/2: k 5 unrecognized', 'answer 2/2: k 5 starting'] },
      { given: [...up, 'stop hangs', 'stop d1 5'], when: 'ask 5', yields: ['answer 1/1: k 5 running'] },
    ],
  },
  {
    meets: 'hand-back (SIGTERM, drain)',
    does: 'ran → stopped and `released`; never called the handler → `refused: draining`; both end the fence',
    cases: [
      { given: up, when: 'drain', yields: ['call stop d1 5: worker-draining', 'released d1 5 (ran)', 'left'] },
      { given: up, when: 'an operator drains', yields: ['call stop d1 5: worker-draining', 'released d1 5 (ran)', 'left'] },
      { given: ['start hangs', ...up], when: 'drain', yields: ['signal: worker-draining'] },
      { given: ['start hangs', ...up, 'drain'], when: 'start rejects', yields: ['released d1 5'] },
      { given: ['start hangs', ...up, 'drain', 'start rejects'], when: '1 s pass', yields: ['left'] },
      { given: ['start d9 1 at j', 'stop hangs', 'drain', 'start d1 5'], when: 'stop d1 5', yields: ['refused d1 5 (draining)'] },
      { given: ['start d9 1 at j', ...up, 'stop hangs', 'drain'], when: 'start d1 5', yields: [] },
      {
        given: [...up, 'stop throws', 'drain', 'stop works'],
        when: '4 s pass',
        yields: ['call stop d1 5: worker-draining', 'released d1 5 (ran)', 'left'],
      },
      {
        given: [...up, 'stop hangs', 'drain'],
        when: '25 s pass',
        yields: ['lost: worker-draining', 'stop-failed d1 5 (timeout)', 'abandoned 1'],
      },
    ],
  },
  {
    meets: 'inbox gone under a live session',
    does: 'session over',
    cases: [
      {
        given: up,
        when: 'the inbox is deleted',
        yields: ['lost: lease-lost', 'call stop d1 5: lease-lost, may not write', 'released d1 5 (ran)', 'registered'],
      },
    ],
  },
  {
    meets: 'session over',
    does: '`lost` fires and stopping begins at 2/3 of the lease without a renewal, exit at its end; register anew only when every handler has stopped; the inbox of the old session is not read again; remembered ends stay and keep the session in which they arose',
    cases: [
      { given: [...up, 'the row is unreachable'], when: '19 s pass', yields: [] },
      {
        given: [...up, 'the row is unreachable'],
        when: '20 s pass',
        yields: ['lost: lease-lost', 'call stop d1 5: lease-lost, may not write', 'released d1 5 (ran)'],
      },
      { given: [...up, 'the row is unreachable', '20 s pass', 'the row is reachable'], when: '10 s pass', yields: ['registered'] },
      { given: [...up, 'stop hangs', 'the row is unreachable', '20 s pass', 'the row is reachable'], when: '9 s pass', yields: [] },
      {
        given: [...up, 'stop hangs', 'the row is unreachable', '20 s pass', 'the row is reachable'],
        when: '10 s pass',
        yields: ['stop-failed d1 5 (timeout)', 'overrun k'],
      },
      {
        given: [...up, 'stop hangs', 'the row is unreachable', '20 s pass', 'the row is reachable'],
        when: 'stop returns',
        yields: ['released d1 5 (ran)', 'registered'],
      },
      {
        given: [...up, 'k finishes', 'the row is unreachable', '20 s pass', 'the row is reachable', '10 s pass'],
        when: 'ask 5',
        yields: ['answer 1/1: k 5 succeeded'],
      },
      {
        given: [...up, 'k finishes', 'the row is unreachable', '20 s pass', 'the row is reachable', '10 s pass'],
        when: 'start d1 5',
        yields: ['finished d1 5 in an older session (ran)'],
      },
      {
        given: up,
        when: 'an operator evicts',
        yields: ['lost: evicted', 'call stop d1 5: evicted, may not write', 'released d1 5 (ran)', 'registered'],
      },
      { given: ['start hangs', ...up], when: 'an operator evicts', yields: ['lost: evicted', 'signal: evicted'] },
      { given: ['start hangs', ...up, 'an operator evicts'], when: 'start rejects', yields: ['released d1 5', 'registered'] },
      {
        given: ['start hangs', ...up, 'an operator evicts'],
        when: 'start returns',
        yields: ['call stop d1 5: evicted, may not write', 'started d1 5', 'released d1 5 (ran)', 'registered'],
      },
    ],
  },
  {
    meets: 'a round that does not name a key',
    does: "ends and refusals are forgotten only when a complete round whose `beat` (named in its `resync` commands) is later than the report's acceptance did not name the key, and the inbox's retention has passed",
    cases: [
      { given: [...up, 'stop d1 5', '3700 s pass'], when: 'start d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'stop d1 5', 'ask nothing', '3700 s pass'], when: 'start d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      { given: [...up, 'stop d1 5', '11 s pass', 'ask nothing'], when: 'start d1 5', yields: ['stopped d1 5 (stop-requested, ran)'] },
      {
        given: [...up, 'stop d1 5', '11 s pass', 'ask nothing, as of before', '3700 s pass'],
        when: 'start d1 5',
        yields: ['stopped d1 5 (stop-requested, ran)'],
      },
      {
        given: [...up, 'stop d1 5', '11 s pass', 'ask 5', '3700 s pass'],
        when: 'start d1 5',
        yields: ['stopped d1 5 (stop-requested, ran)'],
      },
      { given: [...up, 'stop d1 5', '11 s pass', 'ask nothing', '3700 s pass'], when: 'ask 5', yields: ['answer 1/1: k 5 unrecognized'] },
      {
        given: [...up, 'confirm 5', 'stop d1 5', '11 s pass', 'ask nothing', '3700 s pass'],
        when: 'ask 5',
        yields: ['answer 1/1: k 5 stopped'],
      },
    ],
  },
];

export const runtimeTable = {
  title: 'Command × worker runtime',
  about:
    "Under the key's lock, the lease checked before each call of the handler. At key `k`; two jobs fill the worker of the capacity cases.",
  rows: runtimeRows.map(({ meets, does, cases }) => ({
    meets,
    does: [`${does}.`, ...cases.map(inWords)].join('<br>'),
  })),
};

function inWords({ given = [], when, yields }: RuntimeCase): string {
  return `${[...given, `**${when}**`].join(', ')} → ${yields.join(', ') || 'nothing'}`;
}
