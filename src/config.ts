import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/** How the service runs. Everything that reads a setting reads it from here. */
export interface Config {
  production: boolean;
  host: string;
  port: number;
  trustProxy: boolean | string;
  logLevel: LogLevel;
  /** Folder of the embedded server and of demo credentials. */
  dataDir: string;
  /** Addresses of an external PostgreSQL; null starts the embedded one. */
  database: DatabaseAddresses | null;
  databasePoolSize: number;
  idempotency: {
    /** How long answers are kept under their keys; null is for ever. */
    ttlSeconds: number | null;
    /** How long a key stays with a worker that is away on a call. */
    leaseSeconds: number;
  };
  payments: {
    /** What new payments are made with. */
    provider: 'simulated' | 'stripe';
    /** Null without a key. */
    stripe: { apiKey: string; apiBase: string | null; webhookSecret: string | null } | null;
  };
  /** For fault tests: kill points are told to the parent process, which says when to go on. */
  killPoints: boolean;
}

/** Settings with the database found: given by address, or started. */
export interface ServiceConfig extends Config {
  database: DatabaseAddresses;
}

export interface DatabaseAddresses {
  /** As `waybill_app`: what requests use. */
  appUrl: string;
  /** As `waybill_owner`: migrations and administration. Absent where a deployment migrates by itself. */
  ownerUrl: string | null;
  /** As `waybill_sealer`: background work on all tenants. */
  sealerUrl: string | null;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A setting that can't be used. The message names it and says what would be right. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads and checks the settings of .env.example.
 *
 * @throws ConfigError that names the first bad setting
 */
export function loadConfig(env: NodeJS.ProcessEnv = environment()): Config {
  const production = env.NODE_ENV === 'production';
  const config: Config = {
    production,
    host: text(env, 'HOST', '127.0.0.1'),
    port: integer(env, 'PORT', 3000, 0, 65_535),
    trustProxy: trustProxy(env.TRUST_PROXY),
    logLevel: oneOf(env, 'LOG_LEVEL', LOG_LEVELS, 'log'),
    dataDir: resolve(text(env, 'WAYBILL_DATA_DIR', '.waybill')),
    database: addresses(env),
    databasePoolSize: integer(env, 'DATABASE_POOL_SIZE', 16, 1, 200),
    idempotency: {
      ttlSeconds: env.IDEMPOTENCY_TTL === 'forever' ? null : seconds(env, 'IDEMPOTENCY_TTL', '24h'),
      leaseSeconds: seconds(env, 'IDEMPOTENCY_LEASE', '30s'),
    },
    payments: payments(env),
    killPoints: oneOf(env, 'WAYBILL_KILL_POINTS', ['off', 'parent'] as const, 'off') === 'parent',
  };
  if (production && config.killPoints) {
    throw new ConfigError('WAYBILL_KILL_POINTS is for fault tests; it must not be set in production.');
  }
  if (production && !config.database && env.WAYBILL_EMBEDDED !== 'allow') {
    throw new ConfigError(
      'DATABASE_URL is not set. In production an own PostgreSQL is expected; ' +
        'WAYBILL_EMBEDDED=allow starts the embedded one with demo data all the same.',
    );
  }
  return config;
}

function environment(): NodeJS.ProcessEnv {
  if (existsSync('.env')) process.loadEnvFile('.env');
  return process.env;
}

function addresses(env: NodeJS.ProcessEnv): DatabaseAddresses | null {
  const appUrl = url(env, 'DATABASE_URL');
  const ownerUrl = url(env, 'MIGRATION_DATABASE_URL');
  const sealerUrl = url(env, 'SEALER_DATABASE_URL');
  if (!appUrl && (ownerUrl || sealerUrl)) {
    throw new ConfigError(
      'DATABASE_URL is not set, but another database address is. Set it to the address of waybill_app.',
    );
  }
  return appUrl ? { appUrl, ownerUrl, sealerUrl } : null;
}

function url(env: NodeJS.ProcessEnv, name: string): string | null {
  const value = env[name];
  if (!value) return null;
  if (!/^postgres(ql)?:\/\//.test(value) || !URL.canParse(value)) {
    throw new ConfigError(`${name} must be an address like postgres://role:password@host:5432/database.`);
  }
  return value;
}

function payments(env: NodeJS.ProcessEnv): Config['payments'] {
  const provider = oneOf(env, 'PAYMENT_PROVIDER', ['simulated', 'stripe'] as const, 'simulated');
  const { STRIPE_API_KEY: apiKey, STRIPE_API_BASE: apiBase, STRIPE_WEBHOOK_SECRET: webhookSecret } = env;
  if (provider === 'stripe' && !apiKey) {
    throw new ConfigError('STRIPE_API_KEY is not set, but PAYMENT_PROVIDER is stripe.');
  }
  if (apiBase && !(/^https?:/.test(apiBase) && URL.canParse(apiBase))) {
    throw new ConfigError('STRIPE_API_BASE must be an address like https://api.stripe.com.');
  }
  const stripe = apiKey ? { apiKey, apiBase: apiBase || null, webhookSecret: webhookSecret || null } : null;
  return { provider, stripe };
}

function text(env: NodeJS.ProcessEnv, name: string, otherwise: string): string {
  return env[name] || otherwise;
}

function integer(env: NodeJS.ProcessEnv, name: string, otherwise: number, min: number, max: number): number {
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

function seconds(env: NodeJS.ProcessEnv, name: string, otherwise: string): number {
  const value = env[name] || otherwise;
  const found = parseDuration(value);
  if (found !== undefined) return found;
  throw new ConfigError(`${name} must be a duration such as 30s, 15m, 24h or 7d, not "${value}".`);
}

function oneOf<T extends string>(env: NodeJS.ProcessEnv, name: string, allowed: readonly T[], otherwise: T): T {
  const value = env[name];
  if (!value) return otherwise;
  const found = allowed.find((candidate) => candidate === value);
  if (found) return found;
  throw new ConfigError(`${name} must be one of ${allowed.join(', ')}, not "${value}".`);
}

/** Off, on, or the proxies' addresses as Fastify takes them. */
function trustProxy(value: string | undefined): boolean | string {
  if (!value || value === 'false') return false;
  return value === 'true' ? true : value;
}
