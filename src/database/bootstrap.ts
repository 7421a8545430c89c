import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { SteadyClient } from './client.js';
import { findUp } from './embedded/find-up.js';
import type { RolePasswords } from './embedded/role-passwords.js';
import { parseScript, runScript } from './psql-script.js';

const MOST_ATTEMPTS = 10;

/** Addresses of one database, by the role that logs in. */
export interface RoleUrls {
  ownerUrl: string;
  appUrl: string;
  sealerUrl: string;
}

/**
 * Makes Waybill's roles on the server and `database` with its rights, by running migrations/bootstrap.sql. Safe to run
 * again and from several processes at once; the roles' passwords become the given ones.
 * @param superuserUrl TCP address of a superuser, or of a role with CREATEROLE and CREATEDB
 * @throws Error when a role of that name has powers it must not have
 */
export async function bootstrapCluster(
  superuserUrl: string,
  database: string,
  passwords: RolePasswords,
): Promise<RoleUrls> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await runSections(superuserUrl, database, passwords);
      break;
    } catch (error) {
      if (attempt === MOST_ATTEMPTS || !isRace(error)) throw error;
      await sleep(randomInt(20, 200));
    }
  }
  return roleUrls(superuserUrl, database, passwords);
}

/**
 * Whether two bootstraps got in each other's way. The script takes a lock, but such locks belong to one database, and
 * roles to the whole server: runs that started from different databases can still meet.
 */
function isRace(error: unknown): boolean {
  const { code, message = '' } = error as { code?: string; message?: string };
  const alreadyThere = ['23505', '42710', '42P04'];
  return alreadyThere.includes(code ?? '') || message.startsWith('tuple concurrently');
}

/**
 * Gives a database that was cloned from another one (`CREATE DATABASE … TEMPLATE`) the rights that cloning leaves out:
 * those on the database itself. What lies inside is copied.
 */
export async function grantDatabaseRights(superuserUrl: string, database: string): Promise<void> {
  await runSections(superuserUrl, database, { owner: '', app: '', sealer: '' }, ['database-rights']);
}

/** The addresses of `database` on the server at `serverUrl` for the three roles. */
export function roleUrls(serverUrl: string, database: string, passwords: RolePasswords): RoleUrls {
  const urlOf = (role: keyof RolePasswords): string => {
    const url = databaseUrl(serverUrl, database);
    url.username = `waybill_${role}`;
    url.password = passwords[role];
    return url.href;
  };
  return { ownerUrl: urlOf('owner'), appUrl: urlOf('app'), sealerUrl: urlOf('sealer') };
}

/** `serverUrl` with another database. */
export function databaseUrl(serverUrl: string, database: string): URL {
  const url = new URL(serverUrl);
  if (!url.hostname)
    throw new Error('A database address must name its host: postgres://user:password@host:port/database');
  url.pathname = `/${encodeURIComponent(database)}`;
  return url;
}

async function runSections(
  superuserUrl: string,
  database: string,
  passwords: RolePasswords,
  sections?: string[],
): Promise<void> {
  const file = findUp(import.meta.url, 'migrations/bootstrap.sql');
  if (!file) throw new Error('migrations/bootstrap.sql is missing from this installation');
  const steps = parseScript(await readFile(file, 'utf8'), {
    database,
    owner_password: passwords.owner,
    app_password: passwords.app,
    sealer_password: passwords.sealer,
  });
  const wanted = steps.filter((step) => sections === undefined || sections.includes(step.section));
  const maintenance = decodeURIComponent(new URL(superuserUrl).pathname.slice(1)) || 'postgres';
  await runScript(wanted, maintenance, async (name) => {
    const client = new SteadyClient({ connectionString: databaseUrl(superuserUrl, name).href });
    await client.connect();
    return client;
  });
}
