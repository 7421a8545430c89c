import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { FaultCode } from '../../../src/audit/verify/fault.js';
import { tenantsToVerify } from '../../../src/audit/verify/tenants.js';
import { Verifier } from '../../../src/audit/verify/verifier.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { ORIGIN, type Sealing, startSealing } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';
import { expectCreated, step, taken } from '../../support/payments.js';

/** What a superuser does to the database, and how it is called: by the database alone, and beside what was published. */
type Case = [what: string, sql: string, alone: FaultCode, published?: FaultCode];

describe('a database that a superuser tampered with', () => {
  let service: TestApp;
  let sealing: Sealing;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
    for (let placed = 0; placed < 3; placed += 1) {
      const { body } = await service.as('operator').post<Order>('/v1/orders', orderBody());
      await service.as('operator').post(`/v1/orders/${body.id}/transitions`, { to: 'confirmed' });
      await sealing.seal(1);
      await service.as('operator').post(`/v1/orders/${body.id}/transitions`, { to: 'canceled', reason: 'no stock' });
      await sealing.seal(1);
    }
    // A payment and its refund have histories of their own.
    const payment = await taken(service.as('operator'));
    expectCreated(await step(service.as('operator'), payment.id, 'refunds'));
    await sealing.seal(1);
    await service.asOther('operator').post('/v1/orders', orderBody());
    await sealing.seal(2);
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
    await rm(sealing.directory.path, { recursive: true, force: true });
  });

  it('is intact before it', async () => {
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact', fault: null });
    expect(await sealing.verify({ directory: null })).toMatchObject({ verdict: 'intact', fault: null });
  });

  const first = `(SELECT min(order_id::text)::uuid FROM waybill.order_status_history WHERE tenant_id = 1)`;
  const row = `tenant_id = 1 AND order_id = ${first} AND seq = 3`;
  const histories: Case[] = [
    ['changes a reason', `UPDATE waybill.order_status_history SET reason = 'sold out' WHERE ${row}`, 'HISTORY_DRIFT'],
    ['takes a reason away', `UPDATE waybill.order_status_history SET reason = NULL WHERE ${row}`, 'HISTORY_DRIFT'],
    [
      'says that somebody else did it',
      `UPDATE waybill.order_status_history SET changed_by = (SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-viewer') WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    [
      'says that it was another time, by a microsecond',
      `UPDATE waybill.order_status_history SET changed_at = changed_at + interval '1 microsecond' WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    [
      'says that it was another request',
      `UPDATE waybill.order_status_history SET request_id = 'r' WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    [
      'says that it came from another state',
      `UPDATE waybill.order_status_history SET from_status = 'shipped' WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    [
      'says that it went to another state',
      `UPDATE waybill.order_status_history SET to_status = 'shipped' WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    ['deletes the last step', `DELETE FROM waybill.order_status_history WHERE ${row}`, 'HISTORY_DRIFT'],
    [
      'deletes a step between',
      `DELETE FROM waybill.order_status_history WHERE tenant_id = 1 AND order_id = ${first} AND seq = 2`,
      'HISTORY_DRIFT',
    ],
    [
      'deletes a whole history',
      `DELETE FROM waybill.order_status_history WHERE tenant_id = 1 AND order_id = ${first}`,
      'HISTORY_DRIFT',
    ],
    [
      'invents a step',
      `INSERT INTO waybill.order_status_history SELECT (jsonb_populate_record(h, '{"seq": 4}')).* FROM waybill.order_status_history h WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    ['counts a step otherwise', `UPDATE waybill.order_status_history SET seq = 7 WHERE ${row}`, 'HISTORY_DRIFT'],
    [
      'exchanges two steps',
      `UPDATE waybill.order_status_history SET seq = 5 - seq + 100 WHERE tenant_id = 1 AND order_id = ${first} AND seq > 1;
       UPDATE waybill.order_status_history SET seq = seq - 100 WHERE seq > 100`,
      'HISTORY_DRIFT',
    ],
    [
      'moves a step to another order',
      `UPDATE waybill.order_status_history SET order_id = (SELECT max(id::text)::uuid FROM waybill.orders WHERE tenant_id = 1), seq = 4 WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
    [
      'writes a history of an order that never was',
      `INSERT INTO waybill.order_status_history SELECT (jsonb_populate_record(h, '{"order_id": "00000000-0000-7000-8000-000000000001"}')).* FROM waybill.order_status_history h WHERE ${row}`,
      'HISTORY_DRIFT',
    ],
  ];

  it('in the history of any machine that there is', async () => {
    const machines = await sealing.sql<{ machine: string }>('SELECT machine FROM waybill.machines ORDER BY machine');
    expect(machines.map(({ machine }) => machine)).toEqual(['order', 'payment', 'refund']);
    for (const { machine } of machines) {
      const last = `DELETE FROM waybill.${machine}_status_history h WHERE h.tenant_id = 1
        AND h.ctid = (SELECT max(x.ctid) FROM waybill.${machine}_status_history x WHERE x.tenant_id = 1)`;
      const [result] = await sealing.verifyTampered(last, {});
      expect(result?.fault).toMatchObject({
        code: 'HISTORY_DRIFT',
        stream: expect.stringMatching(`^${machine}/`),
        detail: expect.stringMatching(/^row \d of its history is gone$/),
      });
    }
  });

  const checkpoints: Case[] = [
    ['deletes all checkpoints', 'DELETE FROM audit.checkpoints WHERE tenant_id = 1', 'MISSING_CHECKPOINT'],
    [
      'deletes the last checkpoint',
      'DELETE FROM audit.checkpoints WHERE tenant_id = 1 AND size = (SELECT max(size) FROM audit.checkpoints WHERE tenant_id = 1)',
      'MISSING_CHECKPOINT',
    ],
    ['deletes the tenant', 'DELETE FROM waybill.tenants WHERE id = 1', 'MISSING_TENANT'],
  ];

  it.each([...histories, ...checkpoints])('which %s', async (_, sql, alone, published = alone) => {
    const results = await sealing.verifyTampered(sql, { directory: null }, {});
    expect(results.map(({ fault, verdict }) => ({ code: fault?.code, verdict }))).toEqual(
      [alone, published].map((code) => ({ code, verdict: 'tampered' })),
    );
  });

  describe('and a verification that reads only what is new', () => {
    const verifier = (): Verifier => {
      const { pool, keys, directory } = sealing.tools;
      return new Verifier({ pool, origin: ORIGIN, directory, keys, overdueAfter: 10_000 });
    };
    const second = `tenant_id = 1 AND version = 2 AND stream = (SELECT min(stream) FROM audit.events WHERE tenant_id = 1 AND stream LIKE 'order/%')`;

    it('relies on one before it that was signed', async () => {
      const { size } = await verifier().verify(1);
      expect(await verifier().verify(1, { incremental: true })).toMatchObject({ verdict: 'intact', fromIndex: size });
    });

    it.each([
      ['no signature', 'NULL'],
      ["another row's signature", `(SELECT signature FROM audit.leaves WHERE tenant_id = 1 LIMIT 1)`],
    ])('does not rely on a forged row with %s', async (_, signature) => {
      await sealing.tamper(`
        UPDATE audit.verifications SET signature = ${signature} WHERE tenant_id = 1;
        UPDATE audit.events SET type = type || '.' WHERE ${second}`);
      expect(await verifier().verify(1, { incremental: true })).toMatchObject({
        verdict: 'tampered',
        fromIndex: 0,
        fault: { code: 'HASH_MISMATCH' },
      });
      await sealing.tamper(`UPDATE audit.events SET type = rtrim(type, '.') WHERE ${second}`);
    });

    it('finds the last checkpoint gone that it would begin after', async () => {
      await verifier().verify(1);
      const [last] = await sealing.sql<{ row: string }>(
        'SELECT to_jsonb(c)::text AS row FROM audit.checkpoints c WHERE tenant_id = 1 ORDER BY size DESC LIMIT 1',
      );
      await sealing.tamper(
        'DELETE FROM audit.checkpoints WHERE tenant_id = 1 AND size = (SELECT max(size) FROM audit.checkpoints WHERE tenant_id = 1)',
      );
      expect(await verifier().verify(1, { incremental: true })).toMatchObject({
        fault: { code: 'MISSING_CHECKPOINT' },
      });
      await sealing.tamper(
        `INSERT INTO audit.checkpoints SELECT (jsonb_populate_record(NULL::audit.checkpoints, '${last?.row.replaceAll("'", "''")}')).*`,
      );
    });

    it('finds what was published gone', async () => {
      await verifier().verify(1);
      const folder = join(sealing.directory.path, '1');
      await rename(folder, `${folder}.away`);
      const fault = { code: 'MISSING_CHECKPOINT', detail: expect.stringMatching(/bring it back/i) as unknown };
      expect(await verifier().verify(1, { incremental: true })).toMatchObject({ verdict: 'tampered', fault });
      expect(await verifier().verify(1)).toMatchObject({ verdict: 'tampered', fault });
      await rename(`${folder}.away`, folder);
      expect(await verifier().verify(1)).toMatchObject({ verdict: 'intact' });
    });
  });

  it('which takes a tenant out of every table: what was published still knows it', async () => {
    expect(await tenantsToVerify(sealing.pool, sealing.directory)).toEqual([1, 2]);
    await sealing.tamper(`
      DO $$ DECLARE t regclass; BEGIN
        FOR t IN SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
                 WHERE c.relkind = 'r' AND c.relnamespace IN ('audit'::regnamespace, 'waybill'::regnamespace)
        LOOP EXECUTE format('DELETE FROM %s WHERE tenant_id = 2', t); END LOOP;
        DELETE FROM waybill.tenants WHERE id = 2;
      END $$`);
    expect(await tenantsToVerify(sealing.pool, null)).toEqual([1]);
    expect(await tenantsToVerify(sealing.pool, sealing.directory)).toEqual([1, 2]);
    expect(await sealing.verify({ tenantId: 2 })).toMatchObject({
      verdict: 'tampered',
      fault: { code: 'SIZE_BELOW_CHECKPOINT' },
    });
  });
});
