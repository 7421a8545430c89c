import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { runStorm } from '../../faults/idempotency-storm.js';

describe('a storm of requests while two service processes are restarted at random', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  // The same requests each time; longer, and with other seeds: npm run faults -- storm --requests 10000
  it('leaves one effect a key, no wrong replay, and no failure that a retry does not heal', async () => {
    const seed = Number(process.env.STORM_SEED ?? 1);
    const report = await runStorm({
      databaseUrl: service.database.appUrl,
      superuserUrl: service.database.superuserUrl,
      apiKey: service.as('operator').apiKey ?? '',
      requests: 500,
      restarts: { times: 3 },
      seed,
    });
    expect(report).toMatchObject({ seed, restarts: 3, faults: [] });
    expect(report.answers['idempotency-key-reused']).toBeGreaterThan(0);
    expect(report.answers['201 replay']).toBeGreaterThan(0);
  });
});
