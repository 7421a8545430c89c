import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { makeDemoTenants } from '../../../src/identity/index.js';
import { runPaymentStorm } from '../../faults/payment-storm.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

describe('payments with random faults, while two service processes are killed', () => {
  it('end with books that agree, and with nothing open (short form of npm run faults -- payments)', async () => {
    const [tenant] = await makeDemoTenants(database.ownerUrl);
    const report = await runPaymentStorm({
      databaseUrl: database.appUrl,
      superuserUrl: database.superuserUrl,
      apiKey: tenant?.keys.operator ?? '',
      payments: 30,
      restarts: { times: 2 },
      seed: 5,
      clients: 8,
    });
    expect(report).toMatchObject({ restarts: 2, faults: [] });
    expect(report.money.capturedMinusRefunded).toBeGreaterThan(0);
  });
});
