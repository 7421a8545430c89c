import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { runStorm } from '../../faults/idempotency-storm.js';

describe('a storm of requests while two service processes are restarted at random', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  // 10,000 by hand: npm run faults -- storm --requests 10000 --seed 1
  it('leaves one effect a key, no wrong replay, and no failure that a retry does not heal', async () => {
    const seed = Number(process.env.STORM_SEED ?? Date.now() % 1_000_000);
    const report = await runStorm({
      databaseUrl: service.database.appUrl,
      superuserUrl: service.database.superuserUrl,
      apiKey: service.as('operator').apiKey ?? '',
      requests: 1500,
      seed,
    });
    expect(report).toMatchObject({ seed, faults: [] });
    expect(report.restarts).toBeGreaterThan(0);
    expect(report.answers['idempotency-key-reused']).toBeGreaterThan(0);
    expect(report.answers['201 replay']).toBeGreaterThan(0);
  });
});
