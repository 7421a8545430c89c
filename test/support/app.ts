import type { Type } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { createApp } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { type DemoTenant, makeDemoTenants } from '../../src/identity/index.js';
import { openApiDocument } from '../../src/openapi.js';
import { ApiClient, knowDocument } from './api-client.js';
import { createTestDatabase, type TestDatabase } from './database.js';

export interface TestAppOptions {
  /** Settings as the environment would give them. */
  env?: Record<string, string>;
  extensions?: readonly Type<unknown>[];
  /** A database that is there already; it is left alone when the app closes. */
  database?: TestDatabase;
}

/** A service that listens on a port of its own, on a database of its own, with two tenants. */
export interface TestApp {
  app: NestFastifyApplication;
  baseUrl: string;
  database: TestDatabase;
  /** Tenants `demo` (id 1) and `other` (id 2). */
  tenants: readonly [DemoTenant, DemoTenant];
  /** A client of the first tenant, with the key of this role. */
  as(role: string): ApiClient;
  /** A client of the second tenant. */
  asOther(role: string): ApiClient;
  close(): Promise<void>;
}

export async function startTestApp({
  env = {},
  extensions = [],
  database: given,
}: TestAppOptions = {}): Promise<TestApp> {
  const database = given ?? (await createTestDatabase());
  const [demo, other] = await makeDemoTenants(database.ownerUrl);
  if (!demo || !other) throw new Error('makeDemoTenants made fewer than two tenants');
  const settings = { LOG_LEVEL: 'fatal', DATABASE_POOL_SIZE: '8', AUDIT_SEAL_INTERVAL: 'off', ...env };
  const { appUrl, ownerUrl, sealerUrl } = database;
  const config = { ...loadConfig(settings), database: { appUrl, ownerUrl, sealerUrl } };
  const app = await createApp(config, extensions);
  try {
    await app.listen(0, '127.0.0.1');
  } catch (error) {
    await app.close().catch(() => undefined);
    throw error;
  }
  const baseUrl = await app.getUrl();
  if (env.RATE_LIMIT) knowDocument(baseUrl, openApiDocument(app));
  return {
    app,
    baseUrl,
    database,
    tenants: [demo, other],
    as: (role) => new ApiClient(baseUrl, demo.keys[role]),
    asOther: (role) => new ApiClient(baseUrl, other.keys[role]),
    close: async () => {
      await app.close();
      if (!given) await database.drop();
    },
  };
}
