import type { Command } from 'commander';
import type { ClientBase } from 'pg';
import { parseDuration } from '../config.js';
import { withClient } from '../database/client.js';
import { inTransaction } from '../database/transaction.js';
import { sweepExpiredKeys } from '../idempotency/sweep.js';
import { withDatabase, withOwnerUrl } from './database-address.js';

export function addIdempotencyCommand(program: Command): void {
  const group = program.command('idempotency').description('Look after idempotency keys');
  group
    .command('sweep')
    .description('Remove expired keys of all tenants now; the service does it by itself every minute')
    .action(() => withDatabase(({ appUrl }) => connected(appUrl, sweep)));
  group
    .command('ttl <tenant> <time>')
    .description('How long keys of a tenant (by slug) are kept: such as 15m, 24h, 7d, or forever, or default')
    .action((tenant: string, time: string) =>
      withOwnerUrl((ownerUrl) => connected(ownerUrl, (client) => setTtl(client, tenant, time))),
    );
}

async function sweep(client: ClientBase): Promise<void> {
  const run = async (text: string, values: readonly unknown[]): Promise<unknown[]> =>
    (await client.query(text, [...values])).rows;
  const sweeps = await sweepExpiredKeys(run);
  for (const { tenantId, swept, backlog } of sweeps) {
    console.log(`tenant ${tenantId}: ${swept} removed${backlog > 0 ? `, ${backlog} left` : ''}`);
  }
  console.log(`${sweeps.reduce((sum, { swept }) => sum + swept, 0)} expired keys removed.`);
}

async function setTtl(client: ClientBase, slug: string, time: string): Promise<void> {
  const seconds = parseDuration(time);
  if (seconds === undefined && time !== 'forever' && time !== 'default') {
    throw new Error(`The time must be such as 15m, 24h or 7d, or forever, or default, not "${time}".`);
  }
  await inTransaction(client, () => writeTtl(client, slug, time, seconds));
  console.log(`Answers of tenant ${slug} are kept ${time} from now on; those that are stored keep their time.`);
}

/** @param seconds left out for a time without a number */
async function writeTtl(client: ClientBase, slug: string, time: string, seconds: number | undefined): Promise<void> {
  const found = await client.query<{ id: string }>('SELECT id FROM waybill.tenants WHERE slug = $1', [slug]);
  const [tenant] = found.rows;
  if (!tenant) throw new Error(`There is no tenant "${slug}".`);
  // The tenant's system user acts; to find it, the transaction must be in the tenant already.
  await client.query(`SELECT waybill.set_context($1, NULL, '{system}', 'idempotency ttl')`, [tenant.id]);
  await client.query(
    `SELECT waybill.set_context($1, id, '{system}', 'idempotency ttl') FROM waybill.users WHERE tenant_id = $1 AND subject = 'system'`,
    [tenant.id],
  );
  await client.query(
    `INSERT INTO waybill.idempotency_policies (tenant_id, ttl, is_default) VALUES ($1, $2, $3)
     ON CONFLICT (tenant_id) DO UPDATE SET ttl = excluded.ttl, is_default = excluded.is_default`,
    [tenant.id, seconds === undefined ? null : `${seconds} seconds`, time === 'default'],
  );
}

function connected<T>(url: string, work: (client: ClientBase) => Promise<T>): Promise<T> {
  return withClient({ connectionString: url, application_name: 'waybill idempotency' }, work);
}
