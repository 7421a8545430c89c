import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { SCHEMA_RULES, violations } from '../../support/schema-rules.js';

/** A table that keeps every rule; each case below spoils it, or adds something, and names the rule that must say so. */
const GOOD = `
  CREATE TABLE waybill.parcels (
    tenant_id bigint NOT NULL, id uuid NOT NULL, order_id uuid NOT NULL, code text NOT NULL, sent_at timestamptz,
    CONSTRAINT parcels_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT parcels_code_key UNIQUE (tenant_id, code),
    CONSTRAINT parcels_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
    CONSTRAINT parcels_code_length CHECK (length(code) < 9));
  CREATE INDEX parcels_sent_idx ON waybill.parcels (tenant_id, sent_at);
  ALTER TABLE waybill.parcels ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  CREATE POLICY parcels_tenant ON waybill.parcels USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);
  CREATE TRIGGER parcels_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.parcels
    FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
  CREATE TRIGGER parcels_00_no_truncate BEFORE TRUNCATE ON waybill.parcels
    FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('no');
  CREATE FUNCTION waybill.parcel_count(p_tenant bigint) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
    'SELECT count(*) FROM waybill.parcels WHERE tenant_id = p_tenant';
  CREATE VIEW waybill.parcel_codes WITH (security_invoker = true) AS SELECT tenant_id, code FROM waybill.parcels;
  GRANT SELECT ON waybill.parcels, waybill.parcel_codes TO waybill_app`;

