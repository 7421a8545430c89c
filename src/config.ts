import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { JwtSettings, Quota, RateLimitSettings } from './identity/index.js';

/** How the service runs. Everything that reads a setting reads it from here. */
export interface Config {
  production: boolean;
  host: string;
  port: number;
  trustProxy: boolean | string;
  logLevel: LogLevel;
  /** JSON for machines, lines for people. */
  logFormat: LogFormat;
  /** Port of a server of its own for /metrics; null serves it beside the API. */
  metricsPort: number | null;
  /** Where OpenTelemetry spans go, over OTLP/HTTP; null sends none. */
  otlpEndpoint: string | null;
  shutdown: {
    /** After a signal, readiness is false for so long before new connections are refused. */
    delaySeconds: number;
    /** How long requests that were accepted may take to be answered. */
    graceSeconds: number;
  };
  /** Folder of the embedded server and of demo credentials. */
  dataDir: string;
  /** Addresses of an external PostgreSQL; null starts the embedded one. */
  database: DatabaseAddresses | null;
  databasePoolSize: number;
  databaseTimeouts: {
    /** Longest wait for a connection, new or out of the pool. */
    connectSeconds: number;
    /** Longest run of one statement. */
    statementSeconds: number;
    /** Longest wait of a statement for a lock. */
    lockSeconds: number;
  };
  /** Modules to load as extensions: packages, or paths from the working directory. */
  extensions: string[];
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
  /** The identity provider whose tokens are accepted; null accepts API keys only. */
  jwt: JwtSettings | null;
  rateLimits: RateLimitSettings;
  /** Origins whose pages may call this service from a browser. */
  corsOrigins: string[];
  audit: AuditSettings;
}

