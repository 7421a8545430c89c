import { AddressError } from '../database/address/address-error.js';
import { parseAddress } from '../database/address/database-address.js';

/* Reads single settings; each throws a ConfigError that names its own. An empty one is one that isn't set. */

/** A setting that can't be used. The message names it and says what would be right. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a text like 500ms, 1s, 5m, 24h. */
export function duration(env: NodeJS.ProcessEnv, name: string, otherwise: string): number {
  const value = env[name] || otherwise;
  const [, amount, unit] = /^([1-9]\d{0,5})(ms|s|m|h)$/.exec(value) ?? [];
  if (amount) return Number(amount) * UNITS[unit as keyof typeof UNITS];
  throw new ConfigError(`${name} must be a duration like 500ms, 1s, 5m or 24h, not "${value}".`);
}

/** A database's address. */
export function databaseAddress(env: NodeJS.ProcessEnv, name: string): string | null {
  const value = env[name];
  if (!value) return null;
  try {
    parseAddress(value);
    return value;
  } catch (error) {
    if (error instanceof AddressError) throw new ConfigError(`${name} ${error.message}.`, { cause: error });
    throw error;
  }
}

export function httpUrl(env: NodeJS.ProcessEnv, name: string): string | null {
  const value = env[name];
  if (!value) return null;
  if (!/^https?:\/\//.test(value) || !URL.canParse(value)) {
    throw new ConfigError(`${name} must be an address like http://collector:4318.`);
  }
  return value;
}

export function text(env: NodeJS.ProcessEnv, name: string, otherwise: string): string {
  return env[name] || otherwise;
}

export function list(value: string | undefined): string[] {
  return (value ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

export function integer(env: NodeJS.ProcessEnv, name: string, otherwise: number, min: number, max: number): number {
  const value = env[name];
  if (!value) return otherwise;
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new ConfigError(`${name} must be a whole number from ${min} to ${max}, not "${value}".`);
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Seconds of a duration such as 30s, 15m, 24h or 7d; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,8})([smhd])$/.exec(text) ?? [];
  return count && unit ? Number(count) * (SECONDS[unit] ?? 1) : undefined;
}

export function seconds(env: NodeJS.ProcessEnv, name: string, otherwise: string): number {
  const value = env[name] || otherwise;
  const found = parseDuration(value);
  if (found !== undefined) return found;
  throw new ConfigError(`${name} must be a duration such as 30s, 15m, 24h or 7d, not "${value}".`);
}

export function oneOf<T extends string>(env: NodeJS.ProcessEnv, name: string, allowed: readonly T[], otherwise: T): T {
  const value = env[name];
  if (!value) return otherwise;
  const found = allowed.find((candidate) => candidate === value);
  if (found) return found;
  throw new ConfigError(`${name} must be one of ${allowed.join(', ')}, not "${value}".`);
}
