import { isText } from '../../validation/index.js';
import { MAX_DISPLAY_NAME, MAX_ROLES, MAX_SUBJECT, ROLE_NAME } from '../user-bounds.js';

/** What a verified token says of its bearer. */
export interface TokenClaims {
  subject: string;
  displayName: string;
  /** The tenant's id in digits, or its slug. */
  tenant: string;
  roles: string[];
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/** Names of claims; one with dots that no claim has literally is a path, as in `realm_access.roles`. */
export interface ClaimNames {
  tenant: string;
  roles: string;
}

type Payload = Readonly<Record<string, unknown>>;

const TENANT = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * Reads a payload whose signature, times, issuer and audience are verified already.
 *
 * Roles that can't be names of ours are left out, since identity providers list all kinds of groups: `system` belongs to
 * the service itself, and a comma would make one role two on the way to the database.
 *
 * @returns null when the subject, the tenant or the end is missing or unusable
 */
export function readClaims(payload: Payload, names: ClaimNames): TokenClaims | null {
  const { sub, exp, name } = payload;
  const tenant = tenantOf(readClaim(payload, names.tenant));
  if (!isText(sub, 1, MAX_SUBJECT) || typeof exp !== 'number' || tenant === null) return null;
  return {
    subject: sub,
    displayName: isText(name, 1, MAX_DISPLAY_NAME) ? name : sub.slice(0, MAX_DISPLAY_NAME),
    tenant,
    roles: rolesOf(readClaim(payload, names.roles)),
    expiresAt: exp * 1000,
  };
}

function readClaim(payload: Payload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  let value: unknown = payload;
  for (const step of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Payload)[step];
  }
  return value;
}

function tenantOf(claim: unknown): string | null {
  if (Number.isSafeInteger(claim) && (claim as number) > 0) return String(claim);
  return typeof claim === 'string' && TENANT.test(claim) ? claim : null;
}

/** A list, or, as OAuth writes scopes, names with spaces between. */
function rolesOf(claim: unknown): string[] {
  const names: unknown[] = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  const usable = names.filter((name): name is string => typeof name === 'string' && ROLE_NAME.test(name));
  return [...new Set(usable)].filter((name) => name !== 'system').slice(0, MAX_ROLES);
}
