import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Pool, PoolClient } from 'pg';
import { DataSource } from 'typeorm';
import { sealerPool } from '../../../src/audit/log/sealer-pool.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { rows } from '../../support/sql.js';

let service: TestApp;
let sealers: Pool;
beforeAll(async () => {
  service = await startTestApp();
  sealers = sealerPool(service.database.sealerUrl);
});
afterAll(async () => {
  await sealers.end();
  await service.close();
});

// An `error` event that nobody hears is an exception that ends the process.
it.each<[string, () => Pool]>([
  ['requests', () => (service.app.get(DataSource).driver as unknown as { master: Pool }).master],
  ['the sealer', () => sealers],
])('a connection of %s that breaks while it is in use ends nothing else', async (_whose, pool) => {
  const client: PoolClient = await pool().connect();
  const heard = client.listenerCount('error');
  try {
    const { rows: found } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const ended = new Promise((resolve) => client.once('end', resolve));
    await rows(service.database.superuserUrl, `SELECT pg_terminate_backend(${found[0]?.pid})`);
    await ended;
  } finally {
    client.release(true);
  }
  expect(heard).toBeGreaterThan(0);
  expect((await pool().query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});
