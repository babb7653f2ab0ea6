import { isDeepStrictEqual } from 'node:util';
import { afterAll, expect, test, vi } from 'vitest';
import { isOwned } from '../../lib/pool/job.ts';
import type { Call, CallFault } from '../../lib/testing/calls.ts';
import { MemoryPool } from '../../lib/testing/memory-pool.ts';
import type { Process } from '../../lib/testing/process.ts';
import { recordingHandler } from '../../lib/testing/recording-handler.ts';
import { Scheduler } from '../../lib/testing/scheduler.ts';

/**
 * A table is put back and recovered, by the real client, functions and workers. Played once without faults, which counts the calls of
 * all of them but the workers; then once per point: one call, one fault. An operator who dies is followed by another one. Whatever the
 * point, what is left behind has to be what is left behind without it.
 */
vi.setConfig({ testTimeout: 120_000 });

interface Point {
  readonly call: number;
  readonly fault: CallFault;
}

/** What is read: to die before it, to die after it and to lose its answer are one and the same, and so is why it failed. */
const READS = /\.(get|page|payload|workers|jobs|pendingKeys|recovered|inbox|getMany|ownedBy|due)$|^gauges/;
const CONDITIONAL = /^pool.change|^restores.restore|\.commit/;

/** Of functions, what they write: whatever they read before it, they read again. */
function faultsAt({ method, kind }: Called): readonly CallFault[] {
  if (READS.test(method)) return kind === 'client' ? ['failed', 'died-before'] : [];
  const faults: readonly CallFault[] = ['failed', 'answer-lost', 'died-before', 'died-after'];
  return kind === 'function' && CONDITIONAL.test(method) ? [...faults, 'conflict'] : faults;
}

interface Called {
  readonly method: string;
  readonly kind: Process['kind'];
}

const WAIT = { timeoutMs: 20 * 60_000 };

async function play(point?: Point) {
  const scheduler = new Scheduler();
  const calls: Called[] = [];
  let isArmed = false;
  let wasHit = false;
  let isUnsent = false;
  const fate = (call: Call): CallFault | undefined => {
    const [command] = call.args as readonly { readonly op?: string; readonly key?: string }[];
    if (isUnsent && call.service === 'commands' && command?.key === 'out') return 'failed';
    if (!isArmed || call.by.kind === 'worker') return undefined;
    const number = calls.push({ method: `${call.service}.${call.method}`, kind: call.by.kind }) - 1;
    if (number !== point?.call) return undefined;
    wasHit = true;
    return point.fault;
  };
  const handler = recordingHandler();
  const pool = new MemoryPool({ scheduler, leaseMs: 10_000, network: { fate: (call) => ({ delayMs: 1, fault: fate(call) }) } });
  const { jobs, dispatches } = pool.services;
  const processes: Process[] = [];
  const { pool: producer } = pool.connect('producer');
  const start = (key: string, dispatchId = `${key}-1`) => producer.start(key, dispatchId, { dispatchId, ifBusy: 'replace' });
  const until = async (is: () => boolean) => {
    for (let passedMs = 0; !is(); passedMs += 500) {
      if (passedMs > 300_000) throw new Error(`not within five minutes: ${is}`);
      await scheduler.advance(500);
    }
  };
  const isRunning = (key: string, dispatchId = `${key}-1`) => {
    const job = jobs.peek(key);
    return job?.status === 'running' && job.dispatchId === dispatchId;
  };
  const addWorker = async (workerId: string, capacity: number) => {
    const { process, runtime } = pool.startWorker({ workerId, handler, capacity });
    processes.push(process);
    await Promise.all([runtime.start(), scheduler.advance(2_000)]);
    return process;
  };

  // It has room for what is to move, and for no more.
  const leaving = await addWorker('w1', 2);
  for (const key of ['moved', 'gone']) void start(key);
  await until(() => isRunning('moved') && isRunning('gone'));

  await addWorker('w2', 20);
  for (const key of ['kept', 'finished', 'stopped', 'replaced']) void start(key);
  await until(() => ['kept', 'finished', 'stopped', 'replaced'].every((key) => isRunning(key)));
  isUnsent = true;
  void start('out');
  await until(() => jobs.peek('out')?.status === 'assigned');
  const restore = pool.services.backup('jobs');

  leaving.kill();
  await until(() => ['moved', 'gone'].every((key) => jobs.peek(key)?.status === 'running' && ownerOf(key) === 'w2'));
  handler.finish('finished', 'well');
  handler.finish('gone', 'well');
  void producer.stop('stopped');
  void start('replaced', 'replaced-2');
  void start('fresh');
  await until(() => isRunning('replaced', 'replaced-2') && isRunning('fresh') && jobs.peek('stopped')?.status === 'ended');
  await scheduler.advance(5_000);
  const before = { starts: handler.starts.length, stops: handler.stops.length };

  isArmed = true;
  isUnsent = false;
  const operators: Process[] = [];
  let report: Awaited<ReturnType<typeof producer.recover>> | undefined;
  let failure: unknown;
  for (let tries = 0; report === undefined && tries < 3; tries++) {
    const operator = pool.connect(`operator-${tries}`);
    operators.push(operator.process);
    let isOver = false;
    operator.process.onDeath(() => {
      isOver = true;
    });
    operator.pool.recover({ ...WAIT, putBack: async () => restore({ leavesPool: true }) }).then(
      (recovered) => {
        report = recovered;
        isOver = true;
      },
      (error: unknown) => {
        failure = error;
        isOver = true;
      },
    );
    await until(() => isOver);
  }
  isArmed = false;
  if (!report) throw failure ?? new Error('no operator came to an end');
  // What waits has its turn, and whatever was given up on comes again.
  await scheduler.advance(3 * 60_000);
  pool.end();
  for (const process of processes) process.kill();

  function ownerOf(key: string): string | undefined {
    const job = jobs.peek(key);
    return job && isOwned(job) ? job.owner.worker : undefined;
  }
  const records = jobs.all().map((job) => {
    const dispatch = dispatches.peek(job.dispatchId);
    return `${job.key}: ${job.status} ${job.dispatchId} at ${ownerOf(job.key)}, its dispatch ${dispatch?.status}`;
  });
  const lost = dispatches.peek('replaced-1');
  return {
    calls,
    wasHit,
    report: { ...report, rounds: 0, restored: [...report.restored].sort(byKey), again: [...report.again].sort(byKey) },
    operators: operators.length,
    left: {
      records: records.sort(),
      lost: lost?.status === 'ended' ? lost.end.status : lost?.status,
      starts: handler.starts
        .slice(before.starts)
        .map(({ key, dispatchId }) => `${key} ${dispatchId}`)
        .sort(),
      stops: handler.stops.slice(before.stops),
      fences: [...handler.live].map(([key, { fence }]) => `${key} ${jobs.peek(key)?.fence === fence}`).sort(),
      dead: [...pool.services.deadRequests.messages(), ...pool.services.deadReports.messages()].map(({ body }) => body),
    },
  };
}

