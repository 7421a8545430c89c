import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from 'pg';
import extension from '../../../examples/holds-and-returns/index.js';
import { examineDatabase } from '../../../src/cli/doctor/examine.js';
import type { Finding } from '../../../src/cli/doctor/finding.js';
import { type Config, loadConfig } from '../../../src/config.js';
import { databaseUrl, grantDatabaseRights } from '../../../src/database/bootstrap.js';
import { migrate } from '../../../src/database/migrate.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';

const CLI = join(import.meta.dirname, '../../../dist/src/cli/main.js');

interface Sabotage {
  what: string;
  /** As a superuser, in a database of its own. */
  statements: string;
  /** For what belongs to the whole server. */
  undo?: string;
  finds: RegExp;
}

const SABOTAGE: Sabotage[] = [
  {
    what: 'a disabled trigger',
    statements: 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_20_guard',
    finds: /^triggers: trigger orders_20_guard on waybill\.orders is disabled$/,
  },
  {
    what: 'all triggers of a table disabled',
    statements: 'ALTER TABLE audit.events DISABLE TRIGGER ALL',
    finds: /^triggers: trigger events_00_append_only on audit\.events is disabled$/,
  },
  {
    what: 'a dropped trigger',
    statements: 'DROP TRIGGER orders_50_record_update ON waybill.orders',
    finds: /^triggers: trigger orders_50_record_update on waybill\.orders is missing$/,
  },
  {
    what: 'a trigger that no longer fires always',
    statements: 'ALTER TABLE audit.events ENABLE TRIGGER events_00_append_only',
    finds: /^triggers: trigger events_00_append_only on audit\.events no longer fires ALWAYS$/,
  },
  {
    what: 'a guard that lets everything through',
    statements: `CREATE OR REPLACE FUNCTION waybill.guard_order() RETURNS trigger LANGUAGE plpgsql
      SET search_path = pg_catalog, pg_temp AS 'BEGIN NEW.version := OLD.version + 1; RETURN NEW; END'`,
    finds: /^functions: function waybill\.guard_order is not what the migrations made$/,
  },
  {
    what: 'a trigger that fires less often',
    statements: `CREATE OR REPLACE TRIGGER orders_00_context BEFORE INSERT ON waybill.orders
      FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()`,
    finds: /^triggers: trigger orders_00_context on waybill\.orders is not what the migrations made$/,
  },
  {
    what: 'a constraint that is gone',
    statements: 'ALTER TABLE waybill.orders DROP CONSTRAINT orders_number_key',
    finds: /^tables: constraint orders_number_key on waybill\.orders is missing$/,
  },
  {
    what: 'a column that may be empty',
    statements: 'ALTER TABLE waybill.orders ALTER currency DROP NOT NULL',
    finds: /^tables: table waybill\.orders is not what the migrations made$/,
  },
  {
    what: 'a view that shows something else',
    statements: `CREATE OR REPLACE VIEW audit.field_changes WITH (security_invoker = true) AS
      SELECT tenant_id, NULL::text AS table_name, stream AS record_id, version, NULL::text AS field_name, NULL::jsonb AS old_value,
             NULL::jsonb AS new_value, actor AS changed_by, now() AS changed_at FROM audit.events`,
    finds: /^tables: view audit\.field_changes is not what the migrations made$/,
  },
  {
    what: 'row security that is off',
    statements: 'ALTER TABLE waybill.order_lines DISABLE ROW LEVEL SECURITY',
    finds: /^row security: waybill\.order_lines has no row level security/,
  },
  {
    what: 'row security that its owner escapes',
    statements: 'ALTER TABLE waybill.orders NO FORCE ROW LEVEL SECURITY',
    finds: /^row security: waybill\.orders doesn't FORCE row level security/,
  },
  {
    what: 'a missing policy',
    statements: 'DROP POLICY orders_tenant ON waybill.orders',
    finds: /^row security: policy orders_tenant of waybill\.orders is missing$/,
  },
  {
    what: 'a policy that shows every tenant',
    statements: 'ALTER POLICY orders_tenant ON waybill.orders USING (true)',
    finds: /^row security: policy orders_tenant of waybill\.orders is not what the migrations made$/,
  },
  {
    what: 'row security that is off where there is no tenant_id',
    statements: 'ALTER TABLE waybill.tenants DISABLE ROW LEVEL SECURITY',
    finds: /^row security: waybill\.tenants has no row level security/,
  },
  {
    what: 'a view that reads as its owner',
    statements: 'ALTER VIEW waybill.order_details RESET (security_invoker)',
    finds: /^row security: view waybill\.order_details is not security_invoker/,
  },
  {
    what: 'a function without a search path',
    statements: 'ALTER FUNCTION waybill.place_order RESET search_path',
    finds: /^search path: function waybill\.place_order has no search_path of its own$/,
  },
  {
    what: 'a function with a search path that others can write to',
    statements: 'ALTER FUNCTION waybill.set_context SET search_path = public, pg_catalog, pg_temp',
    finds: /^search path: function waybill\.set_context has search_path=public/,
  },
  {
    what: 'a function that anybody may execute',
    statements: 'GRANT EXECUTE ON FUNCTION audit.record_order TO PUBLIC',
    finds: /^public functions: PUBLIC may execute audit\.record_order$/,
  },
  {
    what: 'a table of another owner',
    statements: 'ALTER TABLE audit.events OWNER TO waybill_owner',
    finds: /^ownership: audit\.events belongs to waybill_owner, not to waybill_audit$/,
  },
  {
    what: 'a missing right',
    statements: 'REVOKE EXECUTE ON FUNCTION waybill.place_order FROM waybill_app',
    finds: /^grants: waybill_app may not EXECUTE waybill\.place_order$/,
  },
  {
    what: 'a right to write the audit trail',
    statements: 'GRANT INSERT ON audit.events TO waybill_app',
    finds: /^excessive grants: waybill_app may INSERT audit\.events$/,
  },
  {
    what: 'a right to write past the commands',
    statements: 'GRANT UPDATE (total) ON waybill.orders TO waybill_app',
    finds: /^excessive grants: waybill_app may UPDATE waybill\.orders \(total\)$/,
  },
  {
    what: 'an app role past row security',
    statements: 'ALTER ROLE waybill_app BYPASSRLS',
    undo: 'ALTER ROLE waybill_app NOBYPASSRLS',
    finds: /^roles: waybill_app has BYPASSRLS$/,
  },
  {
    what: 'an app role that can become the owner',
    statements: 'GRANT waybill_owner TO waybill_app',
    undo: 'REVOKE waybill_owner FROM waybill_app',
    finds: /^roles: waybill_app is a member of waybill_owner$/,
  },
  {
    what: 'a role whose sessions fire no trigger',
    statements: `ALTER ROLE waybill_app SET session_replication_role = replica`,
    undo: 'ALTER ROLE waybill_app RESET session_replication_role',
    finds: /^role settings: waybill_app has session_replication_role=replica$/,
  },
  {
    what: 'a migration that is not applied',
    statements: `DELETE FROM migrations.applied WHERE name LIKE '0001-%'`,
    finds: /^migrations: Not applied: 0001-baseline-\d+\. The service refuses to start$/,
  },
];