const BAD: [what: string, statement: string, rule: string][] = [
  [
    'a table without tenant_id',
    'CREATE TABLE waybill.plain (id uuid CONSTRAINT plain_pkey PRIMARY KEY)',
    'a tenant table has a column tenant_id, bigint and NOT NULL: waybill.plain',
  ],
  [
    'tenant_id as int',
    'DROP VIEW waybill.parcel_codes; ALTER TABLE waybill.parcels DROP CONSTRAINT parcels_order_fkey; DROP POLICY parcels_tenant ON waybill.parcels; ALTER TABLE waybill.parcels ALTER tenant_id TYPE int',
    'tenant_id is bigint wherever it stands, in views and functions too: waybill.parcels.tenant_id',
  ],
  [
    'a tenant parameter as int',
    `CREATE FUNCTION waybill.f(p_tenant int) RETURNS int LANGUAGE sql SET search_path = pg_catalog, pg_temp AS 'SELECT 1'`,
    'tenant_id is bigint wherever it stands, in views and functions too: waybill.f(integer)',
  ],
  [
    'no row level security',
    'ALTER TABLE waybill.parcels DISABLE ROW LEVEL SECURITY',
    'a tenant table has FORCE ROW LEVEL SECURITY: waybill.parcels',
  ],
  [
    'no FORCE',
    'ALTER TABLE waybill.parcels NO FORCE ROW LEVEL SECURITY',
    'a tenant table has FORCE ROW LEVEL SECURITY: waybill.parcels',
  ],
  [
    'no policy',
    'DROP POLICY parcels_tenant ON waybill.parcels',
    'a tenant table has a policy, and each policy that holds for the app role looks at the tenant: waybill.parcels',
  ],
  [
    'a policy for everything',
    'CREATE POLICY parcels_all ON waybill.parcels USING (true)',
    'a tenant table has a policy, and each policy that holds for the app role looks at the tenant: parcels_all on waybill.parcels',
  ],
  [
    'a policy that checks no writes',
    `CREATE POLICY parcels_in ON waybill.parcels FOR INSERT TO waybill_app WITH CHECK (true)`,
    'a tenant table has a policy, and each policy that holds for the app role looks at the tenant: parcels_in on waybill.parcels',
  ],
  [
    'a unique index without tenant_id',
    'CREATE UNIQUE INDEX parcels_code2_idx ON waybill.parcels (code)',
    'tenant_id is first in every primary key, unique index and index of a tenant table: waybill.parcels_code2_idx',
  ],
  [
    'a unique key with tenant_id last',
    'ALTER TABLE waybill.parcels ADD CONSTRAINT parcels_late_key UNIQUE (code, tenant_id)',
    'tenant_id is first in every primary key, unique index and index of a tenant table: waybill.parcels_late_key',
  ],
  [
    'no primary key',
    'ALTER TABLE waybill.parcels DROP CONSTRAINT parcels_pkey',
    'a tenant table has a primary key: waybill.parcels',
  ],
  [
    'a foreign key without tenant_id',
    'CREATE TABLE waybill.notes (tenant_id bigint NOT NULL, parcel uuid, id uuid CONSTRAINT notes_id_key UNIQUE, CONSTRAINT notes_self_fkey FOREIGN KEY (parcel) REFERENCES waybill.notes (id))',
    'a foreign key of a tenant table begins with tenant_id on both sides: notes_self_fkey on waybill.notes',
  ],
  [
    'ON DELETE SET NULL',
    'ALTER TABLE waybill.parcels DROP CONSTRAINT parcels_order_fkey, ADD CONSTRAINT parcels_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id) ON DELETE SET NULL',
    'no foreign key sets null, sets a default or cascades: parcels_order_fkey on waybill.parcels',
  ],
  [
    'ON UPDATE CASCADE',
    'ALTER TABLE waybill.parcels DROP CONSTRAINT parcels_order_fkey, ADD CONSTRAINT parcels_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id) ON UPDATE CASCADE',
    'no foreign key sets null, sets a default or cascades: parcels_order_fkey on waybill.parcels',
  ],
  [
    'a deferrable constraint',
    'ALTER TABLE waybill.parcels ADD CONSTRAINT parcels_sent_key UNIQUE (tenant_id, sent_at) DEFERRABLE',
    'no constraint and no trigger is deferrable: parcels_sent_key on waybill.parcels',
  ],
  [
    'a constraint trigger',
    `CREATE CONSTRAINT TRIGGER parcels_60_late AFTER INSERT ON waybill.parcels DEFERRABLE FOR EACH ROW EXECUTE FUNCTION waybill.refuse_change('x')`,
    'no constraint and no trigger is deferrable: parcels_60_late on waybill.parcels',
  ],
  [
    'a constraint that is not valid',
    `ALTER TABLE waybill.parcels ADD CONSTRAINT parcels_code_filled CHECK (code <> '') NOT VALID`,
    'every constraint is valid: parcels_code_filled on waybill.parcels',
  ],
  [
    'an identity',
    'ALTER TABLE waybill.parcels ADD seq bigint GENERATED ALWAYS AS IDENTITY',
    'no column of a tenant table is a serial, an identity or takes its default from a sequence: waybill.parcels.seq',
  ],
  [
    'a serial',
    'ALTER TABLE waybill.parcels ADD seq bigserial',
    'no column of a tenant table is a serial, an identity or takes its default from a sequence: waybill.parcels.seq',
  ],
  [
    'an id that is a number',
    'ALTER TABLE waybill.parcels ADD carrier_id bigint',
    'ids are uuid, not numbers: id and *_id of a tenant table, but for tenant_id and request_id: waybill.parcels.carrier_id',
  ],
  [
    'a time without a zone',
    'ALTER TABLE waybill.parcels ADD at timestamp',
    'times are timestamptz: waybill.parcels.at',
  ],
  [
    'a constraint that PostgreSQL named',
    'ALTER TABLE waybill.parcels ADD CHECK (code <> $$x$$), ADD CHECK (code <> $$y$$)',
    'constraints, indexes, triggers and policies carry a name of ours: that of their table, then what they do: constraint parcels_code_check1 on waybill.parcels',
  ],
  [
    'an index of another name',
    'CREATE INDEX by_time ON waybill.parcels (tenant_id, sent_at)',
    'constraints, indexes, triggers and policies carry a name of ours: that of their table, then what they do: index waybill.by_time on waybill.parcels',
  ],
  [
    'a trigger without a place',
    `CREATE TRIGGER parcels_guard BEFORE UPDATE ON waybill.parcels FOR EACH ROW EXECUTE FUNCTION waybill.refuse_change('x')`,
    'constraints, indexes, triggers and policies carry a name of ours: that of their table, then what they do: trigger parcels_guard on waybill.parcels',
  ],
  [
    'no trigger for the context',
    'DROP TRIGGER parcels_00_context ON waybill.parcels',
    'a tenant table refuses changes without a context, unless it is of schema audit: waybill.parcels',
  ],
  [
    'a context trigger that is off',
    'ALTER TABLE waybill.parcels DISABLE TRIGGER parcels_00_context',
    'a tenant table refuses changes without a context, unless it is of schema audit: waybill.parcels',
  ],
  [
    'a context trigger that forgets DELETE',
    'DROP TRIGGER parcels_00_context ON waybill.parcels; CREATE TRIGGER parcels_00_context BEFORE INSERT OR UPDATE ON waybill.parcels FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()',
    'a tenant table refuses changes without a context, unless it is of schema audit: waybill.parcels',
  ],
  [
    'no trigger against TRUNCATE',
    'DROP TRIGGER parcels_00_no_truncate ON waybill.parcels',
    'a tenant table refuses to be truncated: waybill.parcels',
  ],
  [
    'an audit table that can change',
    'CREATE TABLE audit.log (tenant_id bigint NOT NULL)',
    'a table of schema audit refuses UPDATE, DELETE and TRUNCATE, even under session_replication_role: audit.log',
  ],
  [
    'an append-only trigger that is not ALWAYS',
    'ALTER TABLE audit.events ENABLE TRIGGER events_00_append_only',
    'a table of schema audit refuses UPDATE, DELETE and TRUNCATE, even under session_replication_role: audit.events',
  ],
  [
    'a function without search_path',
    `CREATE FUNCTION waybill.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    'every function pins its search_path to pg_catalog, pg_temp: waybill.f()',
  ],
  [
    'a function with another search_path',
    `CREATE FUNCTION waybill.f() RETURNS int LANGUAGE sql SET search_path = waybill, pg_temp AS 'SELECT 1'`,
    'every function pins its search_path to pg_catalog, pg_temp: waybill.f()',
  ],
  [
    'EXECUTE for PUBLIC',
    'GRANT EXECUTE ON FUNCTION waybill.parcel_count TO PUBLIC',
    'PUBLIC holds nothing: no EXECUTE, no right on a table, a schema or the database: waybill.parcel_count(bigint)',
  ],
  [
    'SELECT for PUBLIC',
    'GRANT SELECT ON waybill.parcels TO PUBLIC',
    'PUBLIC holds nothing: no EXECUTE, no right on a table, a schema or the database: waybill.parcels',
  ],
  [
    'a view of its owner',
    'ALTER VIEW waybill.parcel_codes RESET (security_invoker)',
    'every view is security_invoker, and none is materialised: waybill.parcel_codes',
  ],
  [
    'a materialised view',
    'CREATE MATERIALIZED VIEW waybill.totals AS SELECT 1 AS one',
    'every view is security_invoker, and none is materialised: waybill.totals',
  ],
  [
    'a table of the app role',
    'ALTER TABLE waybill.parcels OWNER TO waybill_app',
    'waybill_owner owns schema waybill, waybill_audit owns schema audit, and nobody else owns anything: waybill.parcels',
  ],
  [
    'a schema of the app role',
    'CREATE SCHEMA mine AUTHORIZATION waybill_app',
    'waybill_owner owns schema waybill, waybill_audit owns schema audit, and nobody else owns anything: waybill_app owns schema mine',
  ],
  [
    'INSERT on events for the app role',
    'GRANT INSERT ON audit.events TO waybill_app',
    'the app role writes nothing in schema audit and executes nothing there that writes: INSERT on audit.events',
  ],
  [
    'the event trigger for the app role',
    'GRANT EXECUTE ON FUNCTION audit.record_order TO waybill_app',
    'the app role writes nothing in schema audit and executes nothing there that writes: audit.record_order()',
  ],
  [
    'DELETE for the app role',
    'GRANT DELETE ON waybill.parcels TO waybill_app',
    'the app role writes no reference table, deletes and truncates nothing, and creates nothing: DELETE on waybill.parcels',
  ],
  [
    'the machine tables for the app role',
    'GRANT UPDATE ON waybill.valid_transitions TO waybill_app',
    'the app role writes no reference table, deletes and truncates nothing, and creates nothing: UPDATE on waybill.valid_transitions',
  ],
  [
    'CREATE for the app role',
    'GRANT CREATE ON SCHEMA public TO waybill_app',
    'the app role writes no reference table, deletes and truncates nothing, and creates nothing: CREATE on schema public',
  ],
  [
    'one column of the lines for the app role',
    'GRANT UPDATE (sku) ON waybill.order_lines TO waybill_app',
    'the app role writes lines, contacts and history through commands alone: UPDATE on waybill.order_lines',
  ],
  [
    'an index that hides the primary key',
    'CREATE INDEX parcels_order_idx ON waybill.parcels (tenant_id, order_id, id)',
    'the primary key is made after every index that holds all of its columns: waybill.parcels_order_idx',
  ],
  [
    'a definer function without a tenant',
    `CREATE FUNCTION waybill.f(p_id uuid) RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT 1'`,
    'a SECURITY DEFINER function that is no trigger is one the app role is meant to call, with the tenant as parameter: waybill.f(uuid)',
  ],
];

