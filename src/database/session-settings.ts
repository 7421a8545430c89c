import type { BoundStatement } from './statement.js';

/**
 * Settings that statements and the reading of their answers rely on. Each session begins with them, so that what somebody set for
 * a role, a database or the server changes nothing.
 */
export const PINNED_SETTINGS: Readonly<Record<string, string>> = {
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  row_security: 'on',
  search_path: '"$user",public',
  array_nulls: 'on',
  transform_null_equals: 'off',
  quote_all_identifiers: 'off',
};

/** Those that PgBouncer takes at the start and keeps with its client, whatever its configuration says. */
const KEPT_BY_POOLERS = ['TimeZone', 'DateStyle', 'standard_conforming_strings'] as const;

/** Which of a session's settings, by `pg_settings`, aren't the pinned ones: `DateStyle is SQL, DMY`. */
export function strangeSettings(found: readonly { name: string; setting: string }[]): string[] {
  const plain = (name: string, text = ''): string =>
    name === 'DateStyle' ? text.slice(0, 3) : text.replaceAll(', ', ',');
  return found
    .filter(({ name, setting }) => plain(name, setting) !== plain(name, PINNED_SETTINGS[name]))
    .map(({ name, setting }) => `${name} is ${setting}`);
}

/** Time limits of a session, in milliseconds; 0 for none. */
export interface TimeLimits {
  statement_timeout?: number;
  lock_timeout?: number;
  idle_in_transaction_session_timeout?: number;
}

/** For the first packet of a connection to PostgreSQL itself, as libpq's `options`. */
export function pinnedOptions(given: string | undefined): string {
  // What is said last counts.
  const pinned = Object.entries(PINNED_SETTINGS).map(([name, value]) => `-c ${name}=${value}`);
  return [...(given ? [given] : []), ...pinned].join(' ');
}

/** For the first packet of a connection to a pooler, which refuses all other parameters. */
export function pooledStartup(): Record<string, string> {
  return Object.fromEntries(KEPT_BY_POOLERS.map((name) => [name, PINNED_SETTINGS[name] ?? '']));
}

/**
 * All of it for one transaction: behind a pooler the next one may be on another session, which somebody else began.
 */
export function transactionSettings(limits: TimeLimits): Omit<BoundStatement, 'name'> {
  const limited = Object.entries(limits).map(([name, milliseconds]) => [name, String(milliseconds)] as const);
  const settings = [...Object.entries(PINNED_SETTINGS), ...limited];
  const calls = settings.map((_, index) => `pg_catalog.set_config($${2 * index + 1}, $${2 * index + 2}, true)`);
  return { text: `SELECT ${calls.join(', ')}`, values: settings.flat() };
}
