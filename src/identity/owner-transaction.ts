import type { ClientBase, QueryResultRow } from 'pg';
import { withClient } from '../database/client.js';
import type { NamedStatement } from '../database/statement.js';
import { inTransaction } from '../database/transaction.js';
import type { IdentityTransaction } from './users.repository.js';

/** For people at the command line: what they tell is to be understood, and nothing was changed. */
export class AdministrationError extends Error {
  override readonly name = 'AdministrationError';
}

/**
 * Makes a tenant with its system user.
 *
 * @param ownerUrl address of `waybill_owner`
 * @returns the tenant's id
 */
export function createTenant(ownerUrl: string, slug: string, name: string, systemUserId: string): Promise<number> {
  return inOwnerTransaction(ownerUrl, async (client) => {
    try {
      const create = 'SELECT waybill.create_tenant($1, $2, $3) AS id';
      const { rows } = await client.query<{ id: number }>(create, [slug, name, systemUserId]);
      return rows[0]?.id ?? 0;
    } catch (error) {
      throw explained(error, slug);
    }
  });
}

/**
 * Works on one tenant as its system user, in one transaction.
 *
 * @param tenant id in digits, or slug
 */
export function administer<T>(
  ownerUrl: string,
  tenant: string,
  work: (tx: IdentityTransaction) => Promise<T>,
): Promise<T> {
  return inOwnerTransaction(ownerUrl, async (client) => {
    const found = await client.query<{ id: number | null }>('SELECT waybill.find_tenant($1) AS id', [tenant]);
    const tenantId = found.rows[0]?.id;
    if (!tenantId) {
      throw new AdministrationError(`There is no tenant ${tenant}. Make it: waybill tenant create ${tenant} --name …`);
    }
    const enter = `SELECT waybill.set_context($1, $2, '{system}', 'command line')`;
    await client.query(enter, [tenantId, null]);
    const system = `SELECT id FROM waybill.users WHERE tenant_id = $1 AND kind = 'system'`;
    const { rows } = await client.query<{ id: string }>(system, [tenantId]);
    await client.query(enter, [tenantId, rows[0]?.id]);
    return work({
      context: { tenantId },
      rows: async <Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]) =>
        (await client.query<Row>({ ...statement, values: [...values] })).rows,
    });
  });
}

function inOwnerTransaction<T>(ownerUrl: string, work: (client: ClientBase) => Promise<T>): Promise<T> {
  const config = { connectionString: ownerUrl, application_name: 'waybill command line' };
  return withClient(config, (client) => inTransaction(client, () => work(client)));
}

function explained(error: unknown, slug: string): unknown {
  const { code, constraint } = error as { code?: string; constraint?: string };
  if (code === '23505') return new AdministrationError(`There is a tenant ${slug} already.`);
  if (code === '23514' && constraint?.startsWith('tenants_slug')) {
    return new AdministrationError(
      `${slug} is no slug: use up to 63 of a-z, 0-9 and -, beginning with a letter or digit, and not digits alone.`,
    );
  }
  return error;
}
