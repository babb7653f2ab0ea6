import { parseArgs } from 'node:util';
import { rulesNeverReached } from './coverage.ts';
import { PROFILES, type Profile } from './profiles.ts';
import { describeFailure, simulate } from './simulate.ts';

// The one place of the simulation that knows real time and chance: to draw a seed, and to say how fast it went.

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    steps: { type: 'string', default: '100000' },
    profile: { type: 'string', default: 'everything' },
  },
});
const profile = PROFILES.find((known) => known === values.profile) as Profile | undefined;
const seed = Number(values.seed);
const steps = Number(values.steps);
if (!profile || !Number.isSafeInteger(seed) || !Number.isSafeInteger(steps)) {
  process.stderr.write(`usage: npm run simulate -- [--seed S] [--steps N] [--profile ${PROFILES.join('|')}]\n`);
  process.exit(2);
}

const print = (line: string) => process.stdout.write(`${line}\n`);
const began = performance.now();
const result = await simulate(seed, steps, profile);
const seconds = (performance.now() - began) / 1_000;

if (result.failure) print(`${describeFailure(result.failure)}\n`);
const faults = [...result.injected].sort(([, one], [, other]) => other - one).map(([kind, count]) => `${kind} ${count}`);
print(`seed ${seed}, profile ${profile}: ${result.steps} steps in ${result.worlds} worlds, ${Math.round(result.steps / seconds)} steps/s`);
print(`faults injected: ${faults.join(', ') || 'none'}`);
print(`rules never reached: ${rulesNeverReached(result.rules).join(', ') || 'none'}`);
// Not `exit`, which would cut off what a pipe has not taken yet.
process.exitCode = result.failure ? 1 : 0;
