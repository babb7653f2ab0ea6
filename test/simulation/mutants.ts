// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted here is source text.
import { RESTORE_CONDITIONS } from '../../lib/testing/memory-restores.ts';
import type { PlotGroup } from './plots.ts';
import type { Profile } from './profiles.ts';
import type { Edit } from './transform.ts';

/**
 * What the simulation has to notice: small breakages of the code that it runs, each of them a rule left out, a condition not looked at, or an
 * order turned round. A mutant that survives means that nobody checks what the rule is there for, or that the rule is there for nothing.
 */
export interface Mutant {
  /** What is broken, in words. */
  readonly name: string;
  readonly edits: readonly Edit[];
  /** The profile under which it shows. Default `everything`. */
  readonly profile?: Profile;
  /** The plots in which it shows. Default: any. */
  readonly plots?: PlotGroup;
  /** Steps within which the simulation has to notice. Default 1,000,000. */
  readonly steps?: number;
  /** A test that notices instead, and why the simulation cannot. */
  readonly focused?: { readonly test: string; readonly because: string };
}

type More = Pick<Mutant, 'profile' | 'plots' | 'steps' | 'focused'>;

/** The `[find, replace]` pairs are of one file. */
function mutant(name: string, file: string, [find, replace]: readonly [string, string], more: More = {}): Mutant {
  return { name, edits: [{ file, find, replace }], ...more };
}

const JOBS = 'lib/testing/memory-jobs.ts';
const DISPATCHES = 'lib/testing/memory-dispatches.ts';
const WORKERS = 'lib/testing/memory-workers.ts';
const ROUNDS = 'lib/testing/memory-rounds.ts';
const RESTORES = 'lib/testing/memory-restores.ts';
const SERVICES = 'lib/testing/memory-services.ts';
const REQUEST = 'lib/pool/decide-request.ts';
const REPORT = 'lib/pool/decide-report.ts';
const LOST = 'lib/pool/decide-owner-lost.ts';
const DECISION = 'lib/pool/decision.ts';
const EFFECTS = 'lib/pool/effects.ts';
const BATCH = 'lib/pool/batch.ts';
const ENTRY = 'lib/resync/decide-entry.ts';
const EXPIRY = 'lib/resync/decide-expiry.ts';
const RESTORE = 'lib/resync/decide-restore.ts';
const RUN_ROUND = 'lib/resync/run-round.ts';
const PAGE = 'lib/resync/apply-page.ts';
const SWEEP = 'lib/resync/sweep.ts';
const LANE = 'lib/worker/key-lane.ts';
const FENCES = 'lib/worker/fences.ts';
const LEASE = 'lib/worker/lease.ts';
const SESSION = 'lib/worker/session.ts';
const RUNTIME = 'lib/worker/runtime.ts';

/** Conditions of writes and transactions; the stores in memory look at the same ones as those on DynamoDB (test/conformance). */
const CONDITIONS: readonly Mutant[] = [
  mutant('a job is committed over whatever is there', JOBS, ['return rev === expected;', 'return true;']),
  mutant('a job that is there is committed over by who saw none', JOBS, [
    'return rev === expected;',
    'return expected === undefined || rev === expected;',
  ]),
  mutant('an end and its settlement are committed whatever the dispatch is by now', JOBS, [
    'if (!dispatches.canChange(dispatch.next, dispatch.expected)) return',
    'if (false) return',
  ]),
  mutant('a dispatch is admitted over one that is there', DISPATCHES, ["if (current) return { outcome: 'lost', current };", '']),
  mutant('a dispatch is changed whatever its status is by now', DISPATCHES, [
    "if ((current?.status ?? 'absent') !== expected) return false;",
    '',
  ]),
  mutant('a dispatch is changed by what is about another request', DISPATCHES, [
    'isSameRequest(current, next.key, next.fingerprint) && current.fence <= maxFence',
    'current.fence <= maxFence',
  ]),
  mutant('a dispatch that no job names is ended by an old end, though a start of a higher fence is out', DISPATCHES, [
    'isSameRequest(current, next.key, next.fingerprint) && current.fence <= maxFence',
    'isSameRequest(current, next.key, next.fingerprint)',
  ]),
  mutant('a dispatch record’s fence falls', DISPATCHES, ['if (stored && stored.dispatch.fence < fence)', 'if (stored)']),
  mutant('a round that is closed is armed', ROUNDS, ['if (!current || !isOpen(current))', 'if (!current)']),
  mutant('an answer page is counted twice', ROUNDS, [
    "if (round.state !== 'armed' || round.applied.has(page))",
    "if (round.state !== 'armed')",
  ]),
  mutant('an answer page of a closed round is counted', ROUNDS, [
    "if (round.state !== 'armed' || round.applied.has(page))",
    'if (round.applied.has(page))',
  ]),
  mutant('a round that is resolved is closed once more', ROUNDS, ["if (!isOpen(round)) return { outcome: 'lost', current: round };", '']),
  mutant('a question is overwritten by a later one', ROUNDS, ['if (!this.#pages.has(name))', 'if (true)']),
  mutant('a worker’s row is changed though another session has it', WORKERS, [
    'return row?.session === session && when(row) ? this.#write',
    'return row && when(row) ? this.#write',
  ]),
  mutant('a worker’s row is changed whatever its state', WORKERS, ['return states.includes(row.state) && (beat', 'return (beat']),
  mutant('a worker is declared lost though it beat in between', WORKERS, [' && (beat === undefined || row.beat === beat)', '']),
  {
    name: 'a heartbeat renews a row that is revoked or lost',
    edits: [
      { file: WORKERS, find: '(row) => isPresent(row) && row.beat < said.beat', replace: '(row) => row.beat < said.beat' },
      { file: LEASE, find: 'if (row.session !== session || !isPresent(row)) return', replace: 'if (row.session !== session) return' },
    ],
  },
  mutant('a late heartbeat lowers the beat', WORKERS, ['isPresent(row) && row.beat < said.beat', 'isPresent(row)']),
  mutant('heartbeats are counted by the row', WORKERS, [
    'const { workerId, session, ...change } = said;',
    'said = { ...said, beat: (this.#rows.get(said.workerId)?.beat ?? 0) + 1 };\n    const { workerId, session, ...change } = said;',
  ]),
  mutant('a worker that is revoked takes itself for draining', WORKERS, ["({ state }) => state === 'active', {", '() => true, {']),
  mutant('a worker that is lost says that it left', WORKERS, [
    "({ state }) => state === 'draining' || state === 'left', {",
    '() => true, {',
  ]),
  ...RESTORE_CONDITIONS.map((condition) =>
    mutant(
      `a restoration does not look at the ${condition}`,
      RESTORES,
      ['const { jobs, dispatches, without } = this.#options;', `const { jobs, dispatches, without = '${condition}' } = this.#options;`],
      { profile: 'restore' },
    ),
  ),
];

