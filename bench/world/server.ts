import { join } from 'node:path';
import { Client, type QueryResultRow } from 'pg';
import { bootstrapCluster, databaseUrl, roleUrls, type RoleUrls } from '../../src/database/bootstrap.js';
import {
  embeddedBinaries,
  type EmbeddedServer,
  rolePasswords,
  type RolePasswords,
  startEmbedded,
} from '../../src/database/embedded/index.js';
import { migrate } from '../../src/database/migrate.js';
import { type DemoTenant, makeDemoTenants } from '../../src/identity/index.js';
import { BENCH_FOLDER } from './folders.js';

/** A migrated database with the demo tenants. */
export interface BenchDatabase extends RoleUrls {
  name: string;
  superuserUrl: string;
  /** The first demo tenant, whose id is 1. */
  tenant: DemoTenant;
  /** The user behind the tenant's operator key. */
  operator: string;
}

/** The benchmark's own PostgreSQL: the embedded one with its durable defaults (fsync and synchronous_commit on). */
export class BenchServer {
  private constructor(
    private readonly embedded: EmbeddedServer,
    private readonly passwords: RolePasswords,
    readonly postmaster: number,
  ) {}

  static async start(log: (line: string) => void, dataDir = join(BENCH_FOLDER, 'pg')): Promise<BenchServer> {
    const embedded = await startEmbedded({ dataDir, binaries: embeddedBinaries(), log });
    const [row] = await query<{ pid: string }>(
      embedded.superuserUrl,
      `SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid`,
    );
    return new BenchServer(embedded, await rolePasswords(dataDir), Number(row?.pid));
  }

  get superuserUrl(): string {
    return this.embedded.superuserUrl;
  }

  stop(): Promise<void> {
    return this.embedded.stop();
  }

  /** Makes a database anew, migrated, with demo tenants. */
  async createDatabase(name: string): Promise<BenchDatabase> {
    await this.dropDatabase(name);
    const urls = await bootstrapCluster(this.embedded.superuserUrl, name, this.passwords);
    await migrate(urls.ownerUrl);
    return this.withTenant(name, urls);
  }

  /** A database that an earlier run has made. */
  openDatabase(name: string): Promise<BenchDatabase> {
    return this.withTenant(name, roleUrls(this.embedded.superuserUrl, name, this.passwords));
  }

  private async withTenant(name: string, urls: RoleUrls): Promise<BenchDatabase> {
    const [tenant] = await makeDemoTenants(urls.ownerUrl);
    if (!tenant) throw new Error('makeDemoTenants made no tenant');
    const superuserUrl = databaseUrl(this.embedded.superuserUrl, name).href;
    const [user] = await query<{ id: string }>(
      superuserUrl,
      `SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-operator'`,
    );
    if (!user) throw new Error('the demo tenant has no operator');
    return { name, ...urls, superuserUrl, tenant, operator: user.id };
  }

  /** An empty database without anything of Waybill. */
  async createPlainDatabase(name: string): Promise<string> {
    await this.dropDatabase(name);
    await query(this.superuserUrl, `CREATE DATABASE ${name}`);
    return databaseUrl(this.superuserUrl, name).href;
  }

  async dropDatabase(name: string): Promise<void> {
    await query(this.superuserUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  }

  /**
   * What autovacuum does within a minute of a new table's first rows. Until then the planner takes any index that begins with
   * the tenant, and sessions keep such plans.
   */
  async analyze(): Promise<void> {
    const databases = await query<{ name: string }>(
      this.superuserUrl,
      `SELECT datname AS name FROM pg_database WHERE datname LIKE 'bench%' AND datname NOT LIKE 'bench_orders%'`,
    );
    for (const { name } of databases) await query(databaseUrl(this.superuserUrl, name).href, 'ANALYZE');
  }

  /** What PostgreSQL says of itself, for the report. */
  async settings(): Promise<Record<string, string>> {
    const names = ['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_level'];
    const rows = await query<{ name: string; setting: string }>(
      this.superuserUrl,
      'SELECT name, current_setting(name) AS setting FROM unnest($1::text[]) AS name',
      [names],
    );
    return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
  }
}

export async function query<Row extends QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new Client({ connectionString: url, options: '-c timezone=UTC' });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
