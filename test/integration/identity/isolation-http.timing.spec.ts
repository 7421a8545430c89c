import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { median } from '../../../bench/report/row.js';
import { type ForeignRecords, makeForeignRecords } from '../../support/foreign-records.js';
import { measureUntil } from '../../support/measuring.js';
import type { Operation } from '../../support/openapi.js';

const PAIRS = 40;

describe('routes and the records of another tenant', () => {
  let records: ForeignRecords;
  beforeAll(async () => {
    records = await makeForeignRecords();
  });
  afterAll(() => records.service.close());

  it('take no longer or shorter for a foreign record than for a missing one', async () => {
    for (const operation of records.onRecords) {
      const deviation = await measureUntil(1, () => compare(operation));
      expect([operation.operationId, deviation <= 1 || `${deviation} times what is tolerated`]).toEqual([
        operation.operationId,
        true,
      ]);
    }
  });

  /** How far the medians of both are apart: 1 for two milliseconds, or for two fifths of the longer one where that is more. */
  async function compare(operation: Operation): Promise<number> {
    const times: Record<'foreign' | 'missing', number[]> = { foreign: [], missing: [] };
    const timed = async (kind: 'foreign' | 'missing') => {
      const id = kind === 'foreign' ? records.idFor(operation) : randomUUID();
      const start = performance.now();
      await records.attempt(operation, id);
      times[kind].push(performance.now() - start);
    };
    for (let pair = 0; pair < PAIRS; pair += 1) {
      await timed(pair % 2 === 0 ? 'foreign' : 'missing');
      await timed(pair % 2 === 0 ? 'missing' : 'foreign');
    }
    const [foreign, missing] = [median(times.foreign), median(times.missing)];
    return Math.abs(foreign - missing) / Math.max(2, 0.4 * Math.max(foreign, missing));
  }
});