/** Every state owes its effects, and whoever finds its work done repeats them. */
const HEALING: readonly Mutant[] = [
  mutant('a start that comes again does not send the start again', REQUEST, [
    "{ rule: 'start repeated', effects: owed(job, context.now) }",
    "{ rule: 'start repeated' }",
  ]),
  mutant('a start that was answered does not settle the end that it meets', REQUEST, [
    "effects: job?.status === 'ended' ? owed(job, context.now) : [] };\n\n",
    'effects: [] };\n\n',
  ]),
  mutant('a start that waits and replaces does not send the stop again', REQUEST, [
    'effects: sentStop ? owed(job, context.now) : []',
    'effects: []',
  ]),
  mutant('a start that is refused does not settle the end that it meets', REQUEST, [
    "...(job?.status === 'ended' ? owed(job, now) : []),\n    ],",
    '],',
  ]),
  mutant('a stop that comes again does not send the stop again', REQUEST, [
    '...(changed ? { next: changed } : {}), effects: owed(job, now) };',
    '...(changed ? { next: changed } : {}) };',
  ]),
  mutant('a stop that meets an end does not settle it', REQUEST, [
    "const again = job?.status === 'ended' ? owed(job, now) : [];",
    'const again: readonly Effect[] = [];',
  ]),
  mutant('a stop of what waits at an end does not settle the end', REQUEST, [
    "effects: job.status === 'ended' ? owed(alone, now) : [],",
    'effects: [],',
  ]),
  mutant('an assign that comes again does not send the start again', REQUEST, [
    "{ rule: 'assign repeated', effects: owed(job, now) }",
    "{ rule: 'assign repeated' }",
  ]),
  mutant('an assign does not look at who owns the job', REQUEST, [
    "{ rule: 'assign checks the owner', effects: [{ type: 'check-owner', job }] }",
    "{ rule: 'assign checks the owner' }",
  ]),
  mutant('a move that comes again does not send the release again', REQUEST, [
    "{ rule: 'move repeated', effects: owed(job, now) }",
    "{ rule: 'move repeated' }",
  ]),
  mutant('a notification that finds nobody does nothing for the job that waits', REQUEST, [', ...(job ? owed(job, now) : [])] };', '] };']),
  mutant('the report of an end that comes again does not settle it', REPORT, [
    '{ rule: `${report.type} repeated`, effects: owed(job, now) }',
    '{ rule: `${report.type} repeated` }',
  ]),
  mutant('a report that was overtaken does nothing for the job that waits', REPORT, [
    '...stopOfHolder(job, report, holder), ...owed(job, now)] };',
    '...stopOfHolder(job, report, holder)] };',
  ]),
  mutant('a report that a job is up does not send again what was asked of it', REPORT, [
    'effects: [...settled, ...owed(up, now)] };',
    "effects: up.status === 'running' ? owed(up, now) : settled };",
  ]),
  mutant('a report that does not match does not settle the end that it meets', REPORT, [
    ", ...(job?.status === 'ended' ? owed(job, now) : [])];\n\n  if (isEnd(report)) {",
    '];\n\n  if (isEnd(report)) {',
  ]),
  mutant('a stop that failed does not repeat what the job owes', REPORT, [
    "effects: job.status === 'stopping' ? [] : owed(job, now) };",
    '};',
  ]),
  mutant('a job that was let go owes no assign', DECISION, ['return job.dueAt <= now ? [assignRequest(job.key)] : [];', 'return [];']),
  mutant('a job that is up is not settled as started', DECISION, ['return [settleStarted(job, job.startedAt)];', 'return [];']),
  mutant('an end with one waiting behind it owes no assign', DECISION, [
    'return job.next === undefined ? [settleEnd(job)] : [settleEnd(job), assignRequest(job.key)];',
    'return [settleEnd(job)];',
  ]),
];

const REQUESTS: readonly Mutant[] = [
  mutant('a start that has its outcome is decided anew', REQUEST, [
    "if (dispatch && outcomeOf(dispatch)) return { rule: 'start",
    "if (dispatch && false) return { rule: 'start",
  ]),
  mutant('a start with another payload under the same id is not refused', REQUEST, [
    'if ((dispatch && !isSameRequest(dispatch, key, fingerprint)) ||',
    'if ((dispatch && dispatch.key !== key) ||',
  ]),
  mutant('the end of a job is overwritten before it is settled', REQUEST, [
    'before: [...(job ? [settleEnd(job)] : []), ...put(placed.fence)],',
    'before: put(placed.fence),',
  ]),
  mutant('the end of a job is not settled before its next takes its place', REQUEST, [
    'const before = [settleEnd(job)];',
    'const before: readonly Effect[] = [];',
  ]),
  mutant('next is dropped before it is settled', REQUEST, [
    "return { ...stop(alone, 'stop-requested', context, alone), before: [cancel(job.next, key, now)] };",
    "const { effects = [], ...rest } = stop(alone, 'stop-requested', context, alone);\n    return { ...rest, effects: [...effects, cancel(job.next, key, now)] };",
  ]),
  mutant('next is dropped and never settled', REQUEST, [
    "return { ...stop(alone, 'stop-requested', context, alone), before: [cancel(job.next, key, now)] };",
    "return stop(alone, 'stop-requested', context, alone);",
  ]),
  mutant('a stop of the dispatch that waits forgets to settle it', REQUEST, ['before: [cancel(dispatchId, key, now)],\n', '']),
  mutant('a job record names a dispatch that is not there yet', REQUEST, [
    'before: put(0), next: waiting };',
    'next: waiting, effects: put(0) };',
  ]),
  mutant('a next that was settled meanwhile gets its turn', REQUEST, [
    "return next?.status === 'admitted' && next.key === key;",
    'return next !== undefined && next.key === key;',
  ]),
  mutant('a start that found another dispatch’s job is swallowed', REQUEST, [
    'before: [...(turn.before ?? []), assignRequest(key)], again: true };',
    'before: [...(turn.before ?? []), assignRequest(key)] };',
  ]),
  mutant('nobody sees to the start of a next that another start admitted', REQUEST, [
    'before: [...(turn.before ?? []), assignRequest(key)], again: true };',
    'again: true };',
  ]),
  mutant(
    'a stop of what runs without a record is swallowed',
    REQUEST,
    ["if (dispatch?.status === 'started' || (!job && pool.state === 'recovering')) return missing(key, dispatchId);", ''],
    { profile: 'restore' },
  ),
  mutant(
    'a start from before the pool was recovered is sent again under its old fence',
    REQUEST,
    [
      "return isOutdated(job, pool.generation) ? assignAnew(job, context) : { rule: 'assign repeated', effects: owed(job, now) };",
      "return { rule: 'assign repeated', effects: owed(job, now) };",
    ],
    { profile: 'restore' },
  ),
  mutant('a stop that comes before its start is forgotten', REQUEST, [
    'effects: [cancel(dispatchId, key, now), ...again] };',
    'effects: again };',
  ]),
  mutant('a move of an old fence moves the job', REQUEST, [
    "if (!job || (job.status !== 'ended' && job.fence !== fence)) return",
    'if (!job) return',
  ]),
  mutant('an assign does not wait until the job is due', REQUEST, ["if (job.dueAt > now) return { rule: 'assign not due' };", '']),
  mutant('a job is placed in a pool that is not open', REQUEST, ["const owner = pool.state === 'open' ?", 'const owner = pool.state ?']),
  mutant('a start is refused as closed by nobody', REQUEST, [
    "if (pool.state === 'closed') return",
    "if (pool.state === ('shut' as string)) return",
  ]),
  mutant('a start that expired is run', REQUEST, ['if (start.expiresAt !== undefined && start.expiresAt <= now)', 'if (false)']),
  mutant('a second next takes the place of the first', REQUEST, [
    "if (job.next !== undefined) return refuse({ outcome: 'refused', reason: 'next-taken' }, 'start refused: next-taken');",
    '',
  ]),
];

