import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { loadConfig } from '../../../src/config.js';
import { awaitDatabase } from '../../../src/database/await-database.js';
import { withClient } from '../../../src/database/client.js';
import { inTransaction } from '../../../src/database/transaction.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { startSealing } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { move, place, placeIn, read } from '../../support/orders.js';
import { type PgBouncer, pgbouncerMissing, startPgBouncer } from '../../support/pgbouncer.js';
import { rows } from '../../support/sql.js';

const isRequired = process.env.REQUIRE_PGBOUNCER === '1';
const suite = pgbouncerMissing && !isRequired ? describe.skip : describe;
if (pgbouncerMissing && !isRequired) console.warn(`PgBouncer is not tried. ${pgbouncerMissing}.`);

suite('through PgBouncer in transaction mode', () => {
  let database: TestDatabase;
  let bouncer: PgBouncer;
  let service: TestApp;
  /** As a person writes it. */
  let appUrl: string;
  let sealerUrl: string;
  beforeAll(async () => {
    if (pgbouncerMissing) throw new Error(pgbouncerMissing);
    database = await createTestDatabase();
    bouncer = await startPgBouncer(Number(new URL(database.appUrl).port), [database.appUrl, database.sealerUrl]);
    appUrl = `${bouncer.through(database.appUrl)}?pgbouncer=true`;
    sealerUrl = `${bouncer.through(database.sealerUrl)}?pgbouncer=true`;
    service = await startTestApp({
      database: { ...database, appUrl, sealerUrl },
      env: { DATABASE_POOL_SIZE: '8', DATABASE_LOCK_TIMEOUT: '1', DATABASE_STATEMENT_TIMEOUT: '7' },
    });
  });
  afterAll(async () => {
    await service?.close();
    await bouncer?.stop();
    await database?.drop();
  });

  it('orders are placed, moved, read, listed and replayed by many at once', async () => {
    const operator = service.as('operator');
    const placed = await Promise.all(Array.from({ length: 24 }, () => place(operator)));
    expect(new Set(placed.map(({ number }) => number)).size).toBe(24);
    const steps = await Promise.all(placed.map(({ id }) => move(operator, id, 'confirmed')));
    expect(steps.map(({ status }) => status)).toEqual(placed.map(() => 201));
    expect(await Promise.all(placed.map(({ id }) => read(operator, id)))).toEqual(
      placed.map(({ id }) => expect.objectContaining({ id, status: 'confirmed', version: 2 })),
    );
    expect((await operator.get('/v1/orders?limit=50')).status).toBe(200);
    const key = { 'idempotency-key': randomUUID() };
    const body = orderBody();
    const [first, second] = [
      await operator.post<Order>('/v1/orders', body, key),
      await operator.post<Order>('/v1/orders', body, key),
    ];
    expect(second.body).toEqual(first.body);
    expect((await operator.get('/health/ready')).status).toBe(200);
  });

  it('time limits and settings go with each transaction', async () => {
    const order = await place(service.as('operator'));
    const locker = new Client({ connectionString: database.superuserUrl });
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT FROM waybill.orders WHERE id = $1 FOR UPDATE', [order.id]);
    expect(await move(service.as('operator'), order.id, 'confirmed')).toMatchObject({ status: 503 });
    await locker.end();
    await withClient({ connectionString: appUrl, statement_timeout: 7_000, lock_timeout: 1_000 }, (client) =>
      inTransaction(client, async () => {
        const { rows: found } = await client.query(
          `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
             current_setting('row_security') AS rows, current_setting('bytea_output') AS bytes, current_setting('TimeZone') AS zone`,
        );
        expect(found).toEqual([{ statement: '7s', lock: '1s', rows: 'on', bytes: 'hex', zone: 'UTC' }]);
      }),
    );
  });

  it('history is sealed and verified', async () => {
    await placeIn(service.as('operator'), 'shipped');
    const sealing = await startSealing({ ...database, sealerUrl });
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact' });
    await sealing.close();
  });

  it('a setting of the role that no pooler keeps away stops the start by name', async () => {
    const given = await createTestDatabase();
    await rows(given.superuserUrl, `ALTER ROLE waybill_app IN DATABASE ${given.name} SET bytea_output = 'escape'`);
    const through = { ...given, appUrl: `${bouncer.through(given.appUrl)}?pgbouncer=true` };
    await expect(startTestApp({ database: through })).rejects.toThrow(/bytea_output is escape\. Take back .*RESET/);
    await given.drop();
  });

  it('an address that doesn’t say so is refused, and says what to write', async () => {
    await expect(awaitDatabase(bouncer.through(database.appUrl), () => undefined)).rejects.toThrow(
      /unsupported startup parameter.*add pgbouncer=true to the address/,
    );
    const env = { DATABASE_URL: appUrl, MIGRATION_DATABASE_URL: `${database.ownerUrl}?pgbouncer=true` };
    expect(() => loadConfig(env)).toThrow(/^MIGRATION_DATABASE_URL has pgbouncer=true.*PostgreSQL itself/);
  });
});