function byKey(one: { readonly key: string }, other: { readonly key: string }): number {
  return one.key < other.key ? -1 : 1;
}

const calm = await play();
const points = calm.calls.flatMap((called, call) => faultsAt(called).map((fault): Point & Called => ({ ...called, call, fault })));

let covered = 0;
afterAll(() => {
  process.stdout.write(`crash points: ${covered} covered in a recovery\n`);
});

test('without any fault: what runs is left alone, and only what does not is started', () => {
  const lost = { key: 'replaced', dispatchId: 'replaced-1' };
  const again = ['gone', 'stopped'].map((key) => ({ key, dispatchId: `${key}-1` }));
  expect(calm.report).toMatchObject({ lost: [lost], again, waiting: [{ key: 'out', dispatchId: 'out-1' }], undecided: [] });
  expect(calm.left).toMatchObject({ starts: ['gone gone-1', 'out out-1', 'stopped stopped-1'], stops: [], dead: [], lost: 'failed' });
  expect(calm.left.fences.every((fence) => fence.endsWith('true'))).toBe(true);
});

test.for([...new Set(points.map(({ kind, method }) => `${kind} ${method}`))])('whichever %s fails, and however', async (name) => {
  const failures: string[] = [];
  for (const point of points.filter(({ kind, method }) => `${kind} ${method}` === name)) {
    const { wasHit, left, report, operators } = await play(point);
    if (!wasHit) continue;
    covered += 1;
    const where = `${point.fault} at call ${point.call}`;
    if (!isDeepStrictEqual(left, calm.left)) failures.push(`${where}: ${JSON.stringify(left)}`);
    // The one who follows an operator who died after it was over begins anew, and finds nothing to restore.
    else if (operators === 1 && !isDeepStrictEqual(report, calm.report)) failures.push(`${where}: ${JSON.stringify(report)}`);
  }
  expect(failures).toEqual([]);
});
