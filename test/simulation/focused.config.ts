import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { MUTANTS } from './mutants.ts';
import { edited, ROOT } from './transform.ts';

/** Runs tests on the code of the mutant that the environment names (mutation.ts). */
const mutant = MUTANTS.find(({ name }) => name === process.env.HOLDFAST_MUTANT);
if (!mutant) throw new Error(`no such mutant: ${process.env.HOLDFAST_MUTANT}`);

export default defineConfig({
  root: fileURLToPath(ROOT),
  resolve: { conditions: ['holdfast-source'] },
  ssr: { resolve: { conditions: ['holdfast-source'] } },
  plugins: [
    {
      name: 'mutant',
      enforce: 'pre',
      transform: (code, id) => mutant.edits.filter(({ file }) => id === fileURLToPath(new URL(file, ROOT))).reduce(edited, code),
    },
  ],
  // What is transformed for one mutant must not be found again, neither by the next nor by a run of the code as it is written.
  test: { include: ['test/**/*.test.ts'], bail: 1, fsModuleCache: false },
});
