import { randomUUID } from 'node:crypto';
import { type ExecutionStatus, ListExecutionsCommand } from '@aws-sdk/client-sfn';
import { GetQueueAttributesCommand, GetQueueUrlCommand, type QueueAttributeName } from '@aws-sdk/client-sqs';
import { describe, expect, test } from 'vitest';
import { placeKey } from '../../lib/pool/placement.ts';
import { executionName } from '../../lib/resync/run-round.ts';
import { aName, becomes, deployedPool } from '../support/deployed-pool.ts';
import { Puppet, type PuppetOptions } from '../support/puppet.ts';

const LEASE_MS = 10_000;
/** What the emulator takes, and the seconds between two runs of the sweep. */
const SLACK_MS = 25_000;

const pool = await deployedPool('rounds', { leaseSeconds: String(LEASE_MS / 1_000) });
const { ending, poolConfig, operatorPorts, forWorkers, isSeen, producer, observer, operator, root, aWorker } = pool;

const rowOf = (workerId: string) => operatorPorts.operate.workers.get(workerId);

async function aPuppet(name: string, options: Partial<PuppetOptions> = {}): Promise<Puppet> {
  const workerId = aName(name);
  const puppet = ending.use(await Puppet.register(forWorkers, { workerId, leaseMs: LEASE_MS, ...options }));
  await isSeen(workerId);
  return puppet;
}

/** Starts a job that is then up there: at a key that placement gives to that worker. */
async function startAt({ workerId }: { readonly workerId: string }): Promise<string> {
  for (;;) {
    const rows = await operatorPorts.records.workers();
    const key = Array.from({ length: 1_000 }, () => randomUUID()).find(
      (each) => placeKey(each, rows, { generation: 1 })?.worker === workerId,
    );
    if (key === undefined) throw new Error(`nothing is placed on ${workerId}`);
    await producer.start(key, 'p');
    await becomes(true, async () => (await ownerOf(key)) !== undefined, 30_000);
    if ((await ownerOf(key)) === workerId) {
      await becomes('running', async () => (await observer.describe(key))?.status, 30_000);
      return key;
    }
    // It went by a list of workers that is some seconds old.
    await producer.stop(key);
  }
}

async function ownerOf(key: string): Promise<string | undefined> {
  const job = await observer.describe(key);
  return job && 'owner' in job ? job.owner.worker : undefined;
}

/** Resolves once it is up at another worker. */
async function movesFrom({ workerId }: { readonly workerId: string }, key: string, withinMs: number): Promise<void> {
  const look = async () => [(await observer.describe(key))?.status, (await ownerOf(key)) === workerId];
  await becomes(['running', false], look, withinMs);
}

async function executions(status: ExecutionStatus): Promise<readonly (string | undefined)[]> {
  const params = { stateMachineArn: poolConfig.resyncMachineArn, statusFilter: status };
  const { executions: all = [] } = await root.sfn.send(new ListExecutionsCommand(params));
  return all.map(({ name }) => name);
}

async function attributesOf(QueueUrl: string, name: QueueAttributeName): Promise<Readonly<Record<string, string>>> {
  return (await root.sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [name] }))).Attributes ?? {};
}

// Nobody was told of it but the sweep, which first runs some time after the deployment.
await aPuppet('unannounced', { isAnnounced: false });

const survivor = await aWorker('survivor');

describe.concurrent('a silent worker', { timeout: 180_000 }, () => {
  test('is lost after its lease, and its jobs run elsewhere within 2.5 leases, still the same dispatches (P16, F10)', async () => {
    const silent = await aPuppet('silent');
    const keys = [await startAt(silent), await startAt(silent)];
    const before = await Promise.all(keys.map((key) => observer.describe(key)));
    await silent.fallSilent();
    const withinMs = 2.5 * LEASE_MS + SLACK_MS;
    await becomes('lost', async () => (await rowOf(silent.workerId))?.state, withinMs);
    expect(Date.now() - silent.beatAt).toBeGreaterThanOrEqual(LEASE_MS);
    for (const [index, key] of keys.entries()) {
      await movesFrom(silent, key, withinMs);
      const [was, is] = [before[index], await observer.describe(key)];
      expect(is).toMatchObject({ status: 'running', dispatchId: was?.dispatchId, startedAt: was?.startedAt, attempt: 1 });
      expect(is?.fence).toBeGreaterThan(was?.fence ?? 0);
    }
    expect(Date.now() - silent.beatAt).toBeLessThan(withinMs);
    expect(await operator.worker(silent.workerId).resync({ timeoutMs: 1_000 })).toEqual({ outcome: 'lost' });
  });

  test('that was evicted and has no machine is seen to by the sweep', async () => {
    const revoked = await aPuppet('revoked');
    const { workerId, session } = revoked;
    await operatorPorts.operate.workers.change(workerId, { session, states: ['active'] }, { state: 'revoked' });
    const since = Date.now();
    await becomes('lost', async () => (await rowOf(workerId))?.state, 60_000 + LEASE_MS + SLACK_MS);
    expect(Date.now() - since).toBeGreaterThanOrEqual(LEASE_MS);
  });
});

