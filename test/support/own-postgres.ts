import { chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, type QueryResultRow } from 'pg';
import { bootstrapCluster, databaseUrl, type RoleUrls } from '../../src/database/bootstrap.js';
import {
  discardEmbedded,
  embeddedBinaries,
  type EmbeddedMajor,
  type EmbeddedServer,
  rolePasswords,
  startEmbedded,
} from '../../src/database/embedded/index.js';
import { migrate } from '../../src/database/migrate.js';
import { type DemoTenant, makeDemoTenants } from '../../src/identity/index.js';
import { makeOwnFolder, removeLeftovers } from './own-folder.js';

const KIND = 'waybill-own';

/** A PostgreSQL server of a test's own, which it may stop, kill and starve; migrated, with two tenants. */
export interface OwnPostgres extends RoleUrls {
  superuserUrl: string;
  port: number;
  tenants: DemoTenant[];
  stop(): Promise<void>;
  /** On the same port, with what was there. */
  start(): Promise<void>;
  /** Starts it again as a hot standby, which `SELECT pg_promote()` makes a primary. */
  startAsStandby(): Promise<void>;
  /** Signals the postmaster and, for SIGSTOP and SIGCONT, all of its backends. */
  signal(name: NodeJS.Signals): Promise<void>;
  query<Row extends QueryResultRow>(text: string): Promise<Row[]>;
  discard(): Promise<void>;
}

export interface OwnPostgresOptions {
  /** Folder for the data; a temporary one by default. */
  folder?: string;
  /** With fsync, as in production: for tests that kill the server. */
  durable?: boolean;
  /** Folder of the binaries, instead of those of the version under test. */
  binaries?: string;
}

export async function startOwnPostgres({
  folder,
  durable = false,
  binaries = embeddedBinaries((process.env.TEST_POSTGRES ?? '18') as EmbeddedMajor),
}: OwnPostgresOptions = {}): Promise<OwnPostgres> {
  const base = folder ?? (await temporaryFolder());
  const dataDir = join(base, 'pg');
  // Root's server runs under another account, which has to walk through.
  await mkdir(dataDir, { recursive: true, mode: 0o755 });
  const boot = (): Promise<EmbeddedServer> =>
    startEmbedded({ dataDir, binaries, log: () => undefined, disposable: !durable });
  let server: EmbeddedServer | undefined = await boot();
  const { port } = server;
  const urls = await bootstrapCluster(server.superuserUrl, 'waybill', await rolePasswords(dataDir));
  await migrate(urls.ownerUrl);
  const tenants = await makeDemoTenants(urls.ownerUrl);
  const superuserUrl = databaseUrl(server.superuserUrl, 'waybill').href;
  const start = async (): Promise<void> => {
    server ??= await boot();
    if (server.port !== port) throw new Error(`the server came back on port ${server.port}, not ${port}`);
  };
  return {
    ...urls,
    superuserUrl,
    port,
    tenants,
    stop: async () => {
      await server?.stop();
      server = undefined;
    },
    start,
    startAsStandby: async () => {
      await server?.stop();
      server = undefined;
      const data = join(dataDir, 'cluster/data');
      await writeFile(join(data, 'standby.signal'), '');
      const { uid, gid } = await stat(data);
      await chown(join(data, 'standby.signal'), uid, gid);
      await start();
    },
    signal: async (name) => {
      const postmaster = Number((await readFile(join(dataDir, 'cluster/data/postmaster.pid'), 'utf8')).split('\n')[0]);
      const backends = name === 'SIGSTOP' || name === 'SIGCONT' ? await childrenOf(postmaster) : [];
      for (const pid of [postmaster, ...backends]) signalIfThere(pid, name);
    },
    query: async <Row extends QueryResultRow>(text: string) => {
      const client = new Client({ connectionString: superuserUrl });
      client.on('error', () => undefined);
      await client.connect();
      try {
        return (await client.query<Row>(text)).rows;
      } finally {
        await client.end();
      }
    },
    discard: async () => {
      await server?.stop();
      server = undefined;
      await discardEmbedded(dataDir, () => undefined);
      await rm(base, { recursive: true, force: true });
    },
  };
}

async function temporaryFolder(): Promise<string> {
  await removeLeftovers(KIND);
  return makeOwnFolder(KIND);
}

/** A backend may have ended since it was listed. */
function signalIfThere(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}