const OWNERSHIP: readonly Mutant[] = [
  mutant('the fence does not rise', 'lib/pool/job.ts', ['Math.max(previous + 1, now)', 'Math.max(previous, 1)']),
  mutant('a fence is given again after its record was lost', 'lib/pool/job.ts', ['Math.max(previous + 1, now)', 'previous + 1'], {
    profile: 'restore',
  }),
  mutant('a draining worker is taken for lost', 'lib/pool/worker.ts', [
    "row.state === 'lost' ||",
    "row.state === 'lost' || row.state === 'draining' ||",
  ]),
  mutant('a revoked worker is taken for lost', 'lib/pool/worker.ts', [
    "row.state === 'lost' ||",
    "row.state === 'lost' || row.state === 'revoked' ||",
  ]),
  mutant('a worker that left is not taken for lost', 'lib/pool/worker.ts', [" || row.state === 'left';", ';']),
  mutant('a session that was replaced is not taken for lost', 'lib/pool/worker.ts', ['row.session !== owner.session || ', '']),
  mutant('a job is placed at a worker that drains or is gone', 'lib/pool/worker.ts', [
    "return row.state === 'active' && row.generation",
    'return row.generation',
  ]),
  mutant('a job is placed at a worker that the pool has not seen', 'lib/pool/worker.ts', ['row.generation === generation && ', '']),
  mutant('the owner’s row is not read before a command', EFFECTS, [
    'if (carrier.checksOwner && (await isLost',
    'if (false && (await isLost',
  ]),
  mutant('a job that was being stopped goes on elsewhere when its owner is lost', LOST, [
    "if (job.status === 'stopping') {",
    "if (job.status === ('never' as string)) {",
  ]),
  mutant('what waits after a move or a notification owes no assign', LOST, [
    "return { rule: 'owner lost: pending', next: free, effects: owed(free, now) };",
    "return { rule: 'owner lost: pending', next: free };",
  ]),
  mutant('a move or a notification places the job of a lost owner', LOST, [
    "if (op !== 'start' && op !== 'assign') return",
    'if (false) return',
  ]),
  mutant('the job of a lost owner goes to the same session again', LOST, [
    'context.workers.filter(({ session }) => session !== job.owner.session);',
    'context.workers;',
  ]),
  mutant('effects come before the commit', EFFECTS, ['for (const effect of before) {', 'for (const effect of [...before, ...effects]) {']),
  mutant('an end is settled before it is committed', EFFECTS, [
    'for (const effect of before) {',
    "for (const effect of [...before, ...(next?.status === 'ended' ? effects.filter(({ type }) => type === 'settle') : [])]) {",
  ]),
  mutant('what is to be durable first is done after the commit', EFFECTS, [
    'export async function carryOut(carrier: Carrier, { before = [], next, effects = [] }: Decision, rev: string | undefined): Promise<Carried> {',
    'export async function carryOut(carrier: Carrier, of: Decision, rev: string | undefined): Promise<Carried> {\n  const { before, next, effects } = { before: [] as readonly Effect[], next: of.next, effects: [...(of.effects ?? []), ...(of.before ?? [])] };',
  ]),
  mutant('a lost race sends what it decided', EFFECTS, ["if (committed?.outcome === 'lost') return { outcome: 'lost-race' };", '']),
  mutant('a start is sent under a fence that its record does not know', EFFECTS, ['if (dispatch.fence < fence) await', 'if (false) await']),
  mutant('a start whose inbox is not there is taken for sent', EFFECTS, [
    'throw new PoolError(\'unavailable\', `worker "${worker}": no inbox',
    'if (worker) return;\n  throw new PoolError(\'unavailable\', `worker "${worker}": no inbox',
  ]),
  mutant('a settlement overwrites an end', 'lib/pool/dispatch.ts', [
    "case 'ended':\n    case 'never-started':\n      return undefined;",
    "case 'ended':\n    case 'never-started':\n      return by.end ? { ...head, status: 'ended', outcome: by.outcome, end: by.end, expiresAt } : undefined;",
  ]),
  mutant('a later owner makes it another outcome', 'lib/pool/transitions.ts', [
    "status: 'running', startedAt: job.startedAt ?? startedAt };",
    "status: 'running', startedAt };",
  ]),
  mutant('each send of a start has the dispatch id as its deduplication id', SERVICES, [
    'group: request.key, deduplicationId: this.#ids.next() });',
    "group: request.key, deduplicationId: ('dispatchId' in request && request.dispatchId) || this.#ids.next() });",
  ]),
  mutant('each assign of a key has the same deduplication id', SERVICES, [
    'group: request.key, deduplicationId: this.#ids.next() });',
    "group: request.key, deduplicationId: request.op === 'assign' ? request.key : this.#ids.next() });",
  ]),
  mutant('a batch goes on behind a message that failed', BATCH, ['const kept = group.slice(index);', 'const kept = [delivery];']),
  mutant('a message that fails for good is tried for ever', BATCH, [
    '(hopeless || delivery.receiveCount >= LAST_RECEIVE)',
    'delivery.receiveCount >= 1e9',
  ]),
];