describe('the catalogue', () => {
  let database: TestDatabase;
  let client: Client;
  beforeAll(async () => {
    database = await createTestDatabase();
    client = new Client({ connectionString: database.superuserUrl });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  /** What the rules say with these statements run, which are then taken back. */
  async function violationsAfter(...statements: string[]): Promise<string[]> {
    await client.query('BEGIN');
    try {
      for (const statement of statements) {
        const audit = statement.includes('TABLE audit.') && statement.startsWith('CREATE');
        await client.query(`SET LOCAL ROLE ${audit ? 'waybill_audit' : 'waybill_owner'}`);
        if (/OWNER TO|SCHEMA (mine|public)|audit\.(events|record)/.test(statement)) await client.query('RESET ROLE');
        await client.query(statement);
        await client.query('RESET ROLE');
      }
      return await violations(client);
    } finally {
      await client.query('ROLLBACK');
    }
  }

  it('keeps every rule', async () => {
    expect(await violations(client)).toEqual([]);
  });

  it('takes a table that keeps them', async () => {
    expect(await violationsAfter(GOOD)).toEqual([]);
  });

  it.each(BAD)('tells of %s', async (_what, statement, violation) => {
    expect(await violationsAfter(GOOD, statement)).toContain(violation);
  });

  it('has a case for every rule, so that each has been seen to fail', () => {
    const unproved = SCHEMA_RULES.filter(
      ({ says }) => !BAD.some(([, , violation]) => violation.startsWith(`${says}: `)),
    );
    // Roles belong to the whole server, where other suites run: this one is not spoilt here.
    expect(unproved.map(({ says }) => says)).toEqual([
      'the app role and the sealer are no members of another role, and neither superuser nor BYPASSRLS',
    ]);
  });

  it('refuses to serve with a role that owns tables or bypasses policies', async () => {
    const { startTestApp } = await import('../../support/app.js');
    for (const url of [database.ownerUrl, database.superuserUrl]) {
      await expect(startTestApp({ database: { ...database, appUrl: url } })).rejects.toThrow(
        /The database role (waybill_owner can act as the owner|postgres is a superuser).*DATABASE_URL/,
      );
    }
  });
});
