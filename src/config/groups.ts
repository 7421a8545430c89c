import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { parseAddress } from '../database/address/database-address.js';
import type { JwtSettings, Quota, RateLimitSettings } from '../identity/index.js';
import type { AuditSettings, Config, DatabaseAddresses } from './settings.js';
import { witnessPolicy } from './witnesses.js';
import { ConfigError, databaseAddress, duration, oneOf, text } from './values.js';

export function addresses(env: NodeJS.ProcessEnv): DatabaseAddresses | null {
  const appUrl = databaseAddress(env, 'DATABASE_URL');
  const ownerUrl = databaseAddress(env, 'MIGRATION_DATABASE_URL');
  const sealerUrl = databaseAddress(env, 'SEALER_DATABASE_URL');
  if (!appUrl && (ownerUrl || sealerUrl)) {
    throw new ConfigError(
      'DATABASE_URL is not set, but another database address is. Set it to the address of waybill_app.',
    );
  }
  if (ownerUrl && parseAddress(ownerUrl).isPooled) {
    throw new ConfigError(
      'MIGRATION_DATABASE_URL has pgbouncer=true, but a migration holds a lock on its session. Set it to the address of PostgreSQL itself.',
    );
  }
  return appUrl ? { appUrl, ownerUrl, sealerUrl } : null;
}

export function auditSettings(env: NodeJS.ProcessEnv, dataDir: string): AuditSettings {
  const { AUDIT_SIGNING_KEY: pem, AUDIT_SIGNING_KEY_FILE: file, AUDIT_SIGNING_KEYS_DIR: folder } = env;
  if (pem && file) throw new ConfigError('AUDIT_SIGNING_KEY and AUDIT_SIGNING_KEY_FILE are both set. Set one of them.');
  const origin = text(env, 'AUDIT_ORIGIN', 'waybill.localhost');
  if (/[\s+\p{Cc}]/u.test(origin) || origin.endsWith('/')) {
    throw new ConfigError(
      'AUDIT_ORIGIN must be a name like audit.example.com/waybill, without spaces, + and a / at its end.',
    );
  }
  // A PEM in an environment file often has its line breaks written out.
  const root = pem ? { pem: pem.replaceAll('\\n', '\n') } : file ? { file: resolve(file) } : null;
  const signingKey = root || folder ? { root, folder: folder ? resolve(folder) : null } : null;
  if (env.DATABASE_URL && signingKey && !env.AUDIT_ORIGIN) {
    throw new ConfigError(
      'AUDIT_ORIGIN is not set. Give the logs of this database a name that no others have, like audit.example.com/waybill. It stays for ever.',
    );
  }
  return {
    signingKey,
    origin,
    checkpointDir: resolve(text(env, 'AUDIT_CHECKPOINT_DIR', join(dataDir, 'checkpoints'))),
    witnesses: witnessPolicy(env),
    sealInterval: env.AUDIT_SEAL_INTERVAL === 'off' ? null : duration(env, 'AUDIT_SEAL_INTERVAL', '1s'),
  };
}

export function payments(env: NodeJS.ProcessEnv): Config['payments'] {
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

/** Off, on, or the proxies' addresses as Fastify takes them. */
export function trustProxy(value: string | undefined): boolean | string {
  if (!value || value === 'false') return false;
  if (value === 'true') return true;
  const wrong = value.split(',').find((entry) => !isProxy(entry.trim()));
  if (wrong === undefined) return value;
  throw new ConfigError(
    `TRUST_PROXY must be false, true, or addresses and networks like 10.0.0.0/8, separated by commas, not "${wrong}".`,
  );
}

const NAMED_NETWORKS = new Set(['loopback', 'linklocal', 'uniquelocal']);

function isProxy(entry: string): boolean {
  const [address = '', prefix, ...more] = entry.split('/');
  const version = isIP(address);
  if (version === 0 || more.length > 0) return NAMED_NETWORKS.has(entry);
  return prefix === undefined || (/^[1-9]\d{0,2}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128));
}

/** Tokens are on when the identity provider is named, and then completely. */
export function jwt(env: NodeJS.ProcessEnv, production: boolean): JwtSettings | null {
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
export function rateLimits(value: string | undefined): RateLimitSettings {
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

export function origins(value: string | undefined): string[] {
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
