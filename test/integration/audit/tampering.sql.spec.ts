import { cp, rm } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { signCheckpoint } from '../../../src/audit/format/checkpoint.js';
import { LogStore } from '../../../src/audit/log/log-store.js';
import { sealBatch } from '../../../src/audit/log/seal-batch.js';
import { inPoolTransaction } from '../../../src/database/transaction.js';
import { TreeReader } from '../../../src/audit/log/tree-reader.js';
import type { FaultCode } from '../../../src/audit/verify/fault.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, EVENTS_OF_A_START, ORIGIN, type Sealing, startSealing } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';
import { copyDatabase, type TestDatabase } from '../../support/database.js';

/** Three orders of the first tenant with three versions each, and one of the second; all sealed. */
async function history(service: TestApp, sealing: Sealing): Promise<void> {
  // What the tenant has to tell of itself comes first in the log.
  await sealing.seal();
  for (let placed = 0; placed < 3; placed += 1) {
    const { body } = await service.as('operator').post<Order>('/v1/orders', orderBody());
    await service.as('operator').post(`/v1/orders/${body.id}/transitions`, { to: 'confirmed' });
    await service.as('operator').post(`/v1/orders/${body.id}/transitions`, { to: 'shipped' });
  }
  await service.asOther('operator').post('/v1/orders', orderBody());
  await sealing.seal(1);
  await sealing.seal(2);
}

describe('tampering as the application role', () => {
  let service: TestApp;
  let sealing: Sealing;
  let app: Client;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
    await history(service, sealing);
    app = new Client({ connectionString: service.database.appUrl });
    await app.connect();
  });
  afterAll(async () => {
    await app.end();
    await sealing.close();
    await service.close();
  });
  beforeEach(async () => {
    const [user] = await sealing.sql<{ id: string }>(`SELECT id FROM waybill.users WHERE tenant_id = 1 LIMIT 1`);
    await app.query('BEGIN');
    await app.query(`SELECT waybill.set_context(1, $1, '{admin,system}', 'test')`, [user?.id]);
  });
  afterEach(() => app.query('ROLLBACK'));

  const TABLES = ['events', 'queue', 'logs', 'leaves', 'nodes', 'checkpoints', 'keys', 'verifications'];
  const COLUMN: Record<string, string> = { logs: 'origin', keys: 'valid_from', verifications: 'verdict' };
  const everywhere = (statement: (table: string) => string): [string, string][] =>
    TABLES.map((table) => [statement(table), table]);

  it.each([
    ...everywhere((table) => `UPDATE audit.${table} SET ${COLUMN[table] ?? 'tenant_id'} = DEFAULT`),
    ...everywhere((table) => `DELETE FROM audit.${table}`),
    // Fault 28: TRUNCATE, by the app.
    ...everywhere((table) => `TRUNCATE audit.${table} CASCADE`),
    ...everywhere((table) => `ALTER TABLE audit.${table} DISABLE TRIGGER ALL`),
    ...everywhere((table) => `DROP TABLE audit.${table} CASCADE`),
    ['DELETE FROM waybill.order_contacts', 'order_contacts'],
    ['TRUNCATE waybill.orders CASCADE', 'orders'],
    ['ALTER TABLE waybill.orders DISABLE TRIGGER orders_50_record_update', 'orders'],
    ['DROP TRIGGER orders_50_record_update ON waybill.orders', 'orders'],
    ['DROP FUNCTION audit.record_order CASCADE', 'record_order'],
    ['CREATE OR REPLACE FUNCTION audit.append() RETURNS void LANGUAGE sql AS $$ SELECT $$', 'audit'],
    ['SET ROLE waybill_audit', 'waybill_audit'],
    ['SET ROLE waybill_sealer', 'waybill_sealer'],
    ['GRANT waybill_audit TO waybill_app', 'waybill_audit'],
    ['SET session_replication_role = replica', 'session_replication_role'],
    [`SELECT audit.append(1, gen_random_uuid(), 'order/x', 9, 0, 't', gen_random_uuid(), '{}', '\\x00')`, 'append'],
    [`SELECT audit.record_log_event(1, 'log.resumed', '{}')`, 'record_log_event'],
    ['SELECT audit.record_order()', 'record_order'],
  ])('refuses %s', async (statement, subject) => {
    await expect(app.query(statement)).rejects.toMatchObject({ code: '42501' });
    expect(subject).not.toBe('');
  });

  it.each([
    ['a wrong version', `e.version + 7, e.event_hash`],
    ['a wrong previous hash', `e.version + 1, sha256('x')`],
    ['the right version and hash', `e.version + 1, e.event_hash`],
  ])('refuses to append an event with %s', async (_, values) => {
    await expect(
      app.query(
        `INSERT INTO audit.events SELECT e.tenant_id, e.stream, v.version, e.event_id, e.type, e.actor, e.occurred_us, e.body,
           v.prev_hash, e.event_hash, e.format
         FROM audit.events e, LATERAL (SELECT ${values}) AS v(version, prev_hash) LIMIT 1`,
      ),
    ).rejects.toMatchObject({ code: '42501' });
  });

  it.each(TABLES)('gets no right on audit.%s by granting it to itself', async (table) => {
    // PostgreSQL warns rather than refuses, since the role may read.
    await app.query(`GRANT ALL ON audit.${table} TO waybill_app`);
    const { rows } = await app.query(
      `SELECT has_table_privilege('audit.${table}', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') AS has`,
    );
    expect(rows).toEqual([{ has: false }]);
  });

  it('is not misled by temporary tables of the same names', async () => {
    await app.query('ROLLBACK');
    await sealing.sql(`GRANT TEMPORARY ON DATABASE ${service.database.name} TO waybill_app`);
    await app.query('BEGIN');
    await app.query(
      `SELECT waybill.set_context(1, u.id, '{admin}', 'test')
       FROM waybill.users u RIGHT JOIN (SELECT 1) x ON false`,
    );
    for (const table of ['events', 'queue', 'orders', 'order_status_history', 'valid_transitions'])
      await app.query(
        `CREATE TEMP TABLE ${table} (LIKE ${table === 'events' || table === 'queue' ? 'audit' : 'waybill'}.${table})`,
      );
    const [user] = await sealing.sql<{ id: string }>(`SELECT id FROM waybill.users WHERE tenant_id = 1 LIMIT 1`);
    await app.query(`SELECT waybill.set_context(1, $1, '{admin}', 'test')`, [user?.id]);
    const before = await app.query('SELECT FROM audit.events');
    await app.query(`UPDATE waybill.orders SET status = 'delivered' WHERE tenant_id = 1`);
    expect((await app.query('SELECT FROM audit.events')).rowCount).toBe((before.rowCount ?? 0) + 3);
    expect((await app.query('SELECT FROM pg_temp.events')).rowCount).toBe(0);
  });
});

