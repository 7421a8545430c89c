import type { NamedStatement, TenantTransaction } from '../database/index.js';
import type { TokenClaims } from './tokens/token-claims.js';

/** The part of a transaction that these queries need, so that the command line can run them as well. */
export interface IdentityTransaction {
  context: Pick<TenantTransaction['context'], 'tenantId'>;
  rows: TenantTransaction['rows'];
}

export type UserKind = 'human' | 'service' | 'system';

export interface User {
  id: string;
  subject: string;
  kind: UserKind;
  displayName: string;
  roles: string[];
  /** RFC 3339 in UTC, as all times here. */
  createdAt: string;
  disabledAt: string | null;
  /** Whether it was a person whose subject and name are gone. */
  erased: boolean;
}

export interface NewUser {
  id: string;
  subject: string;
  kind: 'human' | 'service';
  displayName: string;
  roles: readonly string[];
}

/** What is left out stays. */
export interface UserChanges {
  displayName?: string;
  roles?: readonly string[];
  disabled?: boolean;
}

const COLUMNS = `id, subject, kind, display_name AS "displayName", roles,
  created_at AS "createdAt", disabled_at AS "disabledAt",
  kind = 'human' AND salt IS NULL AS erased`;

/** Every query on users. */
export class UsersRepository {
  /** Newest first; ids are uuid v7. */
  page(tx: IdentityTransaction, beforeId: string | null, limit: number): Promise<User[]> {
    return tx.rows<User>(PAGE, [tx.context.tenantId, beforeId, limit]);
  }

  async find(tx: IdentityTransaction, id: string): Promise<User | null> {
    const [user] = await tx.rows<User>(FIND, [tx.context.tenantId, id]);
    return user ?? null;
  }

  async findBySubject(tx: IdentityTransaction, subject: string): Promise<User | null> {
    const [user] = await tx.rows<User>(FIND_BY_SUBJECT, [tx.context.tenantId, subject]);
    return user ?? null;
  }

  /** Keeps others from changing these users until the transaction ends; always in the order of the ids. */
  lock(tx: IdentityTransaction, ids: readonly string[]): Promise<User[]> {
    return tx.rows<User>(LOCK, [tx.context.tenantId, ids]);
  }

  /** @returns null when the subject is taken */
  async create(tx: IdentityTransaction, user: NewUser): Promise<User | null> {
    const { id, subject, kind, displayName, roles } = user;
    const [made] = await tx.rows<User>(CREATE, [tx.context.tenantId, id, subject, kind, displayName, roles]);
    return made ?? null;
  }

  async change(tx: IdentityTransaction, id: string, changes: UserChanges): Promise<User | null> {
    const { displayName = null, roles = null, disabled = null } = changes;
    const [user] = await tx.rows<User>(CHANGE, [tx.context.tenantId, id, displayName, roles, disabled]);
    return user ?? null;
  }

  /** @returns the user without name and subject; null when there is none */
  async erase(tx: IdentityTransaction, id: string): Promise<User | null> {
    const [user] = await tx.rows<User>(ERASE, [tx.context.tenantId, id]);
    return user ?? null;
  }

  /** The user of a verified token, made with this id when there is none yet. */
  async meet(
    tx: IdentityTransaction,
    newId: string,
    { subject, displayName, roles }: TokenClaims,
  ): Promise<{ id: string; kind: UserKind; disabled: boolean } | null> {
    const values = [tx.context.tenantId, newId, subject, displayName, roles];
    const [user] = await tx.rows<{ id: string; kind: UserKind; disabled: boolean }>(MEET, values);
    return user ?? null;
  }

  /** Roles that steps of workflows ask for. */
  async workflowRoles(tx: IdentityTransaction): Promise<string[]> {
    const rows = await tx.rows<{ role: string }>(WORKFLOW_ROLES, []);
    return rows.map(({ role }) => role);
  }

  async countOtherAdmins(tx: IdentityTransaction, id: string): Promise<number> {
    const [row] = await tx.rows<{ count: number }>(COUNT_OTHER_ADMINS, [tx.context.tenantId, id]);
    return row?.count ?? 0;
  }
}

const PAGE: NamedStatement = {
  name: 'page_users',
  text: `SELECT ${COLUMNS} FROM waybill.users
         WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
};

const FIND: NamedStatement = {
  name: 'find_user',
  text: `SELECT ${COLUMNS} FROM waybill.users WHERE tenant_id = $1 AND id = $2`,
};

const FIND_BY_SUBJECT: NamedStatement = {
  name: 'find_user_by_subject',
  text: `SELECT ${COLUMNS} FROM waybill.users WHERE tenant_id = $1 AND subject = $2`,
};

const LOCK: NamedStatement = {
  name: 'lock_users',
  text: `SELECT ${COLUMNS} FROM waybill.lock_users($1, $2)`,
};

const CREATE: NamedStatement = {
  name: 'create_user',
  text: `SELECT ${COLUMNS} FROM waybill.create_user($1, $2, $3, $4, $5, $6)`,
};

const CHANGE: NamedStatement = {
  name: 'change_user',
  text: `SELECT ${COLUMNS} FROM waybill.change_user($1, $2, $3, $4, $5)`,
};

const ERASE: NamedStatement = { name: 'erase_user', text: `SELECT ${COLUMNS} FROM waybill.erase_user($1, $2)` };

const MEET: NamedStatement = {
  name: 'meet_user',
  text: 'SELECT id, kind, disabled FROM waybill.meet_user($1, $2, $3, $4, $5)',
};

const WORKFLOW_ROLES: NamedStatement = {
  name: 'workflow_roles',
  text: 'SELECT DISTINCT unnest(roles) AS role FROM waybill.valid_transitions',
};

const COUNT_OTHER_ADMINS: NamedStatement = {
  name: 'count_other_admins',
  text: `SELECT count(*)::int AS count FROM waybill.users
         WHERE tenant_id = $1 AND id <> $2 AND disabled_at IS NULL AND 'admin' = ANY (roles)`,
};
