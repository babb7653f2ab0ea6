import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** Runs a script with a client on the machine's own clock and timer; its table knows the outcome at the second look. */
async function script(body: string): Promise<string> {
  const code = `
    import { createPool } from './lib/client/pool.ts';
    import { systemClock as clock, systemIds as ids, systemTimer as timer } from './lib/aws/system.ts';
    let looks = 0;
    const started = { dispatchId: 'd1', key: 'k', fence: 1, requestedAt: 0, status: 'started', outcome: { outcome: 'started', at: 5 } };
    const records = {
      dispatches: async () => new Map(++looks > 1 ? [['d1', started]] : []),
      jobs: async () => new Map(),
    };
    const pool = createPool({ records, clock, timer, ids });
    ${body}`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module-typescript', '-e', code], { timeout: 20_000 });
  return stdout.trim();
}

test('a script that waits lives until it has its answer', async () => {
  expect(await script(`console.log(JSON.stringify(await pool.dispatch('d1').outcome()));`)).toBe('{"outcome":"started","at":5}');
});

test('a script ends once its last wait is answered, whatever the deadline was', async () => {
  expect(await script(`await pool.dispatch('d1').outcome({ timeoutMs: 3_600_000 });`)).toBe('');
});

test('a script that disposes of its pool does not live on for a wait that it left open', async () => {
  const left = `pool.dispatch('d2').ended({ timeoutMs: 3_600_000 }).catch((error) => console.log(error.message)); pool[Symbol.dispose]();`;
  expect(await script(left)).toBe('the pool was disposed of');
});
