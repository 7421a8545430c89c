import { describe, expect, it } from '@jest/globals';
import { ConfigError, loadConfig } from './config.js';

describe('the settings', () => {
  it('have defaults for everything', () => {
    expect(loadConfig({})).toMatchObject({
      production: false,
      host: '127.0.0.1',
      port: 3000,
      trustProxy: false,
      logLevel: 'log',
      database: null,
      databasePoolSize: 8,
    });
    expect(loadConfig({}).dataDir).toMatch(/\.waybill$/);
  });

  it('take an empty variable for one that is not set', () => {
    expect(loadConfig({ PORT: '', HOST: '', LOG_LEVEL: '', DATABASE_URL: '', DATABASE_POOL_SIZE: '' })).toEqual(
      loadConfig({}),
    );
  });

  it.each([
    ['PORT', 'http', '"http"'],
    ['PORT', '-1', '0 to 65535'],
    ['PORT', '65536', '0 to 65535'],
    ['PORT', '80.5', '80.5'],
    ['PORT', ' 80', 'whole number'],
    ['DATABASE_POOL_SIZE', '0', '1 to 200'],
    ['DATABASE_POOL_SIZE', '201', '1 to 200'],
    ['LOG_LEVEL', 'loud', 'fatal'],
    ['LOG_LEVEL', 'toString', 'fatal'],
    ['DATABASE_URL', 'mysql://x/y', 'postgres://'],
    ['MIGRATION_DATABASE_URL', 'localhost', 'postgres://'],
    ['SEALER_DATABASE_URL', 'x', 'postgres://'],
  ])('refuse %s=%s with a message that names it and says what is right', (name, value, hint) => {
    expect(() => loadConfig({ [name]: value })).toThrow(ConfigError);
    expect(() => loadConfig({ [name]: value })).toThrow(new RegExp(`^${name}\\b`));
    expect(() => loadConfig({ [name]: value })).toThrow(hint);
  });

  it('name the witnesses of checkpoints, each with its address, and how many of them must cosign', () => {
    // The key of a running witness.
    const one = 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2';
    const of = (text: string, rest = {}) => loadConfig({ AUDIT_WITNESSES: text, ...rest }).audit.witnesses;
    expect(of('')).toBeNull();
    expect(of(`${one} https://remora.n621.de/`)).toMatchObject({
      quorum: 1,
      timeout: 5000,
      witnesses: [{ key: { name: 'remora.n621.de' }, url: 'https://remora.n621.de' }],
    });
    for (const bad of [
      one,
      `${one} remora.n621.de`,
      `${one} https://a b`,
      'x https://a',
      `${one} https://a, ${one} https://b`,
    ])
      expect(() => of(bad)).toThrow(/^AUDIT_WITNESSES\b/);
    expect(() => of(`${one} https://a`, { AUDIT_WITNESS_QUORUM: '2' })).toThrow('1 to 1');
    expect(() => of('', { AUDIT_WITNESS_QUORUM: '1' })).toThrow(ConfigError);
  });

  it('want a name for the logs of an own database, where a key is set', () => {
    const own = { DATABASE_URL: 'postgres://waybill_app@db/waybill' };
    expect(loadConfig(own).audit.signingKey).toBeNull();
    for (const key of ['AUDIT_SIGNING_KEY', 'AUDIT_SIGNING_KEY_FILE', 'AUDIT_SIGNING_KEYS_DIR']) {
      expect(() => loadConfig({ ...own, [key]: 'key' })).toThrow(/^AUDIT_ORIGIN is not set\. Give the logs .* a name/);
      expect(loadConfig({ ...own, [key]: 'key', AUDIT_ORIGIN: 'audit.test' }).audit.origin).toBe('audit.test');
      expect(loadConfig({ [key]: 'key' }).audit.origin).toBe('waybill.localhost');
    }
  });

  it('never repeat an address in a message: it may hold a password', () => {
    expect(() => loadConfig({ DATABASE_URL: 'mysql://me:secret@host/db' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') as unknown }),
    );
  });

  it('take the addresses of an external database', () => {
    const env = {
      DATABASE_URL: 'postgres://waybill_app:x@db/waybill',
      MIGRATION_DATABASE_URL: 'postgresql://waybill_owner:x@db/waybill',
    };
    expect(loadConfig(env).database).toEqual({
      appUrl: env.DATABASE_URL,
      ownerUrl: env.MIGRATION_DATABASE_URL,
      sealerUrl: null,
    });
  });

  it('want the address of the app role when another one is given', () => {
    expect(() => loadConfig({ MIGRATION_DATABASE_URL: 'postgres://o:x@db/w' })).toThrow(/^DATABASE_URL is not set/);
  });

  it('of production refuse the embedded database unless told so', () => {
    expect(() => loadConfig({ NODE_ENV: 'production' })).toThrow(/^DATABASE_URL is not set/);
    expect(loadConfig({ NODE_ENV: 'production', WAYBILL_EMBEDDED: 'allow' }).database).toBeNull();
    expect(loadConfig({ NODE_ENV: 'production', DATABASE_URL: 'postgres://a:x@db/w' }).production).toBe(true);
  });
});

const messageOf = (env: NodeJS.ProcessEnv): string => {
  try {
    loadConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'taken';
};
const jwt = { JWT_ISSUER: 'https://id.test/', JWT_AUDIENCE: 'waybill', JWT_JWKS_URI: 'https://id.test/keys' };

describe('settings of identity', () => {
  it('are off, or have defaults, unless set', () => {
    const { jwt, corsOrigins, rateLimits, trustProxy } = loadConfig({});
    expect({ jwt, corsOrigins, trustProxy }).toEqual({ jwt: null, corsOrigins: [], trustProxy: false });
    expect(rateLimits.failures).toEqual({ limit: 100, windowSeconds: 60 });
  });

  it('are read', () => {
    const env = {
      ...jwt,
      CORS_ORIGINS: 'https://a.test, http://localhost:8080',
      RATE_LIMIT: 'principal=5/s,failures=off',
    };
    const config = loadConfig(env);
    expect(config.jwt).toEqual({
      issuer: 'https://id.test/',
      audience: 'waybill',
      jwksUri: 'https://id.test/keys',
      tenantClaim: 'tenant',
      rolesClaim: 'roles',
    });
    expect(config.corsOrigins).toEqual(['https://a.test', 'http://localhost:8080']);
    expect(config.rateLimits).toEqual({
      address: { limit: 60_000, windowSeconds: 60 },
      principal: { limit: 5, windowSeconds: 1 },
      failures: null,
    });
    const proxies = 'loopback, 10.0.0.0/8,2001:db8::/32,192.0.2.1';
    expect(loadConfig({ TRUST_PROXY: proxies }).trustProxy).toBe(proxies);
    expect(loadConfig({ RATE_LIMIT: 'off' }).rateLimits).toEqual({ address: null, principal: null, failures: null });
  });

  it.each([
    [{ JWT_ISSUER: 'https://id.test' }, 'JWT_AUDIENCE and JWT_JWKS_URI not set'],
    [{ ...jwt, JWT_JWKS_URI: 'http://id.test', NODE_ENV: 'production', WAYBILL_EMBEDDED: 'allow' }, 'https://'],
    [{ ...jwt, JWT_JWKS_URI: 'nonsense' }, 'https://'],
    [{ TRUST_PROXY: 'proxy.example' }, 'TRUST_PROXY must be false, true, or addresses'],
    [{ TRUST_PROXY: '10.0.0.1, 10.0.0.0/33' }, 'TRUST_PROXY'],
    [{ TRUST_PROXY: '10.0.0.1:443' }, 'TRUST_PROXY'],
    [{ MAX_CONNECTIONS: '5' }, 'MAX_CONNECTIONS must be a whole number from 10 to 100000'],
    [{ MAX_BODY_MEMORY: '64MB' }, 'MAX_BODY_MEMORY must be a whole number from 8 to 16384'],
    [{ RATE_LIMIT: 'lots' }, 'RATE_LIMIT must be off, or entries like'],
    [{ RATE_LIMIT: 'address=0/m' }, 'RATE_LIMIT'],
    [{ RATE_LIMIT: 'constructor=1/m' }, 'RATE_LIMIT'],
    [{ CORS_ORIGINS: 'https://app.example.test/path' }, 'CORS_ORIGINS must be origins'],
    [{ CORS_ORIGINS: '*' }, 'CORS_ORIGINS'],
  ])('such as %j are refused by name', (env, message) => {
    expect(messageOf(env)).toContain(message);
  });

  it.each(['DATABASE_URL', 'MIGRATION_DATABASE_URL', 'SEALER_DATABASE_URL', 'JWT_JWKS_URI'])(
    'hold secrets that a refusal does not repeat: %s',
    (name) => {
      const others = name === 'JWT_JWKS_URI' ? jwt : {};
      for (const value of ['ftp://user:pa55w0rd@host/x', 'postgres://user:pa55w0rd@bad host/x']) {
        const message = messageOf({ ...others, [name]: value });
        expect(message).toContain(name);
        expect(message).not.toContain('pa55w0rd');
      }
    },
  );
});
