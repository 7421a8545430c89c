import { beforeAll, describe, expect, it } from '@jest/globals';
import { type InputReport, runInput } from '../../faults/input/run-input.js';

/** As `npm run faults -- input` does it, shorter and with a seed of its own; INPUT_SEED takes another. */
const SEED = Number(process.env.INPUT_SEED ?? 16);
const REQUESTS = 2_000;
/** Operations on logs that were restored, of which there is none here. */
const NOTHING_THERE = new Set(['getLaterPublicCheckpoint', 'getLaterTile']);

describe('input that is generated from the document', () => {
  let report: InputReport;
  beforeAll(async () => {
    report = await runInput({ requests: REQUESTS, seed: SEED });
  });

  it('is answered as the document says, and never as a failure of the service', () => {
    expect(report.faults).toEqual([]);
  });

  it('reaches what every operation is for, and what it refuses', () => {
    for (const [operation, statuses] of Object.entries(report.answers)) {
      const firstDigits = new Set(Object.keys(statuses).map((status) => status.charAt(0)));
      expect({ operation, succeeds: firstDigits.has('2'), refuses: firstDigits.has('4') }).toEqual({
        operation,
        succeeds: !NOTHING_THERE.has(operation),
        refuses: true,
      });
    }
  });
});
