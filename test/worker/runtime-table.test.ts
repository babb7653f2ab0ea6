import { expect, test } from 'vitest';
import { fingerprintOf, type Report, type ResyncEntry } from '../../lib/wire/index.ts';
import { bytes, PAYLOAD } from '../../protocol/cast.ts';
import { runtimeRows } from '../../protocol/runtime.ts';
import { type SentCommand, type Way, WorkerStage } from '../support/worker-stage.ts';

for (const { meets, cases } of runtimeRows) {
  for (const { given = [], when, yields } of cases) {
    test(`table 4, ${meets}: ${[...given, when].join(', ')} → ${yields.join(', ') || 'nothing'}`, async () => {
      const acted = await actors(meets.includes('over capacity') ? 2 : 10);
      for (const step of given) await acted(step);
      expect(await acted(when)).toEqual(yields);
    });
  }
}

/** Acts a step out, and gives all that it brought about: calls and signals, then reports and what was told, each in order. */
async function actors(capacity: number): Promise<(step: string) => Promise<readonly string[]>> {
  const stage = await WorkerStage.registered({ capacity });
  const { handler } = stage;
  let beat = 0;
  let rounds = 0;
  let session = stage.session;

  async function act(step: string): Promise<void> {
    const [first = '', second = '', third = ''] = step.split(' ');
    if (/^(start|stop|notify) (works|throws|throws retryably|hangs)$/.test(step)) {
      handler.way = { ...handler.way, [first]: step.slice(first.length + 1) as Way };
    } else if (/^(start|stop) (returns|rejects)$/.test(step)) {
      handler.settle(first as 'start' | 'stop', second === 'rejects' ? new Error('told to') : undefined);
    } else if (/^(start|stop|release|notify|confirm) /.test(step)) {
      await stage.send(command(first, second, third, step.split(' ')));
    } else if (first === 'ask') {
      const jobs = second.startsWith('nothing') ? [] : [{ key: 'k', fence: Number(second), running: true }];
      await stage.send({ op: 'resync', round: `r${++rounds}`, beat: step.endsWith('as of before') ? 0 : beat, page: 1, pages: 1, jobs });
    } else if (step === 'k finishes') {
      handler.finish('k');
    } else if (step === 'k fails') {
      handler.fail('k', new Error('it broke'));
    } else if (step === 'drain') {
      void stage.worker.drain();
      await stage.advance(1_100);
    } else if (step === 'an operator drains') {
      await stage.services.workers.drain('w1', stage.session);
      await stage.advance(15_000);
    } else if (step === 'an operator evicts') {
      stage.end('revoked');
      await stage.advance(10_000);
    } else if (step === 'the inbox is deleted') {
      void stage.services.inboxes.remove(stage.session);
      await stage.advance(5_000);
    } else if (step === 'the row is unreachable') {
      stage.cutOff = new Set(['registry']);
    } else if (step === 'the row is reachable') {
      stage.cutOff = new Set();
    } else if (step.endsWith('s pass')) {
      await stage.advance(Number(first) * 1_000);
    } else {
      throw new Error(`nobody knows how to act "${step}" out`);
    }
    await stage.settle();
    beat = stage.services.workers.peek('w1')?.beat ?? 0;
  }

  return async (step) => {
    const from = { story: stage.story.length, reports: stage.reports.length, events: stage.events.length };
    const before = session;
    await act(step);
    session = stage.session;
    return [
      ...stage.story.slice(from.story).map((what) => (/^(start|stop|notify) /.test(what) ? `call ${what}` : what)),
      ...stage.reports.slice(from.reports).flatMap((report) => inWords(report, [before, session])),
      ...stage.events.slice(from.events).flatMap((event) => {
        if (event.type === 'command-dropped') return [`dropped: ${event.why}`];
        if (event.type === 'overrun') return [`overrun ${event.keys.join()}`];
        return event.type === 'left' && event.abandoned > 0 ? [`abandoned ${event.abandoned}`] : [];
      }),
    ];
  };
}

function command(op: string, second: string, third: string, words: readonly string[]): SentCommand {
  if (op === 'notify') return { op, key: 'k', fence: Number(second), id: 'n1', payload: bytes('hello') };
  if (op === 'confirm') return { op, key: 'k', fence: Number(second) };
  const key = words[3] === 'at' ? (words[4] as string) : 'k';
  const payload = words[3] === 'with' ? bytes('another') : second === 'd1' ? PAYLOAD.d1 : PAYLOAD.d2;
  const about = { key, dispatchId: second, fingerprint: fingerprintOf(key, payload), fence: Number(third) };
  switch (op) {
    case 'start':
      return { op, ...about, payload, attempt: 1 };
    case 'stop':
      return { op, ...about, reason: 'stop-requested' };
    default:
      return { op: 'release', ...about, reason: 'moved' };
  }
}

function inWords(report: Report, sessions: readonly string[]): readonly string[] {
  switch (report.type) {
    case 'registered':
    case 'left':
      return [report.type];
    case 'resync':
      return [`answer ${report.page}/${report.pages}: ${report.entries.map(entryInWords).join(', ') || 'nothing'}`];
    case 'started':
      return [`started ${report.dispatchId} ${report.fence}`];
    case 'confirmed':
      return [`confirmed ${report.dispatchId} ${report.fence} ${new TextDecoder().decode(report.payload)}`];
    default: {
      const facts = [
        ...('error' in report && report.error
          ? [report.error.code, ...(report.error.retryable && report.error.code !== 'timeout' ? ['retryable'] : [])]
          : []),
        ...('reason' in report && report.reason ? [report.reason + busyWith(report)] : []),
        ...(report.startedAt !== undefined && report.type !== 'stop-failed' ? ['ran'] : []),
      ];
      const older = sessions.includes(report.session) ? '' : ' in an older session';
      return [`${report.type} ${report.dispatchId} ${report.fence}${older}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`];
    }
  }
}

function busyWith(report: Report): string {
  return report.type === 'refused' && report.reason === 'key-busy' ? `: ${report.running.dispatchId} ${report.running.fence}` : '';
}

function entryInWords({ key, fence, state }: ResyncEntry): string {
  return `${key} ${fence} ${state}`;
}