describe('waybill doctor', () => {
  let postgres: OwnPostgres;
  let config: Config;
  let databases = 0;
  beforeAll(async () => {
    postgres = await startOwnPostgres({ durable: true });
    config = loadConfig({});
  });
  afterAll(() => postgres.discard());

  /** A copy of the database that a test may ruin, and the addresses of its roles. */
  async function copy(): Promise<{ superuserUrl: string; appUrl: string; ownerUrl: string; sealerUrl: string }> {
    const name = `copy_${(databases += 1)}`;
    const server = databaseUrl(postgres.superuserUrl, 'postgres').href;
    await run(server, `CREATE DATABASE ${name} TEMPLATE waybill OWNER waybill_owner`);
    await grantDatabaseRights(server, name);
    const addressOf = (url: string): string => databaseUrl(url, name).href;
    return {
      superuserUrl: addressOf(postgres.superuserUrl),
      appUrl: addressOf(postgres.appUrl),
      ownerUrl: addressOf(postgres.ownerUrl),
      sealerUrl: addressOf(postgres.sealerUrl),
    };
  }

  const faultsIn = (findings: readonly Finding[]): string[] =>
    findings.filter(({ verdict }) => verdict === 'fault').map(({ check, detail }) => `${check}: ${detail}`);

  it('finds nothing wrong in a database as the migrations make it', async () => {
    const findings = await examineDatabase(config, await copy());
    expect(findings.filter(({ verdict }) => verdict !== 'ok').map(({ detail }) => detail)).toEqual([
      'No role but superusers (postgres) can dump tables with forced row security',
    ]);
  });

  it('knows from the migrations of every trigger, policy and function that there is', async () => {
    const { superuserUrl, ...addresses } = await copy();
    await run(
      superuserUrl,
      `
      DO $$ DECLARE made record; BEGIN
        FOR made IN SELECT tgname, tgrelid::regclass AS t FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
                    JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('waybill', 'audit', 'payment_inbox', 'simulated_provider') AND NOT tgisinternal
        LOOP EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I; DROP TRIGGER %2$I ON %1$s', made.t, made.tgname); END LOOP;
      END $$`,
    );
    const before = await run<{ n: number }>(
      postgres.superuserUrl,
      `
      SELECT count(*)::int AS n FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE nspname IN ('waybill', 'audit', 'payment_inbox', 'simulated_provider') AND NOT tgisinternal`,
    );
    const missing = faultsIn(await examineDatabase(config, addresses)).filter((line) => line.endsWith('is missing'));
    expect(missing).toHaveLength(before[0]?.n ?? 0);
  });

  it.each(SABOTAGE)('finds $what', async ({ statements, undo, finds }) => {
    const { superuserUrl, ...addresses } = await copy();
    await run(superuserUrl, statements);
    try {
      const findings = await examineDatabase(config, addresses);
      expect(faultsIn(findings)).toContainEqual(expect.stringMatching(finds));
      const finding = findings.find(({ check, detail }) => finds.test(`${check}: ${detail}`));
      expect(finding?.whatToDo).toBeTruthy();
    } finally {
      if (undo) await run(superuserUrl, undo);
    }
  });

  it('says of what an extension made that only general rules were held against it, and finds what breaks these', async () => {
    const { superuserUrl, ...addresses } = await copy();
    await migrate(addresses.ownerUrl, extension.migrations);
    const findings = await examineDatabase(config, addresses);
    expect(faultsIn(findings)).toEqual([]);
    const others = findings.find(({ check }) => check === 'others');
    expect(others).toMatchObject({ verdict: 'unknown', detail: expect.stringContaining('table waybill.returns') });
    await run(
      superuserUrl,
      'ALTER TABLE waybill.returns NO FORCE ROW LEVEL SECURITY; GRANT DELETE ON waybill.returns TO waybill_app',
    );
    expect(faultsIn(await examineDatabase(config, addresses))).toEqual([
      'excessive grants: waybill_app may DELETE waybill.returns',
      expect.stringMatching(/^row security: waybill\.returns doesn't FORCE row level security/),
    ]);
  });

  it('compares nothing with the database of a newer version, which the service refuses, and says so', async () => {
    const { superuserUrl, ...addresses } = await copy();
    await run(
      superuserUrl,
      `INSERT INTO migrations.applied (timestamp, name) VALUES (4102444800000, '9999-far-4102444800000');
       ALTER TABLE waybill.orders DROP CONSTRAINT orders_number_key`,
    );
    const newer = 'The database is that of a newer version: 9999-far-4102444800000';
    const findings = await examineDatabase(config, addresses);
    expect(faultsIn(findings)).toEqual([`migrations: ${newer}. The service refuses to start`]);
    expect(findings).toContainEqual(
      expect.objectContaining({ verdict: 'unknown', detail: expect.stringContaining('were not compared') }),
    );
    // The app role sees it, too, and where the service is told to take it, it is no fault.
    const allowed = await examineDatabase({ ...config, allowsNewerDatabase: true }, { ...addresses, ownerUrl: null });
    expect(faultsIn(allowed)).toEqual([]);
    expect(allowed).toContainEqual(expect.objectContaining({ verdict: 'hint', detail: newer }));
  });

  it('asks about a setting that a role may have given itself, and about a role without a limit of connections', async () => {
    const { superuserUrl, appUrl, ...others } = await copy();
    await run(appUrl, `ALTER ROLE waybill_app SET work_mem = '64kB'`);
    await run(superuserUrl, 'ALTER ROLE waybill_app CONNECTION LIMIT -1');
    try {
      const findings = await examineDatabase(config, { appUrl, ...others });
      expect(faultsIn(findings)).toEqual([]);
      const hints = findings.filter(({ verdict }) => verdict === 'hint').map(({ detail }) => detail);
      expect(hints).toContain('waybill_app has work_mem=64kB');
      expect(hints).toContain('waybill_app may take every connection that the server has');
    } finally {
      await run(superuserUrl, 'ALTER ROLE waybill_app RESET work_mem; ALTER ROLE waybill_app CONNECTION LIMIT 180');
    }
  });

  it('takes a transition that somebody changed for a wish', async () => {
    const { superuserUrl, ...addresses } = await copy();
    await run(superuserUrl, `UPDATE waybill.valid_transitions SET roles = '{admin}' WHERE to_state = 'canceled'`);
    const findings = await examineDatabase(config, addresses);
    expect(faultsIn(findings)).toEqual([]);
    expect(findings).toContainEqual(expect.objectContaining({ check: 'transitions', verdict: 'hint' }));
  });

  it('finds addresses that are swapped', async () => {
    const { appUrl, ownerUrl } = await copy();
    const faults = faultsIn(await examineDatabase(config, { appUrl: ownerUrl, ownerUrl: appUrl, sealerUrl: null }));
    expect(faults).toContain('connection: DATABASE_URL logs in as waybill_owner, not as waybill_app');
  });

  it('prints what is wrong and what to do, without secrets, and exits 1', async () => {
    const { superuserUrl, appUrl, ownerUrl } = await copy();
    await run(superuserUrl, 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_20_guard');
    const wrong = Object.assign(new URL(postgres.sealerUrl), { password: 'not-the-password' }).href;
    const env = { DATABASE_URL: appUrl, MIGRATION_DATABASE_URL: ownerUrl, SEALER_DATABASE_URL: wrong };
    const { code, output } = await runDoctor(env);
    expect(code).toBe(1);
    expect(output).toMatch(/FAULT {2}triggers +trigger orders_20_guard on waybill\.orders is disabled\n +→ /);
    expect(output).toMatch(
      /FAULT {2}connection +SEALER_DATABASE_URL: .*password authentication failed.*\n +→ Look at the role’s password/,
    );
    expect(output.trimEnd()).toMatch(/2 faults\.$/);
    for (const url of [appUrl, ownerUrl, wrong]) expect(output).not.toContain(new URL(url).password);
  });

  it('prints JSON for programs, and exits 0 when nothing is wrong', async () => {
    const { appUrl, ownerUrl, sealerUrl } = await copy();
    const env = { DATABASE_URL: appUrl, MIGRATION_DATABASE_URL: ownerUrl, SEALER_DATABASE_URL: sealerUrl };
    const { code, output } = await runDoctor(env, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(output)).toMatchObject({ healthy: true });
  });

  it('names the setting that can’t be used', async () => {
    const { code, output } = await runDoctor({ PORT: 'many' });
    expect(code).toBe(1);
    expect(output).toMatch(/FAULT {2}settings +PORT must be a whole number/);
  });
});

async function run<Row extends object>(url: string, statements: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(statements)).rows;
  } finally {
    await client.end();
  }
}

async function runDoctor(
  env: Record<string, string>,
  ...options: string[]
): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [CLI, 'doctor', ...options], { env: { PATH: process.env.PATH, ...env } });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const code = await new Promise<number | null>((resolve) => {
    if (child.exitCode === null) child.once('exit', resolve);
    else resolve(child.exitCode);
  });
  return { code, output: output + errors };
}
