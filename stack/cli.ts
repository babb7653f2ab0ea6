/**
 * `npm run stack`: brings the local stack up and keeps it until it is interrupted or its parent process ends. One JSON line on standard
 * output says how to reach it (endpoint, environment to export for each role, pool configuration); all else goes to standard error.
 * `HOLDFAST_POOL` names the pool (default `local`).
 */
import { StackError } from './errors.ts';
import { startLocalStack } from './local-stack.ts';

const interrupted = new AbortController();
const interruption = new Promise<void>((resolve) => interrupted.signal.addEventListener('abort', () => resolve()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());
// A killed `npm run` hands nothing on: this process gets another parent. The look-out is also what keeps this process alive.
const parent = process.ppid;
const watch = setInterval(() => process.ppid !== parent && interrupted.abort(), 250);
const say = (line: string): void => void process.stderr.write(`${line}\n`);

try {
  await using stack = await startLocalStack({ pool: process.env.HOLDFAST_POOL, log: say, signal: interrupted.signal });
  const { endpoint, region, pool, poolConfig, environments } = stack;
  process.stdout.write(`${JSON.stringify({ endpoint, region, pool, poolConfig, environments })}\n`);
  if (stack.log !== undefined) say(`log: ${stack.log}`);
  say('up; interrupt to end it');
  const end = await Promise.race([interruption, stack.ended.then(() => 'MiniStack ended by itself')]);
  if (end !== undefined) throw new StackError(end);
} catch (error) {
  if (!interrupted.signal.aborted) {
    say(error instanceof StackError ? error.message : String(error instanceof Error ? error.stack : error));
    process.exitCode = 1;
  }
} finally {
  clearInterval(watch);
}
