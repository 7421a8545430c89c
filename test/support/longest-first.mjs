import TestSequencer from '@jest/test-sequencer';

/** What takes longest by far and mostly waits, longest first. */
const LONG = [
  'integration/faults',
  'payments/crash-table',
  'identity/hardening',
  'identity/tokens',
  'operation/shutdown',
  'operation/database-faults',
  'idempotency/storm',
  'orders/faults',
  'integration/embedded',
  'audit/tampering.sql',
  'system/readme',
  'system/api-page',
];

/** Jest's order, but a clean clone, which knows no durations yet, doesn't begin the longest file when all others are done. */
export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const place = ({ path }) => {
      const at = LONG.findIndex((name) => path.endsWith(`${name}.spec.ts`));
      return at < 0 ? LONG.length : at;
    };
    // oxlint-disable-next-line unicorn/no-array-sort -- Jest's own, which returns a new array
    return super.sort(tests).toSorted((a, b) => place(a) - place(b));
  }
}