/** How history is sealed. */
export interface AuditSettings {
  /** Key or file as given; null where the embedded default makes one, and elsewhere there is none. */
  signingKey: { pem: string } | { file: string } | null;
  /** First part of the name of each tenant's log. */
  origin: string;
  /** Folder that checkpoints are published to. */
  checkpointDir: string;
  /** Milliseconds between two sealings; null leaves sealing to another process. */
  sealInterval: number | null;
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

const LOG_FORMATS = ['json', 'text'] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

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
  const dataDir = resolve(text(env, 'WAYBILL_DATA_DIR', '.waybill'));
  const config: Config = {
    production,
    host: text(env, 'HOST', '127.0.0.1'),
    port: integer(env, 'PORT', 3000, 0, 65_535),
    trustProxy: trustProxy(env.TRUST_PROXY),
    logLevel: oneOf(env, 'LOG_LEVEL', LOG_LEVELS, 'log'),
    logFormat: oneOf(env, 'LOG_FORMAT', LOG_FORMATS, process.stdout.isTTY || !env.DATABASE_URL ? 'text' : 'json'),
    metricsPort: env.METRICS_PORT ? integer(env, 'METRICS_PORT', 0, 0, 65_535) : null,
    otlpEndpoint: httpUrl(env, 'OTEL_EXPORTER_OTLP_ENDPOINT'),
    shutdown: {
      delaySeconds: integer(env, 'SHUTDOWN_DELAY', 0, 0, 600),
      graceSeconds: integer(env, 'SHUTDOWN_GRACE', 25, 1, 600),
    },
    dataDir,
    database: addresses(env),
    databasePoolSize: integer(env, 'DATABASE_POOL_SIZE', 8, 1, 200),
    databaseTimeouts: {
      connectSeconds: integer(env, 'DATABASE_CONNECT_TIMEOUT', 5, 1, 600),
      statementSeconds: integer(env, 'DATABASE_STATEMENT_TIMEOUT', 15, 1, 600),
      lockSeconds: integer(env, 'DATABASE_LOCK_TIMEOUT', 5, 1, 600),
    },
    extensions: list(env.WAYBILL_EXTENSIONS),
    idempotency: {
      ttlSeconds: env.IDEMPOTENCY_TTL === 'forever' ? null : seconds(env, 'IDEMPOTENCY_TTL', '24h'),
      leaseSeconds: seconds(env, 'IDEMPOTENCY_LEASE', '30s'),
    },
    payments: payments(env),
    killPoints: oneOf(env, 'WAYBILL_KILL_POINTS', ['off', 'parent'] as const, 'off') === 'parent',
    jwt: jwt(env, production),
    rateLimits: rateLimits(env.RATE_LIMIT),
    corsOrigins: origins(env.CORS_ORIGINS),
    audit: auditSettings(env, dataDir),
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

function auditSettings(env: NodeJS.ProcessEnv, dataDir: string): AuditSettings {
  const { AUDIT_SIGNING_KEY: pem, AUDIT_SIGNING_KEY_FILE: file } = env;
  if (pem && file) throw new ConfigError('AUDIT_SIGNING_KEY and AUDIT_SIGNING_KEY_FILE are both set. Set one of them.');
  const origin = text(env, 'AUDIT_ORIGIN', 'waybill.localhost');
  if (/[\s+\p{Cc}]/u.test(origin) || origin.endsWith('/')) {
    throw new ConfigError(
      'AUDIT_ORIGIN must be a name like audit.example.com/waybill, without spaces, + and a / at its end.',
    );
  }
  return {
    // A PEM in an environment file often has its line breaks written out.
    signingKey: pem ? { pem: pem.replaceAll('\\n', '\n') } : file ? { file: resolve(file) } : null,
    origin,
    checkpointDir: resolve(text(env, 'AUDIT_CHECKPOINT_DIR', join(dataDir, 'checkpoints'))),
    sealInterval: env.AUDIT_SEAL_INTERVAL === 'off' ? null : duration(env, 'AUDIT_SEAL_INTERVAL', '1s'),
  };
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a text like 500ms, 1s, 5m, 24h. */
function duration(env: NodeJS.ProcessEnv, name: string, otherwise: string): number {
  const value = env[name] || otherwise;
  const [, amount, unit] = /^([1-9]\d{0,5})(ms|s|m|h)$/.exec(value) ?? [];
  if (amount) return Number(amount) * UNITS[unit as keyof typeof UNITS];
  throw new ConfigError(`${name} must be a duration like 500ms, 1s, 5m or 24h, not "${value}".`);
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

function httpUrl(env: NodeJS.ProcessEnv, name: string): string | null {
  const value = env[name];
  if (!value) return null;
  if (!/^https?:\/\//.test(value) || !URL.canParse(value)) {
    throw new ConfigError(`${name} must be an address like http://collector:4318.`);
  }
  return value;
}

function text(env: NodeJS.ProcessEnv, name: string, otherwise: string): string {
  return env[name] || otherwise;
}

function list(value: string | undefined): string[] {
  return (value ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
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

/** Tokens are on when the identity provider is named, and then completely. */
function jwt(env: NodeJS.ProcessEnv, production: boolean): JwtSettings | null {
  const names = ['JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_JWKS_URI'] as const;
  const missing = names.filter((name) => !env[name]);
  if (missing.length === names.length) return null;
  const [issuer = '', audience = '', jwksUri = ''] = names.map((name) => env[name]);
  if (missing.length > 0) {
    throw new ConfigError(
      `${missing.join(' and ')} not set. Tokens need all of ${names.join(', ')}; unset them all to turn tokens off.`,
    );
  }
  const protocol = URL.canParse(jwksUri) ? new URL(jwksUri).protocol : '';
  if (protocol !== 'https:' && (production || protocol !== 'http:')) {
    throw new ConfigError('JWT_JWKS_URI must be an https:// address: whoever can change the keys can be anybody.');
  }
  return {
    issuer,
    audience,
    jwksUri,
    tenantClaim: text(env, 'JWT_TENANT_CLAIM', 'tenant'),
    rolesClaim: text(env, 'JWT_ROLES_CLAIM', 'roles'),
  };
}

const DEFAULT_RATE_LIMITS: RateLimitSettings = {
  address: { limit: 60_000, windowSeconds: 60 },
  principal: { limit: 60_000, windowSeconds: 60 },
  failures: { limit: 100, windowSeconds: 60 },
};
const OFF: RateLimitSettings = { address: null, principal: null, failures: null };
const WINDOWS: Record<string, number> = { s: 1, m: 60, h: 3600 };

/** `off`, or quotas like `principal=600/m,failures=off`; what isn't named keeps its default. */
function rateLimits(value: string | undefined): RateLimitSettings {
  if (!value) return DEFAULT_RATE_LIMITS;
  if (value === 'off') return OFF;
  const given = value.split(',').map((entry): [string, Quota | null] => {
    const [, name = '', off, limit, unit = ''] =
      /^(address|principal|failures)=(?:(off)|([1-9]\d{0,8})\/([smh]))$/.exec(entry.trim()) ?? [];
    if (name === '') {
      throw new ConfigError(
        `RATE_LIMIT must be off, or entries like address=60000/m,principal=600/m,failures=100/m (s, m or h), not "${value}".`,
      );
    }
    return [name, off ? null : { limit: Number(limit), windowSeconds: WINDOWS[unit] ?? 60 }];
  });
  return { ...DEFAULT_RATE_LIMITS, ...Object.fromEntries(given) };
}

function origins(value: string | undefined): string[] {
  const given = (value ?? '').split(',').map((origin) => origin.trim());
  return given.filter(Boolean).map((origin) => {
    if (/^https?:$/.test(URL.canParse(origin) ? new URL(origin).protocol : '') && new URL(origin).origin === origin) {
      return origin;
    }
    throw new ConfigError(
      `CORS_ORIGINS must be origins like https://app.example.com, separated by commas, not "${origin}".`,
    );
  });
}
