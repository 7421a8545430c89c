import { availableParallelism } from 'node:os';

/** @type {import('jest').Config} */
export const base = {
  rootDir: import.meta.dirname,
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^(\\.{1,2}/.*)\\.js$': '$1',
    // The sources, and not what was built of them: a class must not exist twice.
    '^waybill/extension$': '<rootDir>/src/extension.ts',
  },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
          target: 'es2022',
          keepClassNames: true,
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
};

/* Tests that compare durations. They run last, with nothing beside them; see test/support/measuring.ts. */
const TIMING = '**/*.timing.spec.ts';

const withServer = {
  ...base,
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
};

export default {
  // One more than there are cores: many tests wait for a process or for time to pass.
  maxWorkers: availableParallelism() + 1,
  testSequencer: '<rootDir>/test/support/longest-first.mjs',
  // For what hangs, not for what is slow: nothing takes a tenth of it, and a loaded machine may take five times as long.
  testTimeout: 600_000,
  collectCoverageFrom: ['src/**/*.ts', '!src/**/*.spec.ts'],
  projects: [
    // The whole thing as people meet it: started as `npm start` does, in processes of its own.
    { ...base, displayName: 'system', testMatch: ['<rootDir>/test/system/**/*.spec.ts'] },
    {
      ...base,
      displayName: 'unit',
      testMatch: ['<rootDir>/{src,demo}/**/*.spec.ts', '<rootDir>/test/{openapi,docs}/**/*.spec.ts', `!${TIMING}`],
    },
    {
      ...withServer,
      displayName: 'integration',
      testMatch: ['<rootDir>/test/integration/**/*.spec.ts', `!${TIMING}`],
    },
    { ...withServer, displayName: 'timing', testMatch: [TIMING] },
  ],
};
