import { Injectable } from '@nestjs/common';
import { v7 as uuid } from 'uuid';
import { DEFAULT_PAGE, type PageQuery } from '../validation/index.js';
import type { TenantTransaction } from '../database/index.js';
import { type Credential, CredentialCache } from './credential-cache.js';
import type { CreateUserBody, PatchUserBody } from './dto/user.dto.js';
import { GuardedRoutes } from './guarded-routes.js';
import { idPage, readIdCursor } from './id-page.js';
import {
  ErasedForGood,
  NoPerson,
  RoleRequired,
  SubjectTaken,
  SystemUserIsFixed,
  Unauthenticated,
  UnusableMember,
  UserNotFound,
  WouldLockOut,
} from './identity.errors.js';
import { ROLES } from './role-names.js';
import { type User, UsersRepository } from './users.repository.js';

/** What administrators do with the users of their tenant. */
@Injectable()
export class UsersService {
  constructor(
    private readonly users: UsersRepository,
    private readonly cache: CredentialCache,
    private readonly routes: GuardedRoutes,
  ) {}

  async page(tx: TenantTransaction, { limit = DEFAULT_PAGE, cursor }: PageQuery) {
    const rows = await this.users.page(tx, readIdCursor(cursor, 'users'), limit + 1);
    return idPage(rows, limit, 'users');
  }

  async get(tx: TenantTransaction, id: string): Promise<User> {
    const user = await this.users.find(tx, id);
    if (!user) throw new UserNotFound();
    return user;
  }

  async create(tx: TenantTransaction, body: CreateUserBody): Promise<User> {
    await this.checkRoles(tx, body.roles);
    const made = await this.users.create(tx, { ...body, id: uuid() });
    if (made) return made;
    const known = await this.users.findBySubject(tx, body.subject);
    throw new SubjectTaken(known?.id ?? '');
  }

  async update(tx: TenantTransaction, caller: Credential, id: string, body: PatchUserBody): Promise<User> {
    const user = await this.lockForChange(tx, caller, id);
    if (user.erased) throw new ErasedForGood();
    const { displayName, roles, disabled } = withoutNulls(body);
    if (roles) await this.checkRoles(tx, roles);
    if (id === caller.principal.userId) refuseLockOut(roles ?? user.roles, disabled ?? false);
    this.cache.distrust(tx.context.tenantId, id);
    const changed = await this.users.change(tx, id, { displayName, roles, disabled });
    if (!changed) throw new UserNotFound();
    return changed;
  }

  /** Takes name and subject of a person away for good, and the access with them. Doing it again changes nothing. */
  async erase(tx: TenantTransaction, caller: Credential, id: string): Promise<User> {
    if (id === caller.principal.userId) {
      throw new WouldLockOut('You are about to erase yourself. Let another administrator do it.');
    }
    const { kind } = await this.lockForChange(tx, caller, id);
    if (kind !== 'human') throw new NoPerson();
    this.cache.distrust(tx.context.tenantId, id);
    const erased = await this.users.erase(tx, id);
    if (!erased) throw new UserNotFound();
    return erased;
  }

  /**
   * Two administrators that disable each other at the same moment would leave none: both rows are locked, and the
   * second one finds that he may no longer.
   */
  private async lockForChange(tx: TenantTransaction, caller: Credential, id: string): Promise<User> {
    const callerId = caller.principal.userId;
    const locked = await this.users.lock(tx, [callerId, id]);
    const self = locked.find((user) => user.id === callerId);
    const user = locked.find((candidate) => candidate.id === id);
    if (!self || self.disabledAt !== null) throw new Unauthenticated('The credentials were disabled meanwhile.');
    // A token brings its roles with it; a key's are those of the user's row.
    if (caller.keyId !== null && !self.roles.includes('admin')) throw new RoleRequired(['admin']);
    if (!user) throw new UserNotFound();
    if (user.kind === 'system') throw new SystemUserIsFixed();
    return user;
  }

  /** A misspelt role would grant nothing and say nothing. */
  private async checkRoles(tx: TenantTransaction, roles: readonly string[]): Promise<void> {
    const known = new Set([...ROLES, ...this.routes.roles(), ...(await this.users.workflowRoles(tx))]);
    known.delete('system');
    const unknown = roles.find((role) => !known.has(role));
    if (unknown === undefined) return;
    throw new UnusableMember(
      'roles',
      `There is no role ${unknown} to give. Roles are ${[...known].toSorted().join(', ')}.`,
    );
  }
}

function refuseLockOut(roles: readonly string[], disabled: boolean): void {
  if (disabled) throw new WouldLockOut('You are about to disable yourself. Let another administrator do it.');
  if (!roles.includes('admin')) {
    throw new WouldLockOut('You are about to take the role admin from yourself. Let another administrator do it.');
  }
}

/** In a merge-patch null takes a member away, and none of these can be: it stays as it is. */
function withoutNulls(body: PatchUserBody): PatchUserBody {
  const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(given);
}