/** Index of the last leaf of the history that is tampered with. */
const LAST = EVENTS_OF_A_NEW_TENANT + 9;

describe('tampering as a superuser with the triggers off', () => {
  /** What each test gets a copy of. */
  let original: TestApp;
  let intact: Sealing;
  let database: TestDatabase;
  let sealing: Sealing;
  beforeAll(async () => {
    original = await startTestApp();
    intact = await startSealing(original.database);
    await history(original, intact);
    expect(await intact.verify()).toMatchObject({
      verdict: 'intact',
      size: LAST + 1,
      streams: 4 + EVENTS_OF_A_NEW_TENANT,
    });
    await intact.pool.end();
    await original.app.close();
  });
  afterAll(async () => {
    await original.database.drop();
    await rm(intact.directory.path, { recursive: true, force: true });
  });
  const copyIntact = async (): Promise<void> => {
    database = await copyDatabase(original.database);
    sealing = await startSealing(database, intact.pem);
    await cp(intact.directory.path, sealing.directory.path, { recursive: true });
  };
  const dropCopy = async (): Promise<void> => {
    await sealing.close();
    await database.drop();
  };

  async function placeOne(): Promise<void> {
    const service = await startTestApp({ database });
    try {
      expect((await service.as('operator').post('/v1/orders', orderBody())).status).toBe(201);
    } finally {
      await service.close();
    }
  }

  /** The second event of the first order's stream. */
  const victim = `tenant_id = 1 AND version = 2 AND stream = (SELECT min(stream) FROM audit.events WHERE tenant_id = 1 AND stream LIKE 'order/%')`;
  const firstStream = `(SELECT min(stream) FROM audit.events WHERE tenant_id = 1 AND stream LIKE 'order/%')`;
  const lastStream = `(SELECT max(stream) FROM audit.events WHERE tenant_id = 1 AND stream LIKE 'order/%')`;
  const rehash = (
    where: string,
  ) => `UPDATE audit.events SET event_hash = audit.event_hash(tenant_id, event_id, stream, version,
    occurred_us, type, actor, body, prev_hash, format) WHERE ${where};`;
  /** Hashes of a stream anew, version by version, as if it had always been so. */
  const rechain = (stream: string) => `
    DO $$ DECLARE v int; BEGIN FOR v IN 1..3 LOOP
      UPDATE audit.events e SET prev_hash = coalesce((SELECT b.event_hash FROM audit.events b WHERE b.tenant_id = 1
        AND b.stream = e.stream AND b.version = v - 1), audit.genesis_hash(1, e.stream)) WHERE e.tenant_id = 1 AND e.stream = ${stream} AND e.version = v;
      ${rehash(`tenant_id = 1 AND stream = ${stream} AND version = v`)}
    END LOOP; END $$;`;

  function rootOf(size: number): Promise<Buffer> {
    return inPoolTransaction(sealing.pool, (client) => new TreeReader(new LogStore(client, 1)).root(size));
  }

  /** The code beside what was published, and the one without where it is another; null is nothing. */
  const cases: [what: string, sql: string, expected: FaultCode, alone?: FaultCode | null][] = [
    ['flips event_id', `UPDATE audit.events SET event_id = gen_random_uuid() WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips type', `UPDATE audit.events SET type = 'order.delivered' WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips actor', `UPDATE audit.events SET actor = gen_random_uuid() WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips occurred_us', `UPDATE audit.events SET occurred_us = occurred_us + 1 WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips body', `UPDATE audit.events SET body = body || ' ' WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips prev_hash', `UPDATE audit.events SET prev_hash = sha256('x') WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips event_hash', `UPDATE audit.events SET event_hash = sha256('x') WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips format', `UPDATE audit.events SET format = 2 WHERE ${victim}`, 'HASH_MISMATCH'],
    ['flips version', `UPDATE audit.events SET version = 99 WHERE ${victim}`, 'GAP'],
    ['flips stream', `UPDATE audit.events SET stream = 'order/nowhere' WHERE ${victim}`, 'GAP'],
    ['flips tenant_id', `UPDATE audit.events SET tenant_id = 2 WHERE ${victim}`, 'GAP'],
    [
      'flips the signature of a leaf',
      `UPDATE audit.leaves SET signature = set_byte(signature, 3, 255 - get_byte(signature, 3)) WHERE ${victim}`,
      'BAD_SIGNATURE',
    ],
    ['flips the hash of a leaf', `UPDATE audit.leaves SET leaf_hash = sha256('x') WHERE ${victim}`, 'HASH_MISMATCH'],
    [
      'edits a body and recomputes its hash',
      `UPDATE audit.events SET body = replace(body, 'confirmed', 'shipped') WHERE ${victim}; ${rehash(victim)}`,
      'BAD_SIGNATURE',
    ],
    [
      'points an event at another one before it',
      `UPDATE audit.events SET prev_hash = sha256('x') WHERE ${victim}; ${rehash(victim)}`,
      'PREV_MISMATCH',
    ],
    [
      'recomputes the whole stream',
      `UPDATE audit.events SET body = replace(body, 'confirmed', 'shipped') WHERE ${victim}; ${rechain(firstStream)}`,
      'BAD_SIGNATURE',
    ],
    ['deletes an event from the middle', `DELETE FROM audit.events WHERE ${victim}`, 'GAP'],
    [
      'deletes an event from the middle with its leaf',
      `DELETE FROM audit.events WHERE ${victim}; DELETE FROM audit.leaves WHERE ${victim}`,
      'GAP',
    ],
    [
      'swaps two versions',
      `UPDATE audit.events SET version = 5 - version + 100 WHERE tenant_id = 1 AND stream = ${firstStream} AND version IN (2, 3);
        UPDATE audit.events SET version = version - 100 WHERE tenant_id = 1 AND version > 100`,
      'HASH_MISMATCH',
    ],
    [
      'swaps two versions and recomputes their hashes',
      `UPDATE audit.events SET version = 5 - version + 100 WHERE tenant_id = 1 AND stream = ${firstStream} AND version IN (2, 3);
        UPDATE audit.events SET version = version - 100 WHERE tenant_id = 1 AND version > 100; ${rehash(`tenant_id = 1 AND stream = ${firstStream}`)}`,
      'PREV_MISMATCH',
    ],
    [
      'fault 27: cuts a tail together with its queue rows and leaves',
      `DELETE FROM audit.events WHERE tenant_id = 1 AND stream = ${lastStream} AND version = 3;
        DELETE FROM audit.leaves WHERE tenant_id = 1 AND leaf_index = ${LAST}; DELETE FROM audit.queue`,
      'SIZE_BELOW_CHECKPOINT',
    ],
    [
      'fault 27: cuts a tail with leaves and the stored checkpoint',
      `DELETE FROM audit.events WHERE tenant_id = 1 AND stream = ${lastStream} AND version = 3;
        DELETE FROM audit.leaves WHERE tenant_id = 1 AND leaf_index = ${LAST}; DELETE FROM audit.checkpoints WHERE tenant_id = 1`,
      'SIZE_BELOW_CHECKPOINT',
      'MISSING_CHECKPOINT',
    ],
    [
      'fault 27: deletes a whole stream',
      `DELETE FROM audit.events WHERE tenant_id = 1 AND stream = ${firstStream}`,
      'MISSING_STREAM',
    ],
    [
      'fault 27: deletes a whole stream with its leaves',
      `DELETE FROM audit.leaves WHERE tenant_id = 1 AND stream = ${lastStream};
        DELETE FROM audit.events WHERE tenant_id = 1 AND stream = ${lastStream}`,
      'SIZE_BELOW_CHECKPOINT',
    ],
    [
      'moves an event to another order, with its leaf',
      `UPDATE audit.leaves SET stream = ${lastStream}, version = 4 WHERE tenant_id = 1 AND stream = ${firstStream} AND version = 3;
        UPDATE audit.events SET stream = ${lastStream}, version = 4 WHERE tenant_id = 1 AND stream = ${firstStream} AND version = 3`,
      'HASH_MISMATCH',
    ],
    [
      'moves the only event of a stream to another tenant',
      `DELETE FROM audit.events WHERE tenant_id = 1 AND stream = ${firstStream} AND version > 1;
        UPDATE audit.events SET tenant_id = 2 WHERE tenant_id = 1 AND version = 1 AND stream = ${firstStream}`,
      'MISSING_STREAM',
    ],
    [
      'duplicates the last leaf',
      `ALTER TABLE audit.leaves DROP CONSTRAINT leaves_event_key;
        INSERT INTO audit.leaves SELECT tenant_id, ${LAST + 1}, stream, version, sealed_us, signature, leaf_hash FROM audit.leaves WHERE tenant_id = 1 AND leaf_index = ${LAST}`,
      'FORK',
    ],
    [
      'rewrites a stored checkpoint',
      `UPDATE audit.checkpoints SET note = replace(note, 'audit.test/1', 'audit.test/3') WHERE tenant_id = 1`,
      'UNKNOWN_KEY',
    ],
    [
      "changes an order's row without an event",
      `UPDATE waybill.orders SET metadata = '{"campaign": "autumn"}' WHERE tenant_id = 1`,
      'STATE_DRIFT',
    ],
    [
      "changes an order's line without an event",
      `UPDATE waybill.order_lines SET name = 'Black tea' WHERE tenant_id = 1`,
      'STATE_DRIFT',
    ],
    [
      'changes a contact without an event',
      `UPDATE waybill.order_contacts SET value = '{"name": "Eve"}' WHERE tenant_id = 1`,
      'STATE_DRIFT',
    ],
    ['deletes an order and keeps its events', `DELETE FROM waybill.orders WHERE tenant_id = 1`, 'STATE_DRIFT'],
    [
      'writes nonsense into a stored checkpoint',
      `UPDATE audit.checkpoints SET note = 'nothing' WHERE tenant_id = 1`,
      'BAD_SIGNATURE',
    ],
    [
      'drops the triggers that write events',
      'DROP TRIGGER orders_50_record_insert ON waybill.orders; DROP TRIGGER orders_50_record_update ON waybill.orders',
      'STATE_DRIFT',
    ],
    [
      'deletes personal data without an erasure',
      `DELETE FROM waybill.order_contacts WHERE tenant_id = 1`,
      'VALUE_MISSING',
    ],
    [
      'puts an order in without an event',
      `INSERT INTO waybill.orders SELECT (jsonb_populate_record(o, '{"id": "00000000-0000-7000-8000-000000000001", "number": "FAKE-0001", "external_ref": null}')).* FROM waybill.orders o WHERE tenant_id = 1 LIMIT 1`,
      'MISSING_STREAM',
    ],
  ];

  describe('in a database of its own', () => {
    beforeEach(copyIntact);
    afterEach(dropCopy);

    it('is found out when it deletes only queue rows', async () => {
      await placeOne();
      expect(await sealing.verify()).toMatchObject({ verdict: 'intact', unsealed: 1 + EVENTS_OF_A_START });
      await sealing.tamper('DELETE FROM audit.queue');
      expect(await sealing.verify()).toMatchObject({
        fault: { code: 'UNSEALED_OVERDUE', detail: 'the event is neither sealed nor queued' },
      });
    });

    it('is found out when events wait longer than ten intervals', async () => {
      await placeOne();
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(await sealing.verify({ overdueAfter: 10 })).toMatchObject({ fault: { code: 'UNSEALED_OVERDUE' } });
    });

    it('is found out when it rewrites a suffix of the same length, even with the signing key', async () => {
      const published = await sealing.directory.read(1);
      const kept = LAST - 2;
      await sealing.tamper(`
      DELETE FROM audit.leaves WHERE tenant_id = 1 AND leaf_index >= ${kept};
      DELETE FROM audit.checkpoints WHERE tenant_id = 1;
      DELETE FROM audit.queue;
      UPDATE audit.events SET body = replace(body, 'confirmed', 'shipped') WHERE tenant_id = 1 AND version = 2 AND stream = ${lastStream};
      ${rechain(lastStream)}
      INSERT INTO audit.queue SELECT tenant_id, stream, version, occurred_us FROM audit.events WHERE tenant_id = 1 AND stream = ${lastStream}`);
      const { checkpoints } = sealing.tools.keys.of(1);
      const signer = { name: `${ORIGIN}/1`, privateKey: checkpoints.privateKey, rawPublicKey: checkpoints.publicKey };
      const forged = signCheckpoint({ origin: `${ORIGIN}/1`, size: kept, root: await rootOf(kept) }, [signer]);
      await sealing.tamper(
        `INSERT INTO audit.checkpoints SELECT 1, ${kept}, '\\x${(await rootOf(kept)).toString('hex')}', '${forged}'`,
      );
      // A thief of the key has everything but what was published.
      const thief = { ...sealing.tools, directory: null };
      expect(await sealBatch(thief, 1)).toBe(3);
      await sealing.tamper(`DELETE FROM audit.checkpoints WHERE tenant_id = 1 AND size = ${kept}`);
      expect(await sealing.verify({ directory: null, skipState: true })).toMatchObject({
        verdict: 'intact',
        size: LAST + 1,
      });
      expect(await sealing.verify({ directory: null, checkpoints: [published ?? ''] })).toMatchObject({
        fault: { code: 'INCONSISTENT' },
      });
      expect(await sealing.verify()).toMatchObject({ verdict: 'tampered', fault: { code: 'INCONSISTENT' } });
    });

    it('is found out when it restores an older dump', async () => {
      // What a restore leaves: the database as it was, and the published checkpoint as it is.
      const old = await sealing.directory.read(1);
      const copy = await copyDatabase(database);
      try {
        const older = await startSealing(copy, sealing.pem);
        expect(await older.verify({ directory: sealing.directory })).toMatchObject({ verdict: 'intact' });
        await placeOne();
        await sealing.seal();
        expect(await older.verify({ directory: sealing.directory })).toMatchObject({
          verdict: 'tampered',
          fault: { code: 'SIZE_BELOW_CHECKPOINT' },
        });
        // The sealer of the restored database refuses as well.
        const tools = { ...older.tools, directory: sealing.directory };
        await expect(sealBatch(tools, 1)).rejects.toThrow(`fewer than the ${LAST + 2 + EVENTS_OF_A_START} published`);
        expect(await sealing.directory.read(1)).not.toBe(old);
        await older.close();
      } finally {
        await copy.drop();
      }
    });
  });

  describe('in a transaction that is taken back', () => {
    beforeAll(copyIntact);
    afterAll(dropCopy);

    it.each(cases)(
      'is found out when it %s, with what was published and without',
      async (_, sql, expected, alone = expected) => {
        const [beside, without] = await sealing.verifyTampered(sql, {}, { directory: null });
        expect([beside?.fault?.code, without?.fault?.code ?? null]).toEqual([expected, alone]);
        expect(beside?.verdict).toBe(expected === 'UNKNOWN_KEY' ? 'unverifiable' : 'tampered');
      },
    );
  });
});
