import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { createApp } from './app.js';
import { originOf, SigningKeys, verifierKeyText } from './audit/index.js';
import type { AuditSettings, Config, ServiceConfig } from './config.js';
import { drain } from './drain.js';
import { awaitDatabase, migrate, reportKillPointsToParent, stepName } from './database/index.js';
import { EMBEDDED_DATABASE, type EmbeddedServer, openEmbedded } from './database/embedded/index.js';
import { loadExtensions, migrationsOf, type WaybillExtension } from './extension-loader.js';
import { type DemoTenant, makeDemoTenants } from './identity/index.js';
import { serveMetrics, ServiceMetrics } from './observability/index.js';
import { mountSwaggerUi } from './openapi.js';
import { resolveSigningKey } from './signing-key.js';

/** A running service with all that it started for itself. */
export interface RunningService {
  /** Where it answers, such as `http://127.0.0.1:3000`. */
  baseUrl: string;
  /** The file with demo keys; null on an external database. */
  demoFile: string | null;
  /**
   * Answers what was accepted, then ends.
   *
   * @returns whether all of it was answered within the grace period
   */
  stop(): Promise<boolean>;
}

/** Starts everything that the settings ask for: PostgreSQL unless an address is given, migrations, demo data, HTTP. */
export async function serve(config: Config, log: (line: string) => void): Promise<RunningService> {
  if (config.killPoints) reportKillPointsToParent();
  const { database, embedded } = config.database
    ? { database: config.database, embedded: null }
    : await openEmbedded(config.dataDir, log);
  try {
    await awaitDatabase(database.appUrl, log);
    const extensions = await loadExtensions(config.extensions);
    if (database.ownerUrl) {
      const { allowsNewerDatabase: allowsNewer } = config;
      const applied = await migrate(database.ownerUrl, migrationsOf(extensions), { allowsNewer });
      if (applied.length > 0) log(`Applied ${applied.length} migrations`);
    }
    const signingKey = await resolveSigningKey(config, log);
    if (config.audit.sealInterval !== null && !(signingKey && database.sealerUrl))
      log(
        'This process seals no events: it needs AUDIT_SIGNING_KEY_FILE and SEALER_DATABASE_URL. Let another one do it.',
      );
    const resolved: ServiceConfig = {
      ...config,
      database,
      audit: { ...config.audit, signingKey },
      extensionSteps: migrationsOf(extensions).map(stepName),
    };
    const { app, baseUrl } = await listen(resolved, extensions);
    const metrics = await listenForMetrics(app, resolved);
    const demo = embedded ? await demoData(resolved, embedded, baseUrl) : null;
    return {
      baseUrl,
      demoFile: demo,
      stop: async () => {
        const isComplete = await drain(app, config.shutdown, log);
        await metrics?.close();
        await embedded?.stop();
        return isComplete;
      },
    };
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}

async function listen(
  config: ServiceConfig,
  extensions: readonly WaybillExtension[],
): Promise<{ app: NestFastifyApplication; baseUrl: string }> {
  const app = await createApp(
    config,
    extensions.map((extension) => extension.module),
  );
  try {
    mountSwaggerUi(app);
    await app.listen(config.port, config.host);
    return { app, baseUrl: (await app.getUrl()).replace('[::1]', '127.0.0.1').replace('0.0.0.0', '127.0.0.1') };
  } catch (error) {
    await app.close();
    const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
    if (!isTaken) throw error;
    const advice = `Stop what listens there, or choose another: PORT=${config.port + 1} npm start`;
    throw new Error(`Port ${config.port} is taken. ${advice}`, { cause: error });
  }
}

async function listenForMetrics(app: NestFastifyApplication, { metricsPort, host }: ServiceConfig) {
  if (metricsPort === null) return null;
  try {
    return await serveMetrics(app.get(ServiceMetrics).registry, metricsPort, host);
  } catch (cause) {
    await app.close();
    throw new Error(`Cannot serve metrics on port ${metricsPort}. Choose another METRICS_PORT.`, { cause });
  }
}

interface DemoFile {
  baseUrl: string;
  tenants: DemoTenant[];
  database: { url: string; ownerUrl: string | null; superuserUrl: string };
  /** What verifies the first tenant's exports, and where checkpoints are published. */
  audit: { verificationKey: string | null; checkpointDir: string };
}

/**
 * Makes the demo tenants on the first start, and writes on every one where the service and its database are.
 *
 * @returns the file
 */
async function demoData(
  { dataDir, database, audit }: ServiceConfig,
  embedded: EmbeddedServer,
  baseUrl: string,
): Promise<string> {
  const file = join(dataDir, 'demo.json');
  const tenants = (await readDemoFile(file))?.tenants ?? (await makeDemoTenants(database.ownerUrl ?? ''));
  const superuserUrl = Object.assign(new URL(embedded.superuserUrl), { pathname: `/${EMBEDDED_DATABASE}` }).href;
  const content: DemoFile = {
    baseUrl,
    tenants,
    database: { url: database.appUrl, ownerUrl: database.ownerUrl, superuserUrl },
    audit: {
      verificationKey: verificationKey(audit, Number(tenants[0]?.id)),
      checkpointDir: audit.checkpointDir,
    },
  };
  await mkdir(dataDir, { recursive: true });
  await writeFile(file, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  return file;
}

function verificationKey({ signingKey, origin }: AuditSettings, tenantId: number): string | null {
  if (!signingKey) return null;
  return verifierKeyText(originOf(origin, tenantId), new SigningKeys(signingKey).of(tenantId).checkpoints.publicKey);
}

async function readDemoFile(file: string): Promise<DemoFile | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as DemoFile;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}