const REPORTS: readonly Mutant[] = [
  mutant('a report assigns', REPORT, [
    'const next = pending(job, answer.because, answer.dueAt, {',
    "if (answer.because === 'released') {\n    const next = { ...job, status: 'assigned', fence: job.fence + 1, assignedAt: now } as never;\n    return { rule, next, effects: owed(next, now) };\n  }\n  const next = pending(job, answer.because, answer.dueAt, {",
  ]),
  mutant('a report matches whatever its dispatch', REPORT, [
    'if (job.dispatchId !== report.dispatchId || job.fence !== report.fence)',
    'if (job.fence !== report.fence)',
  ]),
  mutant('a report matches whatever its fence', REPORT, [
    'if (job.dispatchId !== report.dispatchId || job.fence !== report.fence)',
    'if (job.dispatchId !== report.dispatchId)',
  ]),
  mutant('a report matches whichever session it is of', REPORT, ['(isForGood || job.owner.session === report.session)', 'true']),
  mutant('an end of the session before is not taken', REPORT, [
    '(isForGood || job.owner.session === report.session)',
    'job.owner.session === report.session',
  ]),
  mutant('finished at pending is dropped', REPORT, [
    "if (answer.type === 'over' && news) {",
    "if (answer.type === 'over' && news && report.type !== 'finished') {",
  ]),
  mutant('a start that failed ends a job that was given to another since', REPORT, [
    "const news = report.type === 'finished' || job.because === 'owner-lost' || job.because === 'unrecognized';",
    'const news = true;',
  ]),
  mutant('a retryable end uses an attempt each time that it is told', REPORT, [
    "answer.because === 'restart' && job.because !== 'restart'",
    "answer.because === 'restart'",
  ]),
  mutant('a retryable end that is told again uses up the last attempt', REPORT, [
    "const restarts = job.status === 'pending' && job.because === 'restart';",
    'const restarts = false;',
  ]),
  mutant('released at stopping is ignored', REPORT, [
    "if (job.status === 'ended') return { rule: `${report.type} repeated`",
    "if (job.status === 'stopping' && report.type === 'released') return { rule: 'ignored' };\n  if (job.status === 'ended') return { rule: `${report.type} repeated`",
  ]),
  mutant('released at stopping places the job again', REPORT, [
    "(isEnd(report) || report.type === 'refused')) {",
    "((isEnd(report) && report.type !== 'released') || report.type === 'refused')) {",
  ]),
  mutant('what really runs under a higher fence is not heard', REPORT, ['if (job && report.fence > job.fence) {', 'if (false) {'], {
    profile: 'restore',
  }),
  mutant(
    'a key-busy answer stops a dispatch that is started and not ended',
    REPORT,
    ["if (holder?.status === 'started' && job.startedAt === undefined) return [];", ''],
    {
      profile: 'restore',
    },
  ),
  mutant('a key-busy answer stops nobody', REPORT, [
    'return [tellStop(report.session, { ...report.running, key: report.key })];',
    'return [];',
  ]),
  mutant('a stale handler is not told to stop', REPORT, [
    'effects: [tellStop(report.session, report), ...counted] };\n}',
    'effects: counted };\n}',
  ]),
  mutant('a release that failed leaves the job running, though this owner never had it up', REPORT, [
    'const kept = report.startedAt === undefined ? assignedAs(job) : running(job, report.startedAt);',
    'const kept = running(job, report.startedAt ?? report.at);',
  ]),
  mutant('a restart forgets since when the dispatch ran', REPORT, ['...startedAtOf(job, report),\n    ...busy,', '...busy,']),
  mutant('a job ends at the time of processing', REPORT, ['const { at: finishedAt } = report;', 'const finishedAt = report.at + 1;']),
  mutant('a job whose key is busy goes elsewhere', REPORT, ['...(isHeldThere(report) ? {', '...(false ? {']),
  mutant('a job that no job names is not ended by its end', REPORT, ['if (isNamed || !(isLive || (!job && !dispatch)))', 'if (true)'], {
    profile: 'restore',
  }),
];

