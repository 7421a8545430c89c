import { v7 as uuid } from 'uuid';
import { makeApiKey } from './api-key.js';
import { type ApiKey, ApiKeysRepository } from './api-keys.repository.js';
import { administer, AdministrationError, createTenant } from './owner-transaction.js';
import { ROLES } from './role-names.js';
import { type IdentityTransaction, type NewUser, type User, UsersRepository } from './users.repository.js';

const users = new UsersRepository();
const apiKeys = new ApiKeysRepository();

const SET_LOG_PUBLIC = {
  name: 'set_log_public',
  text: `INSERT INTO waybill.log_policies (tenant_id, is_public) VALUES ($1, $2)
         ON CONFLICT (tenant_id) DO UPDATE SET is_public = excluded.is_public`,
};

/**
 * What an operator does at the command line with tenants, users and keys, as `waybill_owner`. Tenants are named by id or
 * slug, users by subject.
 *
 * Every method throws AdministrationError for what can't be done, with a message for a person.
 */
export class Administration {
  /** @param ownerUrl address of `waybill_owner` */
  constructor(private readonly ownerUrl: string) {}

  createTenant(slug: string, name: string): Promise<number> {
    return createTenant(this.ownerUrl, slug, name, uuid());
  }

  /**
   * Lets anybody read checkpoint and hashes of a tenant's log, or nobody but its own people.
   *
   * @returns the tenant's id
   */
  setLogPublic(tenant: string, isPublic: boolean): Promise<number> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      const { tenantId } = tx.context;
      await tx.rows(SET_LOG_PUBLIC, [tenantId, isPublic]);
      return tenantId;
    });
  }

  /** @returns the user, and those of its roles that neither Waybill nor a workflow knows */
  createUser(tenant: string, user: Omit<NewUser, 'id'>): Promise<{ user: User; unknownRoles: string[] }> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      if (user.roles.includes('system')) throw new AdministrationError('The role system is the service’s own.');
      const known = new Set<string>([...ROLES, ...(await users.workflowRoles(tx))]);
      const made = await users.create(tx, { ...user, id: uuid() });
      if (!made) throw new AdministrationError(`The tenant has a user ${user.subject} already.`);
      return { user: made, unknownRoles: user.roles.filter((role) => !known.has(role)) };
    });
  }

  listUsers(tenant: string): Promise<User[]> {
    return administer(this.ownerUrl, tenant, (tx) => all((beforeId, limit) => users.page(tx, beforeId, limit)));
  }

  /** @param force also the last user with the role admin */
  disableUser(tenant: string, subject: string, force: boolean): Promise<void> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      const user = await requireUser(tx, subject);
      if (user.kind === 'system') throw new AdministrationError('The system user is the service’s own.');
      const isLast = user.roles.includes('admin') && (await users.countOtherAdmins(tx, user.id)) === 0;
      if (isLast && !force) {
        throw new AdministrationError(
          `${subject} is the tenant’s last user with the role admin. Make another first, or add --force.`,
        );
      }
      await users.change(tx, user.id, { disabled: true });
    });
  }

  enableUser(tenant: string, subject: string): Promise<void> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      const user = await requireUser(tx, subject);
      await users.change(tx, user.id, { disabled: false });
    });
  }

  /** @returns the key with its text, which is kept nowhere */
  createKey(
    tenant: string,
    subject: string,
    name: string,
    expiresAt: string | null,
  ): Promise<ApiKey & { key: string }> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      const user = await requireUser(tx, subject);
      if (user.kind === 'system') throw new AdministrationError('The system user has no keys.');
      if (user.disabledAt)
        throw new AdministrationError(`${subject} is disabled. First: waybill user enable ${subject}`);
      const { text, prefix, hash } = makeApiKey(tx.context.tenantId);
      const made = await apiKeys.create(tx, { id: uuid(), userId: user.id, name, prefix, hash, expiresAt });
      return { ...made, key: text };
    });
  }

  /** @param which the key's id, its prefix, or its whole text */
  revokeKey(tenant: string, which: string): Promise<ApiKey> {
    return administer(this.ownerUrl, tenant, async (tx) => {
      const keys = await allKeys(tx, null);
      const key = keys.find(({ id, prefix }) => id === which || prefix === which || which.startsWith(`${prefix}_`));
      const revoked = key && (await apiKeys.revoke(tx, key.id));
      if (!revoked) throw new AdministrationError('There is no such key. waybill key list shows them.');
      return revoked;
    });
  }

  listKeys(tenant: string, subject: string | null): Promise<ApiKey[]> {
    return administer(this.ownerUrl, tenant, async (tx) =>
      allKeys(tx, subject === null ? null : (await requireUser(tx, subject)).id),
    );
  }
}

async function requireUser(tx: IdentityTransaction, subject: string): Promise<User> {
  const user = await users.findBySubject(tx, subject);
  if (!user) throw new AdministrationError(`There is no user ${subject}. waybill user list shows them.`);
  return user;
}

function allKeys(tx: IdentityTransaction, userId: string | null): Promise<ApiKey[]> {
  return all((beforeId, limit) => apiKeys.page(tx, { userId, beforeId, limit }));
}

const PAGE = 1_000;

async function all<Row extends { id: string }>(
  page: (beforeId: string | null, limit: number) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (;;) {
    const next = await page(rows.at(-1)?.id ?? null, PAGE);
    rows.push(...next);
    if (next.length < PAGE) return rows;
  }
}