describe.concurrent('a worker that is asked', { timeout: 180_000 }, () => {
  test('and answers keeps its jobs, and nothing is written (R5)', async () => {
    const keys = [await startAt(survivor), await startAt(survivor)];
    const before = await Promise.all(keys.map((key) => observer.describe(key)));
    const report = await operator.worker(survivor.workerId).resync({ timeoutMs: 60_000 });
    expect(report).toMatchObject({ outcome: 'answered', complete: true, skipped: 0 });
    expect(report.outcome === 'answered' && report.counts['entry agrees']).toBeGreaterThanOrEqual(keys.length);
    expect(await Promise.all(keys.map((key) => observer.describe(key)))).toEqual(before);
  });

  test('and whose answer arrives several times is heard once: a machine that was woken before is none the worse (R12, F39)', async () => {
    const stammering = await aPuppet('stammering');
    stammering.times = 3;
    await startAt(stammering);
    const report = await operator.worker(stammering.workerId).resync({ timeoutMs: 60_000 });
    if (report.outcome !== 'answered') throw new Error(report.outcome);
    const heard = Object.values(report.counts).reduce((sum, count) => sum + count);
    expect(stammering.asked.map(({ jobs }) => jobs.length)).toContain(heard);
  });

  test('and does not know a job that was confirmed to run there has it run again (R8)', async () => {
    const forgetful = await aPuppet('forgetful');
    const key = await startAt(forgetful);
    const before = await observer.describe(key);
    const isRunAgain = async () => {
      forgetful.forget(key, before?.fence);
      // One that was under way for another reason may have been answered before.
      await operator.worker(forgetful.workerId).resync({ timeoutMs: 60_000 });
      return ((await observer.describe(key))?.fence ?? 0) > (before?.fence ?? 0);
    };
    await becomes(true, isRunAgain, 60_000);
    expect(await observer.describe(key)).toMatchObject({ dispatchId: before?.dispatchId, startedAt: before?.startedAt });
  });

  test('and beats and never answers is given up on after three times, however often it is asked in the meantime (F11)', async () => {
    const mute = await aPuppet('mute');
    mute.answers = false;
    await becomes('revoked', () => outcomeOfAsking(mute), 4 * LEASE_MS + SLACK_MS);
    expect(new Set(mute.asked.map(({ round }) => round)).size).toBe(3);
    const since = Date.now();
    await becomes('lost', async () => (await rowOf(mute.workerId))?.state, LEASE_MS + SLACK_MS);
    expect(Date.now() - since).toBeGreaterThan(LEASE_MS / 2);
    expect(mute.heard).toMatchObject({ outcome: 'refused' });

    /** What asking comes to within a second; undefined: nothing yet. */
    async function outcomeOfAsking({ workerId }: Puppet): Promise<string | undefined> {
      return operator
        .worker(workerId)
        .resync({ timeoutMs: 1_000 })
        .then(
          ({ outcome }) => outcome,
          () => undefined,
        );
    }
  });

  test('under a name that was used starts nothing, and that is no error', async () => {
    const row = await rowOf(survivor.workerId);
    if (!row) throw new Error('the survivor has no row');
    const { machine } = operatorPorts.operate;
    const name = executionName(row, Date.now());
    const subject = { worker: row.workerId, session: row.session };
    await machine.start(name, subject);
    await machine.start(name, subject);
    await becomes([name], async () => (await executions('SUCCEEDED')).filter((each) => each === name), 30_000);
    await machine.start(name, subject);
    expect((await executions('SUCCEEDED')).filter((each) => each === name)).toHaveLength(1);
  });
});

describe.concurrent('an operator', { timeout: 180_000 }, () => {
  test('evicts a worker: it renews no more at once, is lost after a lease, and its jobs run elsewhere', async () => {
    const evicted = await aPuppet('evicted');
    const key = await startAt(evicted);
    const since = Date.now();
    await operator.worker(evicted.workerId).evict();
    expect((await rowOf(evicted.workerId))?.state).toBe('revoked');
    await operator.worker(evicted.workerId).evict();
    expect(await operator.worker(evicted.workerId).drain({ timeoutMs: 1_000 })).toMatchObject({ outcome: 'revoked' });
    await becomes('refused', async () => evicted.heard?.outcome, LEASE_MS);
    await becomes('lost', async () => (await rowOf(evicted.workerId))?.state, 2 * LEASE_MS + SLACK_MS);
    expect(Date.now() - since).toBeGreaterThanOrEqual(LEASE_MS);
    await movesFrom(evicted, key, LEASE_MS + SLACK_MS);
  });

  test('drains a worker: its jobs run elsewhere, and it has left', async () => {
    const leaving = await aWorker('leaving');
    const key = await startAt(leaving);
    const report = await operator.worker(leaving.workerId).drain({ timeoutMs: 90_000 });
    expect(report).toMatchObject({ workerId: leaving.workerId, outcome: 'left' });
    await movesFrom(leaving, key, SLACK_MS);
  });
});

test('in all of this no execution failed, and no report or request was given up on', async () => {
  expect(await executions('FAILED')).toEqual([]);
  for (const queue of [poolConfig.requestQueueUrl, poolConfig.reportQueueUrl]) {
    const { RedrivePolicy: policy = '' } = await attributesOf(queue, 'RedrivePolicy');
    const { deadLetterTargetArn: deadLetters }: { deadLetterTargetArn: string } = JSON.parse(policy);
    const { QueueUrl: url = '' } = await root.sqs.send(new GetQueueUrlCommand({ QueueName: deadLetters.split(':').at(-1) ?? '' }));
    expect(await attributesOf(url, 'ApproximateNumberOfMessages')).toEqual({ ApproximateNumberOfMessages: '0' });
  }
});