const ROUNDS_AND_LEASES: readonly Mutant[] = [
  mutant('it is forgotten whether the job was running when the round was armed', RUN_ROUND, [
    "running: status === 'running' });",
    'running: true });',
  ]),
  mutant('the beat is looked at in Arm and not in Open', RUN_ROUND, [
    'await rounds.arm(token, { asked, deadline,',
    'await rounds.arm(token, { beat: row.beat, asked, deadline,',
  ]),
  mutant('the beat is looked at a little late', EXPIRY, ['if (row.beat === round.beat) {', 'if (row.beat - round.beat <= 1) {']),
  mutant('any round without a beat is a whole lease', EXPIRY, ['return ms >= row.leaseMs', 'return ms >= 0']),
  mutant('a worker that does not answer is never revoked', EXPIRY, ['return rounds >= context.maxSilentRounds', 'return rounds >= 1e9']),
  mutant('a worker that is behind is given time for ever', EXPIRY, [
    "if (silence.behind === round.token) return { outcome: 'again', silence };",
    '',
  ]),
  mutant('a worker that nobody managed to ask is never lost', EXPIRY, ["(round.state === 'closed' && !isCurrent)", '!isCurrent'], {
    focused: { test: 'test/resync/rounds.test.ts', because: 'sooner or later an execution of the next sweep manages to ask' },
  }),
  mutant('a worker that is behind is revoked', EXPIRY, ['if (!isCurrent || row.answered === round.token) {', 'if (!isCurrent) {']),
  mutant('a revoked worker is lost at once', RUN_ROUND, [
    "ports.telemetry.count('worker-revoked');\n      return waitFor(row, settings);",
    "ports.telemetry.count('worker-revoked');\n      return loseRevoked(ports, round);",
  ]),
  mutant('a revoked worker is waited for by the pool’s lease alone', RUN_ROUND, [
    'Math.ceil(Math.max(leaseMs, settings.leaseMs) / 1_000)',
    'Math.ceil(settings.leaseMs / 1_000)',
  ]),
  mutant('an execution is named without the minute', RUN_ROUND, ['${session}-${beat}-${Math.floor(now / 60_000)}', '${session}-${beat}']),
  mutant(
    'a round asks only those that own something',
    RUN_ROUND,
    ['if (pages) await atOnce(pages, (page) => ask', 'if (pages) await atOnce(pages.filter(({ jobs }) => jobs.length > 0), (page) => ask'],
    { profile: 'restore' },
  ),
  mutant('Arm asks another question the second time', RUN_ROUND, [
    'const pages = round.asked > 0 ? undefined : paged',
    'const pages = paged',
  ]),
  mutant('the row does not point at its round', RUN_ROUND, [
    '{ session: round.session, states: PRESENT }, { round: token });',
    '{ session: round.session, states: PRESENT }, {});',
  ]),
  mutant('what a lost worker owned is not reassigned', RUN_ROUND, [
    "ports.telemetry.count('worker-lost');\n      return beginReassigning(ports, round);",
    "ports.telemetry.count('worker-lost');\n      return DONE;",
  ]),
  mutant('a page of an older round is applied', PAGE, ['row.round === round.token &&\n', '']),
  mutant('a page of a round that is over is applied', PAGE, [
    "row.round === round.token &&\n    round.state === 'armed'",
    'row.round === round.token',
  ]),
  mutant('a page of the session before is applied', PAGE, ['row.session === session &&\n', '']),
  mutant('a page is applied while its worker is revoked', PAGE, ['isPresent(row) &&\n', '']),
  mutant('an entry of another fence is taken for an answer', PAGE, ['asked && asked.fence === entry.fence ?', 'asked ?']),
  mutant('a round settles after its commit', PAGE, ['checksOwner: false, settlesInCommit: true }', 'checksOwner: false }']),
  mutant('what was not up yet when it was asked about is lost', ENTRY, [
    "if (!asked.running || job.status === 'assigned') {",
    "if (job.status === 'assigned') {",
  ]),
  mutant(
    'a round sends a start from before the pool was recovered again under its old fence',
    ENTRY,
    ["if (!isHeld && job.status === 'assigned' && isOutdated(job, pool.generation))", 'if (false)'],
    { profile: 'restore' },
  ),
  mutant('a job whose handler is not there is never lost', ENTRY, [
    "case 'running':\n    case 'releasing': {\n      const next = pending",
    "case 'running':\n      return { rule: 'never lost' };\n    case 'releasing': {\n      const next = pending",
  ]),
  mutant('a stop of what is not there is never answered', ENTRY, [
    "case 'stopping': {\n      const next = ended",
    "case 'stopping': {\n      if (now) return { rule: 'never over' };\n      const next = ended",
  ]),
  mutant('a round declares the owner of another session lost', ENTRY, [
    "if (job.owner.session !== session) return { rule: 'entry of a previous session', effects: [assignRequest(job.key)] };",
    '',
  ]),
  mutant('what runs is adopted though it was let go', ENTRY, ["&& (job.because === 'owner-lost' || job.because === 'unrecognized');", ';']),
  mutant('what runs is adopted under an older fence', ENTRY, ['const wasTaken = job.fence === entry.fence && (', 'const wasTaken = (']),
  mutant('what was asked about is adopted', ENTRY, ['if (answering.asked || !wasTaken ||', 'if (!wasTaken ||']),
  mutant('what runs at a worker that is gone is adopted', ENTRY, ['!wasTaken || !isHere(row, answering))', '!wasTaken)']),
  mutant('what runs after its end is not stopped', ENTRY, [
    'effects: [tellStop(answering.session, entry), ...owed(job, now)] };',
    'effects: owed(job, now) };',
  ]),
  mutant('an end that a round brings is not applied', ENTRY, [
    '    default:\n      return decideReport(snapshot, asReport(entry, answering), context);',
    "    default:\n      return { rule: 'nothing' };",
  ]),
  {
    name: 'an active row is never stamped',
    edits: [
      {
        file: SWEEP,
        find: 'await workers.change(workerId, present, { generation, auditAt });',
        replace: 'await workers.change(workerId, present, { auditAt });',
      },
      {
        file: 'lib/pool/handle-report.ts',
        find: 'states: PRESENT }, { generation });',
        replace: 'states: PRESENT }, {});',
      },
    ],
  },
  mutant('a round from before its session settled is taken for an audit', SWEEP, ['&& round.openedAt >= auditAt', ''], {
    focused: { test: 'test/resync/sweep.test.ts', because: 'an index is late at the very end of a session once in millions of steps' },
  }),
  mutant('a job that waits is never asked for', SWEEP, ['againAt <= now).slice(0, free);', 'againAt <= now).slice(0, 0);']),
  mutant('a silent worker is never asked', SWEEP, ['return now - look.at >= leaseMs / 2 - EARLY_MS;', 'return false;']),
  mutant('a revoked worker whose execution died is never lost', SWEEP, [
    "(row.state === 'revoked' || (await this.#isNamed(row)))",
    "row.state !== 'revoked' && (await this.#isNamed(row))",
  ]),
  mutant('the jobs of a row that is lost are not reassigned by the sweep', SWEEP, [
    "(row.state === 'revoked' || (await this.#isNamed(row)))",
    "row.state === 'revoked'",
  ]),
];

