import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { addresses, auditSettings, jwt, origins, payments, rateLimits, trustProxy } from './config/groups.js';
import { type Config, LOG_FORMATS, LOG_LEVELS } from './config/settings.js';
import { ConfigError, httpUrl, integer, list, oneOf, seconds, text } from './config/values.js';

export type { AuditSettings, Config, DatabaseAddresses, ServiceConfig } from './config/settings.js';
export { ConfigError, parseDuration } from './config/values.js';

const MEBIBYTE = 1_048_576;

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
    maxConnections: integer(env, 'MAX_CONNECTIONS', 2000, 10, 100_000),
    bodyMemory: integer(env, 'MAX_BODY_MEMORY', 64, 8, 16_384) * MEBIBYTE,
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
    allowsNewerDatabase: oneOf(env, 'WAYBILL_NEWER_DATABASE', ['refuse', 'allow'] as const, 'refuse') === 'allow',
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
