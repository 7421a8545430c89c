import { join } from 'node:path';
import { base } from '../../jest.config.js';

const root = join(import.meta.dirname, '../..');

/** The black-box suite: run by test/e2e/run.mjs, which says where the service is. */
export default {
  ...base,
  rootDir: root,
  displayName: 'e2e',
  testMatch: ['<rootDir>/test/e2e/**/*.spec.ts'],
  testTimeout: 600_000,
  verbose: true,
  reporters: [
    'default',
    [
      'jest-junit',
      {
        outputDirectory: process.env.WAYBILL_E2E_REPORTS ?? join(root, 'reports'),
        outputName: 'e2e.xml',
        suiteName: 'Waybill end to end',
        classNameTemplate: '{classname}',
        titleTemplate: '{title}',
        ancestorSeparator: ' › ',
        addFileAttribute: 'true',
      },
    ],
    ['<rootDir>/test/e2e/support/markdown-reporter.mjs', {}],
  ],
};