const RESTORATION: readonly Mutant[] = (
  [
    ['a stale confirmed restores', ["if (!row || isOwnerLost(row, owner)) return 'session over';", '']],
    ['a confirmed restores in a pool that is closed', ["if (pool.state === 'closed') return 'pool closed';", '']],
    ['a confirmed restores in another generation', ["if (row.generation !== pool.generation) return 'other generation';", '']],
    [
      'a confirmed restores what has ended',
      [
        "return dispatch?.status === 'ended' || dispatch?.status === 'never-started' ? 'its dispatch is over' : undefined;",
        'return undefined;',
      ],
    ],
    ['a confirmed revives an ended job', ["if (job.status === 'ended') return refused('confirmed after its end');", '']],
    [
      'a confirmed takes the job from another owner',
      [
        "return isHere || job.status === 'pending' ? restored('completed') : refused('confirmed, owned by another');",
        "return restored('completed');",
      ],
    ],
    [
      'a confirmed under an old fence restores',
      ["if (report.fence < job.fence) return isHere ? unchanged('confirmed, assigned since') : refused('confirmed below the record');", ''],
    ],
    [
      'what runs with a higher fence is not restored over another dispatch',
      ["if (report.fence > job.fence) return restored('restored over another dispatch');", ''],
    ],
    [
      'a payload that is lost stays lost',
      [
        "const isMissing = there !== undefined || dispatch?.status !== 'started' || (payload !== undefined && !hasPayload);",
        "const isMissing = there !== undefined || dispatch?.status !== 'started';",
      ],
    ],
    [
      'a missing dispatch record stays missing',
      [
        "const isMissing = there !== undefined || dispatch?.status !== 'started' || (payload !== undefined && !hasPayload);",
        'const isMissing = there !== undefined;',
      ],
    ],
    [
      'the end of a job is overwritten by a restoration before it is settled',
      ["before: job?.status === 'ended' ? [settleEnd(job)] : [],", 'before: [],'],
    ],
    [
      'what is restored under a lower fence forgets the highest of its key',
      ['const above = job && lastFence(job) > fence ?', 'const above = false as boolean ?'],
    ],
    ['what a restoration displaces is never settled', ['...(displaced ? { displaced } : {}),\n      by:', 'by:']],
    ['what runs without a record is stopped', ["if (!job) return restored('restored');", "if (!job) return refused('restored');"]],
  ] as const
).map(([name, edit]) => mutant(name, RESTORE, edit, { profile: 'restore' }));

const WORKER: readonly Mutant[] = [
  mutant('the lease is measured from the answer', SESSION, [
    'this.#lease = renewed(this.#lease, sent);',
    'this.#lease = renewed(this.#lease, momentOf(this.#ports.clock));',
  ]),
  mutant('the lease is measured by the monotonic clock alone', LEASE, [
    'now.wall - since.wall, now.monotonic - since.monotonic',
    'now.monotonic - since.monotonic',
  ]),
  mutant('the lease is measured by the wall clock alone', LEASE, [
    'now.wall - since.wall, now.monotonic - since.monotonic',
    'now.wall - since.wall',
  ]),
  mutant('jobs are stopped at the end of the lease', LEASE, ['return untilMs(lease, now, 2 / 3);', 'return untilMs(lease, now, 1);']),
  mutant('an answer that was overtaken shortens the lease', LEASE, [
    'return sent.monotonic > lease.since.monotonic ? { ...lease, since: sent } : lease;',
    'return { ...lease, since: sent };',
  ]),
  mutant('the lease is not looked at before a handler is called', SESSION, [
    "if (!this.isOver && heldForMs(this.#lease, momentOf(this.#ports.clock)) === 0) this.end('expired');",
    '',
  ]),
  mutant('a heartbeat that is refused ends nothing', SESSION, [
    "if (heard.outcome === 'refused') return this.#refused(heard.row);",
    "if (heard.outcome === 'refused') return;",
  ]),
  mutant('a heartbeat that was overtaken is taken for refused', SESSION, [
    "if (this.isOver || heard.outcome === 'overtaken') return;",
    "if (heard.outcome === 'overtaken') return this.#refused(undefined);",
  ]),
  mutant('an inbox that is gone ends nothing', SESSION, [
    "this.end('no-inbox');\n        return true;",
    'await pause(timer, 1_000);\n        return true;',
  ]),
  mutant('commands are deleted from the inbox and not taken', SESSION, [
    'for (const { body } of received) this.#host.take(body);',
    'for (const { body } of received.slice(1)) this.#host.take(body);',
  ]),
  {
    name: 'a registration is tried again under the same session',
    edits: [
      {
        file: RUNTIME,
        find: 'for (let failures = 1; !draining; failures += 1) {',
        replace: 'const id = ports.ids.next();\n    for (let failures = 1; !draining; failures += 1) {',
      },
      { file: RUNTIME, find: 'const id = ports.ids.next();\n      try {', replace: 'try {' },
    ],
  },
  mutant('a worker registers anew while handlers of its last session live', RUNTIME, [
    'await stopped();\n      if (draining',
    'if (draining',
  ]),
  mutant('a worker says that it left while handlers are alive', 'lib/worker/drain.ts', [
    'if (host.running > 0 || session.isOver) return false;',
    'if (session.isOver) return false;',
  ]),
  mutant('a worker that drains does not mark its row', 'lib/worker/drain.ts', [
    "const marked = written('drain', host, session, deadline);",
    'const marked = Promise.resolve(true);',
  ]),
  {
    name: 'a command of another session is obeyed',
    edits: [
      { file: RUNTIME, find: '} else if (parsed.value.session !== session?.id) {', replace: '} else if (false) {' },
      {
        file: RUNTIME,
        find: 'mayAct: (id) => session?.id === id && session.holdsLease(),',
        replace: 'mayAct: () => session?.holdsLease() === true,',
      },
    ],
  },
  mutant('a report that failed to be sent is forgotten', 'lib/worker/outbox.ts', ['this.#retry(batch, error);\n      return;', '']),
  mutant('an answer counts as sent before the report queue has it', 'lib/worker/round.ts', [
    'if (this.#sent.size === pages) this.answered = round;',
    'this.answered = round;',
  ]),
  mutant(
    'an answer does not speak of what was not asked about',
    'lib/worker/round.ts',
    ['return [...live, ...above.map(endEntry)];', 'return [];'],
    { profile: 'restore' },
  ),
  mutant('a start that has not returned is said to be running', 'lib/worker/round.ts', [
    "return startedAt === undefined ? { ...known, state: 'starting' } : { ...known, state: 'running', startedAt };",
    "return { ...known, state: 'running', startedAt: startedAt ?? 1 };",
  ]),
  mutant('a fence that ended is said to be unrecognized', 'lib/worker/round.ts', [
    'return end ? endEntry(end) :',
    'return false ? endEntry(end) :',
  ]),
  mutant('an older round is answered', 'lib/worker/round.ts', ["if (beat < this.#beat) return 'older-round';", '']),
  mutant('a start of a running job calls the handler', FENCES, [
    'if (up && up.dispatchId === command.dispatchId) {',
    'if (up && up.dispatchId === command.dispatchId && false) {',
  ]),
  mutant('a repeated start does not raise the fence', LANE, ['life.fence = Math.max(life.fence, fence);', '']),
  mutant('a start with another fingerprint is taken for the same', FENCES, [
    "return up.fingerprint === command.fingerprint ? { do: 'keep', fence } :",
    "return up ? { do: 'keep', fence } :",
  ]),
  mutant('a start at a busy key runs beside the other', FENCES, [
    "if (up) return fence > up.fence ? { do: 'refuse'",
    "if (up && fence < up.fence) return fence > up.fence ? { do: 'refuse'",
  ]),
  mutant('a start of a fence that ended runs', FENCES, [
    "const report = ends.at(fence);\n  if (report) return { do: 'repeat', report };\n  if (ends.reach(fence)) {",
    'if (false) {\n    const report = undefined as never;',
  ]),
  mutant('a start below a fence that ended runs', FENCES, ['if (ends.reach(fence)) {', 'if (false) {']),
  mutant('a draining worker starts', FENCES, ["if (isDraining) return { do: 'refuse', refusal: { reason: 'draining' } };", '']),
  mutant('a stop of an unknown fence does not end it', LANE, [
    'this.ends.cutOff({ upTo: command.fence, answer, reason });',
    'if (!this.#life) return this.#host.report(ended(answer, this.#fact(command, command.fence), reason));\n      this.ends.cutOff({ upTo: command.fence, answer, reason });',
  ]),
  mutant('a refusal does not end its fence', LANE, [
    "this.#remember({ type: 'refused', ...this.#fact(command, fence), ...refusal });",
    "this.#host.report({ type: 'refused', ...this.#fact(command, fence), ...refusal });",
  ]),
  mutant('a refusal ends every lower fence too', FENCES, ["if (report?.type === 'refused') return { do: 'repeat', report };", '']),
  {
    name: 'a stop is answered stopped though the job has finished',
    edits: [
      { file: FENCES, find: "if (known && known.report.type !== 'refused') return known;", replace: '' },
      { file: LANE, find: 'const known = this.ends.at(command.fence);', replace: 'const known = undefined as EndReport | undefined;' },
    ],
  },
  mutant('an end is forgotten by time alone', FENCES, [
    'if (unnamedSince === undefined || now - unnamedSince < inboxRetentionMs || this.#confirmed.has(fence)) continue;',
    'if (unnamedSince === -1) continue;',
  ]),
  mutant('an end that was confirmed is forgotten', FENCES, [' || this.#confirmed.has(fence)) continue;', ') continue;'], {
    profile: 'restore',
  }),
  mutant('an end is forgotten though the inbox may hold its command', FENCES, ['now - unnamedSince < inboxRetentionMs || ', '']),
  mutant('an end is forgotten before the report queue is known to have it', FENCES, [
    'if (end.provenBeat !== undefined && end.provenBeat <= beat) end',
    'end',
  ]),
  mutant('a stop does not interrupt a start', LANE, [
    "if (life?.phase !== 'starting' || life.fence > ending.upTo) return;",
    'if (ending) return;',
  ]),
  mutant('a stop that failed is not tried again', LANE, ['this.#retry = { ending, cancel };', 'cancel();']),
  mutant('the own end of a job is forgotten', LANE, ['if (!life?.ownEnd) return;', 'if (!life?.ownEnd || life.ownEnd) return;']),
  mutant('a released job is reported as stopped late', LANE, [
    "ending.kind === 'release' ? { ...ending, answer: 'stopped' } : ending",
    'ending',
  ]),
];

