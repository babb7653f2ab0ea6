import { defineConfig } from 'vitest/config';

const conditions = ['holdfast-source'];

/** Three projects: `fast` needs nothing but Node; `infra` synthesises the construct; `emulator` runs on the deployed stack. */
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'fast',
          include: [
            'test/{wire,pool,resync,because,aws,worker,client,testing,simulation,stack,examples,demo,bench,docs}/**/*.test.ts',
            'test/conformance/*.memory.test.ts',
          ],
        },
      },
      {
        extends: true,
        test: {
          name: 'infra',
          include: ['test/{infra,package}/**/*.test.ts'],
          globalSetup: ['test/support/bundle.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'emulator',
          include: ['test/emulator/**/*.test.ts', 'test/conformance/*.emulator.test.ts'],
          globalSetup: ['test/support/emulator.ts'],
          testTimeout: 60_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
});
