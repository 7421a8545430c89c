import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { createApp } from './app.js';
import type { Config, DatabaseAddresses } from './config.js';
import { bootstrapCluster, migrate } from './database/index.js';
import { embeddedBinaries, type EmbeddedServer, rolePasswords, startEmbedded } from './database/embedded/index.js';
import { type DemoTenant, makeDemoTenants } from './identity/index.js';
import { mountSwaggerUi } from './openapi.js';

/** A running service with all that it started for itself. */
export interface RunningService {
  /** Where it answers, such as `http://127.0.0.1:3000`. */
  baseUrl: string;
  /** The file with demo keys; null on an external database. */
  demoFile: string | null;
  /** A key that can do everything with orders, for the first curl; null on an external database. */
  demoKey: string | null;
  stop(): Promise<void>;
}

interface ServiceDatabase extends DatabaseAddresses {
  embedded: (EmbeddedServer & { superuserDatabaseUrl: string }) | null;
}

const DATABASE = 'waybill';

/** Starts everything that the settings ask for: PostgreSQL unless an address is given, migrations, demo data, HTTP. */
export async function serve(config: Config, log: (line: string) => void): Promise<RunningService> {
  const database = await openDatabase(config, log);
  try {
    if (database.ownerUrl) {
      const applied = await migrate(database.ownerUrl);
      if (applied.length > 0) log(`Applied ${applied.length} migrations`);
    }
    const { app, baseUrl } = await listen(config, database.appUrl);
    const demo = database.embedded ? await demoData(config, database, baseUrl) : null;
    return {
      baseUrl,
      demoFile: demo?.file ?? null,
      demoKey: demo?.key ?? null,
      stop: async () => {
        await app.close();
        await database.embedded?.stop();
      },
    };
  } catch (error) {
    await database.embedded?.stop();
    throw error;
  }
}

async function openDatabase({ database, dataDir }: Config, log: (line: string) => void): Promise<ServiceDatabase> {
  if (database) return { ...database, embedded: null };
  const embedded = await startEmbedded({ dataDir: join(dataDir, 'pg'), binaries: embeddedBinaries(), log });
  const urls = await bootstrapCluster(embedded.superuserUrl, DATABASE, await rolePasswords(join(dataDir, 'pg')));
  const superuserDatabaseUrl = Object.assign(new URL(embedded.superuserUrl), { pathname: `/${DATABASE}` }).href;
  return { appUrl: urls.appUrl, ownerUrl: urls.ownerUrl, embedded: { ...embedded, superuserDatabaseUrl } };
}

async function listen(config: Config, databaseUrl: string): Promise<{ app: NestFastifyApplication; baseUrl: string }> {
  const { databasePoolSize, trustProxy, logLevel, host, port } = config;
  const app = await createApp({ databaseUrl, databasePoolSize, trustProxy, logLevel });
  try {
    mountSwaggerUi(app);
    await app.listen(port, host);
    return { app, baseUrl: (await app.getUrl()).replace('[::1]', '127.0.0.1').replace('0.0.0.0', '127.0.0.1') };
  } catch (error) {
    await app.close();
    const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
    if (!isTaken) throw error;
    throw new Error(`Port ${port} is taken. Stop what listens there, or choose another: PORT=${port + 1} npm start`, {
      cause: error,
    });
  }
}

interface DemoFile {
  baseUrl: string;
  tenants: DemoTenant[];
  database: { url: string; ownerUrl: string | null; superuserUrl: string };
}

/** Makes the demo tenants on the first start, and writes where the service and its database are on every one. */
async function demoData(config: Config, database: ServiceDatabase, baseUrl: string): Promise<{ file: string; key: string }> {
  const file = join(config.dataDir, 'demo.json');
  const tenants = (await readDemoFile(file))?.tenants ?? (await makeDemoTenants(database.ownerUrl ?? ''));
  const content: DemoFile = {
    baseUrl,
    tenants,
    database: {
      url: database.appUrl,
      ownerUrl: database.ownerUrl,
      superuserUrl: database.embedded?.superuserDatabaseUrl ?? '',
    },
  };
  await mkdir(config.dataDir, { recursive: true });
  await writeFile(file, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  return { file, key: tenants[0]?.keys.operator ?? '' };
}

async function readDemoFile(file: string): Promise<DemoFile | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as DemoFile;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}
