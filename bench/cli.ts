/**
 * `npm run bench -- scale [--json]`: what a start costs in a pool that holds many jobs.
 * `npm run bench -- cost [--json]`: what a start and a stop cost on AWS; on the endpoint that `AWS_ENDPOINT_URL` names, else on an emulator.
 * `npm run bench -- resync [--json]`: what it takes to ask a worker of many jobs what it runs, and to give them to others when it is lost.
 * `npm run bench -- recovery [--json]`: how long the jobs of a worker that is killed run nowhere; on a local stack of its own.
 *
 * With `--json` the last line is one JSON object. Exit 1 where a number is beyond its limit, 2 where it was asked for something else.
 */
import { parseArgs } from 'node:util';
import { StackError } from '../stack/errors.ts';
import { type CostResult, cost } from './cost.ts';
import { type RecoveryResult, recovery } from './recovery.ts';
import { type ResyncResult, resync } from './resync.ts';
import { type ScaleResult, scale } from './scale.ts';

const print = (line: string) => process.stdout.write(`${line}\n`);
const log = (line: string) => process.stderr.write(`${line}\n`);

type Result = ScaleResult | CostResult | ResyncResult | RecoveryResult;

const benches: { readonly [name: string]: () => Promise<Result> } = {
  scale,
  cost: () => cost(log),
  resync: () => resync(log),
  recovery: () => recovery(log),
};

const usage = `usage: npm run bench -- ${Object.keys(benches).join(' | ')} [--json]`;

function askedFor(): { readonly run: () => Promise<Result>; readonly json: boolean } | undefined {
  try {
    const { positionals, values } = parseArgs({ allowPositionals: true, options: { json: { type: 'boolean', default: false } } });
    const [bench = '', ...more] = positionals;
    const run = Object.hasOwn(benches, bench) ? benches[bench] : undefined;
    return run && more.length === 0 ? { run, json: values.json } : undefined;
  } catch {
    return undefined;
  }
}

function tableOf(columns: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = [columns, ...rows.map((row) => row.map(String))];
  const widths = columns.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells
    .map((row) => row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  '))
    .join('\n');
}

function textOf(result: Result): string {
  switch (result.bench) {
    case 'scale':
      return tableOf(
        ['jobs in the pool', 'port calls', 'bytes', 'CPU ms'],
        result.cases.map(({ jobs, portCalls, bytes, cpuMs }) => [jobs, portCalls, bytes, cpuMs]),
      );
    case 'cost': {
      const summary = tableOf(
        [
          'payload bytes',
          'at once',
          'writes',
          'reads',
          'queue requests',
          'invocations',
          '$ per million',
          'queues',
          'tables',
          'functions',
          'logs',
        ],
        result.cases.map(({ dollars: { queues, tables, functions, logs }, ...each }) => [
          ...[each.payloadBytes, each.batch, each.writeUnits, each.readUnits, each.queueRequests, each.invocations],
          ...[each.dollarsPerMillion, queues, tables, functions, logs],
        ]),
      );
      const calls = result.cases.map((each) => {
        const rows = each.calls.map(({ call, times, writeUnits, readUnits, queueRequests }) => [
          call,
          times,
          writeUnits,
          readUnits,
          queueRequests,
        ]);
        return tableOf([`${each.payloadBytes} bytes, ${each.batch} at once`, 'times', 'writes', 'reads', 'queue requests'], rows);
      });
      return [summary, ...calls].join('\n\n');
    }
    case 'resync': {
      const summary = tableOf(
        ['jobs', 'fate', 'pages', 'bytes asked', 'answered', 'writes per job', 'of the round per page', 'requests per job', 'answer s'],
        result.cases.map((each) => [
          ...[each.jobs, each.fate, each.pages, each.questionBytes, each.answerBytes],
          ...[each.writesPerJob, each.roundWritesPerPage, each.requestsPerJob, each.answerSeconds],
        ]),
      );
      const functions = tableOf(
        ['jobs', 'fate', 'function', 'invocations', 'calls per job', 'CPU ms per job', 'wait s', 'CPU s', 'in all s', 'heap MB'],
        result.cases.flatMap(({ jobs, fate, functions }) =>
          functions.map((each) => [
            ...[jobs, fate, each.function, each.invocations, each.callsPerJob, each.cpuMsPerJob],
            ...[each.waitSeconds, each.cpuSeconds, each.seconds, each.heapMb],
          ]),
        ),
      );
      return [summary, functions].join('\n\n');
    }
    case 'recovery':
      return tableOf(
        [`leases of ${result.leaseSeconds} s`, 'min', 'median', 'max'],
        Object.entries({ 'from the kill until it runs elsewhere': result.recovery, ...result.phases }).map(
          ([what, { min, median, max }]) => [...[what, min, median, max]],
        ),
      );
    default:
      return result satisfies never;
  }
}

const asked = askedFor();
if (asked) {
  try {
    const result = await asked.run();
    print(textOf(result));
    if (asked.json) print(JSON.stringify(result));
    const breaches = [...result.breaches, ...('slow' in result ? result.slow : [])];
    for (const breach of breaches) log(`beyond its limit: ${breach}`);
    process.exitCode = breaches.length > 0 ? 1 : 0;
  } catch (error) {
    if (!(error instanceof StackError)) throw error;
    log(error.message);
    process.exitCode = 1;
  }
} else {
  log(usage);
  process.exitCode = 2;
}
