import type { ClientBase } from 'pg';
import { v7 as uuid } from 'uuid';
import { withClient } from '../database/client.js';
import { inTransaction } from '../database/transaction.js';
import { makeApiKey } from './api-key.js';
import { ROLES } from './role-names.js';

export interface DemoTenant {
  id: string;
  slug: string;
  /** One key for each role. */
  keys: Record<string, string>;
}

const DEMO_TENANTS = [
  { slug: 'demo', name: 'Demo' },
  { slug: 'other', name: 'Other' },
];

/**
 * Makes the demo tenants with a key for each role, all or nothing, and returns the keys: this is the only time that
 * they can be seen. For development; the keys of an earlier call are revoked.
 *
 * @param ownerUrl address of `waybill_owner`
 */
export function makeDemoTenants(ownerUrl: string): Promise<DemoTenant[]> {
  const config = { connectionString: ownerUrl, application_name: 'waybill demo tenants' };
  return withClient(config, (client) => inTransaction(client, () => makeTenants(client)));
}

async function makeTenants(client: ClientBase): Promise<DemoTenant[]> {
  const tenants: DemoTenant[] = [];
  for (const { slug, name } of DEMO_TENANTS) {
    const tenantId = await enterTenant(client, slug, name);
    tenants.push({ id: String(tenantId), slug, keys: await makeKeys(client, tenantId) });
  }
  return tenants;
}

async function enterTenant(client: ClientBase, slug: string, name: string): Promise<number> {
  const found = await client.query<{ id: string }>('SELECT id FROM waybill.tenants WHERE slug = $1', [slug]);
  const [known] = found.rows;
  if (!known) {
    const made = await client.query<{ id: string }>('SELECT waybill.create_tenant($1, $2, $3) AS id', [
      slug,
      name,
      uuid(),
    ]);
    return Number(made.rows[0]?.id);
  }
  const enter = `SELECT waybill.set_context($1, $2, '{system}', 'demo')`;
  await client.query(enter, [known.id, null]);
  const system = await client.query<{ id: string }>(
    `SELECT id FROM waybill.users WHERE tenant_id = $1 AND subject = 'system'`,
    [known.id],
  );
  await client.query(enter, [known.id, system.rows[0]?.id]);
  return Number(known.id);
}

async function makeKeys(client: ClientBase, tenantId: number): Promise<Record<string, string>> {
  await client.query(
    `UPDATE waybill.api_keys SET revoked_at = clock_timestamp() WHERE tenant_id = $1 AND revoked_at IS NULL
       AND user_id IN (SELECT id FROM waybill.users WHERE tenant_id = $1 AND subject = ANY ($2))`,
    [tenantId, ROLES.map((role) => `demo-${role}`)],
  );
  const keys: Record<string, string> = {};
  for (const role of ROLES) {
    const user = await client.query<{ id: string }>(
      `INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles) VALUES ($1, $2, $3, 'service', $4, $5)
       ON CONFLICT (tenant_id, subject) DO UPDATE SET roles = excluded.roles RETURNING id`,
      [tenantId, uuid(), `demo-${role}`, `Demo ${role}`, [role]],
    );
    const key = makeApiKey(tenantId);
    await client.query(
      'INSERT INTO waybill.api_keys (tenant_id, id, user_id, prefix, hash) VALUES ($1, $2, $3, $4, $5)',
      [tenantId, uuid(), user.rows[0]?.id, key.prefix, key.hash],
    );
    keys[role] = key.text;
  }
  return keys;
}
