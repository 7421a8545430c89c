import { join } from 'node:path';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { createApp } from './app.js';
import { originOf, SigningKeys, verifierKeyText } from './audit/index.js';
import { errorReport, isSystemError } from './common/index.js';
import type { AuditSettings, Config, DatabaseAddresses, ServiceConfig } from './config.js';
import { type DemoFile, readDemoTenants, writeDemoFile } from './demo-file.js';
import { drain } from './drain.js';
import { awaitDatabase, migrate, reportKillPointsToParent, stepName } from './database/index.js';
import { EMBEDDED_DATABASE, type EmbeddedServer, openEmbedded } from './database/embedded/index.js';
import { loadExtensions, migrationsOf } from './extension-loader.js';
import { type DemoTenant, makeDemoTenants } from './identity/index.js';
import { type MetricsListener, serveMetrics, ServiceMetrics } from './observability/index.js';
import { mountSwaggerUi } from './openapi.js';
import { resolveSigningKey, tellOfLostCheckpoints } from './signing-key.js';

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
  const opened: Opened = {};
  try {
    return await start(config, log, opened);
  } catch (error) {
    // Whatever was opened: a process that refused its start must not go on listening.
    await closeAll(opened).catch((failure: unknown) =>
      log(`Not everything was closed: ${errorReport(failure).message}`),
    );
    throw error;
  }
}

/** What is open, in the order in which it was opened. */
interface Opened {
  embedded?: EmbeddedServer;
  app?: NestFastifyApplication;
  metrics?: MetricsListener;
}

async function closeAll({ embedded, app, metrics }: Opened): Promise<void> {
  await metrics?.close();
  await app?.close();
  await embedded?.stop();
}

async function start(config: Config, log: (line: string) => void, opened: Opened): Promise<RunningService> {
  const database = config.database ?? (await startDatabase(config.dataDir, log, opened));
  const { embedded } = opened;
  await awaitDatabase(database.appUrl, log);
  const extensions = await loadExtensions(config.extensions);
  if (database.ownerUrl) {
    const { allowsNewerDatabase: allowsNewer } = config;
    const applied = await migrate(database.ownerUrl, migrationsOf(extensions), { allowsNewer });
    if (applied.length > 0) log(`Applied ${applied.length} migrations`);
  }
  const demoFile = embedded ? join(config.dataDir, 'demo.json') : null;
  const tenants = demoFile && ((await readDemoTenants(demoFile)) ?? (await makeDemoTenants(database.ownerUrl ?? '')));
  const signingKey = await resolveSigningKey(config, database.sealerUrl, log);
  const seals = signingKey !== null && database.sealerUrl !== null;
  if (config.database && config.audit.sealInterval !== null && !seals)
    log(
      'This process seals no events: it needs AUDIT_SIGNING_KEY_FILE and SEALER_DATABASE_URL. Let another one do it.',
    );
  if (database.sealerUrl && seals && config.audit.sealInterval !== null)
    await tellOfLostCheckpoints(database.sealerUrl, config.audit.checkpointDir, log);
  const resolved: ServiceConfig = {
    ...config,
    database,
    audit: { ...config.audit, signingKey },
    extensionSteps: migrationsOf(extensions).map(stepName),
  };
  const modules = extensions.map(({ module }) => module);
  const app = (opened.app = await createApp(resolved, modules));
  const baseUrl = await listen(app, resolved);
  opened.metrics = await listenForMetrics(app, resolved);
  if (demoFile && tenants && embedded)
    await writeDemoFile(demoFile, demoContent(resolved, { embedded, baseUrl, tenants }));
  embedded?.keepRunning();
  return {
    baseUrl,
    demoFile,
    stop: async () => {
      const isComplete = await drain(app, config.shutdown, log);
      await opened.metrics?.close();
      await embedded?.stop();
      return isComplete;
    },
  };
}

async function startDatabase(dataDir: string, log: (line: string) => void, opened: Opened): Promise<DatabaseAddresses> {
  const { database, embedded } = await openEmbedded(dataDir, log);
  opened.embedded = embedded;
  return database;
}

async function listen(app: NestFastifyApplication, { port, host }: ServiceConfig): Promise<string> {
  try {
    mountSwaggerUi(app);
    await app.listen(port, host);
    return (await app.getUrl()).replace('[::1]', '127.0.0.1').replace('0.0.0.0', '127.0.0.1');
  } catch (error) {
    if (!isSystemError(error, 'EADDRINUSE')) throw error;
    const advice = `Stop what listens there, or choose another: PORT=${port + 1} npm start`;
    throw new Error(`Port ${port} is taken. ${advice}`, { cause: error });
  }
}

async function listenForMetrics(app: NestFastifyApplication, { metricsPort, host }: ServiceConfig) {
  if (metricsPort === null) return undefined;
  try {
    return await serveMetrics(app.get(ServiceMetrics).registry, metricsPort, host);
  } catch (cause) {
    throw new Error(`Cannot serve metrics on port ${metricsPort}. Choose another METRICS_PORT.`, { cause });
  }
}

/** Where the service and its database are; written at every start. */
function demoContent(
  { database, audit }: ServiceConfig,
  { embedded, baseUrl, tenants }: { embedded: EmbeddedServer; baseUrl: string; tenants: DemoTenant[] },
): DemoFile {
  const superuserUrl = Object.assign(new URL(embedded.superuserUrl), { pathname: `/${EMBEDDED_DATABASE}` }).href;
  return {
    baseUrl,
    tenants,
    database: { url: database.appUrl, ownerUrl: database.ownerUrl, superuserUrl },
    audit: {
      verificationKey: verificationKey(audit, Number(tenants[0]?.id)),
      checkpointDir: audit.checkpointDir,
    },
  };
}

function verificationKey({ signingKey, origin }: AuditSettings, tenantId: number): string | null {
  if (!signingKey) return null;
  return verifierKeyText(originOf(origin, tenantId), new SigningKeys(signingKey).of(tenantId).checkpoints.publicKey);
}
