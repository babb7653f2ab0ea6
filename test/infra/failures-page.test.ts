import { readdirSync, readFileSync } from 'node:fs';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { describe, expect, test } from 'vitest';
import { JobPool } from '../../infra/index.ts';
import type { Count, Gauge } from '../../lib/pool/ports.ts';
import type { WorkerEvent } from '../../lib/worker/events.ts';
import { aPool } from './synthesised.ts';

const root = new URL('../../', import.meta.url);
const textOf = (file: string) => readFileSync(new URL(file, root), 'utf8');
const page = textOf('docs/failures.md');

// A name that is missing here, or is none any more, does not compile.
const metrics: Readonly<Record<Count | Gauge, true>> = {
  'request-refused': true,
  'stop-of-nothing': true,
  'notify-dropped': true,
  'report-unmatched': true,
  'page-discarded': true,
  'round-behind': true,
  'worker-lost': true,
  'worker-revoked': true,
  'command-dropped': true,
  restored: true,
  'owner-lost': true,
  'key-busy-alarm': true,
  'fingerprint-mismatch-alarm': true,
  'dead-lettered': true,
  running: true,
  pending: true,
  'pending-age': true,
  recovering: true,
};
const events: Readonly<Record<WorkerEvent['type'], true>> = {
  registered: true,
  renewed: true,
  'lease-lost': true,
  overrun: true,
  draining: true,
  left: true,
  'job-started': true,
  'job-refused': true,
  'job-start-failed': true,
  'job-stopped': true,
  'job-stop-failed': true,
  'job-ended': true,
  'job-released': true,
  'notify-failed': true,
  'report-retried': true,
  'command-dropped': true,
};

function alarms(): readonly string[] {
  const { stack } = aPool({ poolName: 'silent' });
  const events = EventBus.fromEventBusName(stack, 'Bus', 'default');
  return new JobPool(stack, 'Telling', { events }).alarms.map(({ node }) => node.id);
}

/** What the page names as alarm, metric, event or log. */
function named(kind: string): readonly string[] {
  return [...page.matchAll(new RegExp(`\\b${kind}\\s+\`([^\`]+)\``, 'gi'))].map(([, name]) => name as string);
}

/** What the first column of that table lists. */
function listed(heading: string): readonly string[] {
  const table =
    page
      .slice(page.indexOf(`\n| ${heading} |`))
      .trimStart()
      .split('\n\n')[0] ?? '';
  const firsts = table
    .split('\n')
    .slice(2)
    .map((row) => row.split('|')[1] ?? '');
  return firsts.flatMap((first) => [...first.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string));
}

describe('the page of failures', () => {
  test.for([
    ['alarm', alarms()],
    ['metric', Object.keys(metrics)],
    ['event', Object.keys(events)],
  ] as const)('lists every %s, and names no other', ([kind, there]) => {
    expect(listed(kind).toSorted()).toEqual(there.toSorted());
    for (const name of named(kind)) expect(there).toContain(name);
  });

  test('quotes lines that are logged', () => {
    const sources = ['lib/worker', 'lib/pool', 'lib/resync'].flatMap((folder) =>
      readdirSync(new URL(folder, root)).map((file) => textOf(`${folder}/${file}`)),
    );
    for (const line of named('log'))
      expect(
        sources.some((source) => source.includes(line)),
        line,
      ).toBe(true);
  });

  const proofs = [...page.matchAll(/`(test\/[^`]+)`((?:,\s+“[^”]+”)*)/g)].map(([, file, titles]) => ({
    file: file as string,
    titles: [...(titles as string).matchAll(/“([^”]+)”/g)].map(([, title]) => (title as string).replaceAll(/\s+/g, ' ')),
  }));

  test.for(proofs)('$file proves what it is named for', ({ file, titles }) => {
    const source = textOf(file);
    for (const title of titles) expect(source).toContain(title);
  });

  test('has what is seen, done and proven of each event', () => {
    const events = page
      .split(/^### /m)
      .slice(1)
      .filter((event) => !/^(Alarms|Metrics|A worker's own)/.test(event));
    expect(events.length).toBeGreaterThan(20);
    for (const event of events) {
      for (const part of ['Happens', 'Takes', 'You see', 'Do', 'Proof'])
        expect(event, `${event.split('\n')[0]}: ${part}`).toContain(`- **${part}**`);
    }
  });
});