/** Why the simulation does not notice for sure. */
const RACE = 'whoever writes a record has read it, and two at the same moment are rare; the suite holds the store to each condition';
const HEAL = 'what it leaves out is made up for by another message of the key, or by a round; here each message is looked at alone';
const RARE = 'what it takes comes together too seldom in a million steps; here it is acted out';

/** Mutants that a test notices in place of the simulation. */
const NOTICED_BY_TESTS: readonly { readonly test: string; readonly because: string; readonly names: readonly string[] }[] = [
  {
    test: 'test/pool/request-table.test.ts',
    because: RARE,
    names: [
      'a stop of what runs without a record is swallowed',
      'a stop of what waits at an end does not settle the end',
      'a stop that meets an end does not settle it',
      'a start that is refused does not settle the end that it meets',
    ],
  },
  {
    test: 'test/because/ownership.test.ts',
    because: RARE,
    names: [
      'a job that no job names is not ended by its end',
      'a move or a notification places the job of a lost owner',
      'the job of a lost owner goes to the same session again',
      'an end is settled before it is committed',
      'a later owner makes it another outcome',
    ],
  },
  {
    test: 'test/because/recovery.test.ts',
    because: RARE,
    names: [
      'a start from before the pool was recovered is sent again under its old fence',
      'a round sends a start from before the pool was recovered again under its old fence',
    ],
  },
  {
    test: 'test/because/rounds.test.ts',
    because: RARE,
    names: [
      'a late heartbeat lowers the beat',
      'heartbeats are counted by the row',
      'a worker that does not answer is never revoked',
      'a worker that is behind is revoked',
      'a round settles after its commit',
      'a job whose handler is not there is never lost',
      'a silent worker is never asked',
    ],
  },
  {
    test: 'test/because/worker.test.ts',
    because: RARE,
    names: [
      'a heartbeat that is refused ends nothing',
      'a worker says that it left while handlers are alive',
      'a worker that drains does not mark its row',
      'a start of a running job calls the handler',
      'a repeated start does not raise the fence',
      'a start at a busy key runs beside the other',
      'a start below a fence that ended runs',
      'a refusal ends every lower fence too',
    ],
  },
  {
    test: 'test/conformance/dispatch-store.memory.test.ts',
    because: RACE,
    names: [
      'a dispatch is changed by what is about another request',
      'a dispatch that no job names is ended by an old end, though a start of a higher fence is out',
      'a dispatch record’s fence falls',
    ],
  },
  {
    test: 'test/conformance/job-store.memory.test.ts',
    because: RACE,
    names: [
      'a job that is there is committed over by who saw none',
      'an end and its settlement are committed whatever the dispatch is by now',
    ],
  },
  {
    test: 'test/conformance/restore-store.memory.test.ts',
    because: RACE,
    names: [
      'a restoration does not look at the displaced',
      'a restoration does not look at the state',
      'a restoration does not look at the row generation',
      'a restoration does not look at the pool generation',
      'a restoration does not look at the pool state',
    ],
  },
  {
    test: 'test/conformance/round-store.memory.test.ts',
    because: RACE,
    names: [
      'a round that is closed is armed',
      'an answer page is counted twice',
      'an answer page of a closed round is counted',
      'a round that is resolved is closed once more',
      'a question is overwritten by a later one',
    ],
  },
  {
    test: 'test/conformance/workers.memory.test.ts',
    because: RACE,
    names: [
      'a worker’s row is changed whatever its state',
      'a worker is declared lost though it beat in between',
      'a worker that is revoked takes itself for draining',
      'a worker that is lost says that it left',
    ],
  },
  {
    test: 'test/pool/crash-points.test.ts',
    because: HEAL,
    names: [
      'a start that comes again does not send the start again',
      'a start that was answered does not settle the end that it meets',
      'a start that waits and replaces does not send the stop again',
      'a stop that comes again does not send the stop again',
      'a move that comes again does not send the release again',
      'a notification that finds nobody does nothing for the job that waits',
      'the report of an end that comes again does not settle it',
      'a report that was overtaken does nothing for the job that waits',
      'a report that a job is up does not send again what was asked of it',
      'a stop that failed does not repeat what the job owes',
      'a job that was let go owes no assign',
      'an end with one waiting behind it owes no assign',
      'a next that was settled meanwhile gets its turn',
      'nobody sees to the start of a next that another start admitted',
      'a start is refused as closed by nobody',
      'finished at pending is dropped',
      'a start that failed ends a job that was given to another since',
      'a retryable end that is told again uses up the last attempt',
      'a key-busy answer stops nobody',
      'a stale handler is not told to stop',
      'a job whose key is busy goes elsewhere',
    ],
  },
  {
    test: 'test/pool/dispatch.test.ts',
    because: RARE,
    names: ['a settlement overwrites an end'],
  },
  {
    test: 'test/pool/healing.test.ts',
    because: RARE,
    names: ['a job is placed in a pool that is not open'],
  },

  {
    test: 'test/pool/owner-table.test.ts',
    because: RARE,
    names: ['what waits after a move or a notification owes no assign'],
  },
  {
    test: 'test/pool/placement.test.ts',
    because: RARE,
    names: ['a job is placed at a worker that the pool has not seen'],
  },
  {
    test: 'test/pool/report-table.test.ts',
    because: RARE,
    names: [
      'a key-busy answer stops a dispatch that is started and not ended',
      'a report that does not match does not settle the end that it meets',
      'a report matches whichever session it is of',
      'an end of the session before is not taken',
      'a retryable end uses an attempt each time that it is told',
    ],
  },
  {
    test: 'test/resync/entry-table.test.ts',
    because: RARE,
    names: [
      'a stop of what is not there is never answered',
      'what runs is adopted though it was let go',
      'what runs is adopted under an older fence',
      'what was asked about is adopted',
      'what runs at a worker that is gone is adopted',
      'what runs after its end is not stopped',
    ],
  },

  {
    test: 'test/resync/restore-conditions.test.ts',
    because: RACE,
    names: ['a restoration does not look at the session'],
  },
  {
    test: 'test/resync/restore-laws.test.ts',
    because: RARE,
    names: [
      'a confirmed restores in a pool that is closed',
      'a confirmed restores in another generation',
      'a confirmed revives an ended job',
      'a confirmed takes the job from another owner',
      'the end of a job is overwritten by a restoration before it is settled',
    ],
  },
  {
    test: 'test/resync/restore-table.test.ts',
    because: RARE,
    names: [
      'a stale confirmed restores',
      'a payload that is lost stays lost',
      'a missing dispatch record stays missing',
      'what runs without a record is stopped',
    ],
  },
  {
    test: 'test/resync/rounds.test.ts',
    because: RARE,
    names: [
      'Arm asks another question the second time',
      'a page of an older round is applied',
      'a page of a round that is over is applied',
      'a page of the session before is applied',
      'a page is applied while its worker is revoked',
      'an entry of another fence is taken for an answer',
    ],
  },
  {
    test: 'test/resync/run-round.test.ts',
    because: RARE,
    names: ['what a lost worker owned is not reassigned'],
  },
  {
    test: 'test/resync/sweep.test.ts',
    because: RARE,
    names: [
      'an active row is never stamped',
      'a revoked worker whose execution died is never lost',
      'the jobs of a row that is lost are not reassigned by the sweep',
    ],
  },
  {
    test: 'test/simulation/focused.test.ts',
    because: RARE,
    names: [
      'a restart forgets since when the dispatch ran',
      'a start whose inbox is not there is taken for sent',
      'a registration is tried again under the same session',
    ],
  },

  {
    test: 'test/worker/lease.test.ts',
    because: RARE,
    names: ['an answer that was overtaken shortens the lease'],
  },
  {
    test: 'test/worker/outbox.test.ts',
    because: RARE,
    names: ['a report that failed to be sent is forgotten'],
  },
  {
    test: 'test/worker/round.test.ts',
    because: RARE,
    names: ['an answer counts as sent before the report queue has it', 'an older round is answered'],
  },
  {
    test: 'test/worker/runtime-table.test.ts',
    because: RARE,
    names: [
      'an inbox that is gone ends nothing',
      'a fence that ended is said to be unrecognized',
      'a start with another fingerprint is taken for the same',
      'a draining worker starts',
      'an end that was confirmed is forgotten',
      'an end is forgotten before the report queue is known to have it',
      'a stop does not interrupt a start',
      'a stop that failed is not tried again',
      'a released job is reported as stopped late',
    ],
  },
  {
    test: 'test/worker/self-fencing.test.ts',
    because: RARE,
    names: ['a command of another session is obeyed', 'a heartbeat that was overtaken is taken for refused'],
  },
];

export const MUTANTS: readonly Mutant[] = [
  ...CONDITIONS,
  ...HEALING,
  ...REQUESTS,
  ...OWNERSHIP,
  ...REPORTS,
  ...ROUNDS_AND_LEASES,
  ...RESTORATION,
  ...WORKER,
].map((mutant) => {
  const noticed = NOTICED_BY_TESTS.find(({ names }) => names.includes(mutant.name));
  return noticed ? { ...mutant, focused: { test: noticed.test, because: noticed.because } } : mutant;
});
