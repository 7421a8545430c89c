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
      databasePoolSize: 16,
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
