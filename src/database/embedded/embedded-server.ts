import { rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type Account, serverAccount } from './account.js';
import { type Binaries, usableBinaries } from './binaries.js';
import { addUser, countUsers, withLock } from './claims.js';
import { ensureCluster, readSecrets } from './cluster.js';
import { choosePort, makeSocketFolder, removeTemporarySocketFolder } from './endpoint.js';
import {
  findPostmaster,
  LaunchError,
  launchPostmaster,
  type Postmaster,
  shutDown,
  waitUntilReady,
} from './postmaster.js';
import { ServerFolder } from './server-folder.js';
import { guard } from './server-guard.js';

export interface EmbeddedOptions {
  /** a folder of the launcher's own; made when missing; any length, spaces allowed */
  dataDir: string;
  /** the folder of the platform package, see `embeddedBinaries` */
  binaries: string;
  log: (line: string) => void;
  /** Gives up durability (fsync off) for speed. Only for servers that are thrown away, as the tests' are. */
  disposable?: boolean;
}

export interface EmbeddedServer {
  /** database `postgres` as superuser, over TCP on the loopback address */
  superuserUrl: string;
  /** for example "18.4" */
  serverVersion: string;
  port: number;
  /** true when the server was running already */
  adopted: boolean;
  /** Starts the server again, on the same port, whenever it is gone without having been stopped; until `stop`. */
  keepRunning(): void;
  /**
   * Says that this process doesn't need the server any more, and shuts it down if nobody else does. Rule: every process
   * that started or adopted the server is one of its users; the last user to leave stops it, whoever started it. Users
   * that were killed don't count. So two services on one data folder can end in any order, and after a kill -9 the
   * server runs on until the next start adopts it and leaves.
   */
  stop(): Promise<void>;
}

const LAUNCH_ATTEMPTS = 5;
/** Backends outlive a killed postmaster for a moment, and hold its shared memory. */
const ORPHAN_PATIENCE_MS = 15_000;

/**
 * Starts the embedded PostgreSQL in `dataDir`, or adopts the one that runs there: a fresh folder gets a new cluster,
 * what a crash left behind is recovered, and several processes may call this at the same time.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { log } = options;
  const folder = await ServerFolder.open(options.dataDir);
  const waiting = (): void => log('Waiting for another process that is starting or stopping the same PostgreSQL');
  return withLock(folder.lock, waiting, async () => {
    const account = await serverAccount(folder.root, folder.data);
    const binaries = await usableBinaries(options.binaries, account, folder.path('binaries'), log);
    // Before anything is started that nobody could then log in to.
    if (await stat(folder.cluster).catch(() => undefined)) await readSecrets(folder);
    const found = await adopt(folder, binaries, log);
    if (!found) await launch(folder, binaries, account, options);
    const { url, version, port } = found ?? (await identify(folder, await livePostmaster(folder)));
    const leave = await addUser(folder.users);
    await folder.keepOwner(folder.users);
    let stopped: Promise<void> | undefined;
    let endGuard: (() => Promise<void>) | undefined;
    const leaveAll = async (): Promise<void> => {
      await endGuard?.();
      await leaveServer(folder, leave, log);
    };
    const again = (): Promise<void> => startAgain(folder, binaries, account, { ...options, port });
    return {
      superuserUrl: url,
      serverVersion: version,
      port,
      adopted: found !== undefined,
      keepRunning: () => {
        const isThere = async (): Promise<boolean> => (await findPostmaster(folder)) !== undefined;
        endGuard ??= guard({ isThere, startAgain: again, log });
      },
      stop: () => (stopped ??= leaveAll()),
    };
  });
}

/** On the port that everybody knows, with the cluster that was there: a new one would hide that the old one is gone. */
function startAgain(
  folder: ServerFolder,
  binaries: Binaries,
  account: Account | undefined,
  options: EmbeddedOptions & { port: number },
): Promise<void> {
  return withLock(
    folder.lock,
    () => undefined,
    async () => {
      if (await findPostmaster(folder)) return;
      if (!(await stat(folder.data).catch(() => undefined))) throw new Error(`its folder ${folder.data} is gone`);
      await launch(folder, binaries, account, options);
    },
  );
}

interface Identified {
  url: string;
  version: string;
  port: number;
}

/** The running server of this folder, when it is ours and what we would start; stops one that isn't. */
async function adopt(
  folder: ServerFolder,
  binaries: Binaries,
  log: (line: string) => void,
): Promise<Identified | undefined> {
  const running = await findPostmaster(folder);
  if (!running) return undefined;
  await waitUntilReady(folder, log, async () => {
    if (!(await findPostmaster(folder))) throw new Error('gone');
  }).catch(() => undefined);
  const postmaster = await findPostmaster(folder);
  if (!postmaster) return undefined; // it was on its way out
  const found = await identify(folder, postmaster).catch((error: Error) => ({ failure: error.message }));
  const users = await countUsers(folder.users);
  if (!('failure' in found) && (found.version === binaries.version || users > 0)) {
    log(`Using the PostgreSQL ${found.version} that is already running on port ${found.port}`);
    return found;
  }
  const why = 'failure' in found ? found.failure : `it is version ${found.version}`;
  log(`Restarting the PostgreSQL that was left running (${why})`);
  await shutDown(folder, postmaster.pid, { serves: !('failure' in found), log });
  return undefined;
}

async function livePostmaster(folder: ServerFolder): Promise<Postmaster> {
  const postmaster = await findPostmaster(folder);
  if (postmaster) return postmaster;
  throw new Error(`PostgreSQL ended right after its start; see ${folder.log}`);
}

/**
 * Connects with our password and has the server read its own pid file: only the postmaster of this very data directory
 * knows both. (With SCRAM the server proves its knowledge of the password, too.)
 */
async function identify(folder: ServerFolder, { pid, port }: Postmaster): Promise<Identified> {
  const { superuser } = await readSecrets(folder);
  const url = `postgres://postgres:${superuser}@127.0.0.1:${port}/postgres`;
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // A server that goes away in between reports it as an event, besides the query's error; one of the two is enough.
  client.on('error', () => undefined);
  await client.connect();
  try {
    const query = `SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid,
                          split_part(current_setting('server_version'), ' ', 1) AS version`;
    const row = (await client.query<{ pid: string; version: string }>(query)).rows[0];
    if (Number(row?.pid) !== pid) throw new Error(`another server answers on port ${port}`);
    return { url, version: row?.version ?? '', port };
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function launch(
  folder: ServerFolder,
  binaries: Binaries,
  account: Account | undefined,
  { log, disposable = false, port: fixed }: EmbeddedOptions & { port?: number },
): Promise<void> {
  await ensureCluster(folder, binaries, account, disposable, log);
  const remembered = await folder.recall();
  await removeTemporarySocketFolder(remembered.temporarySocketFolder);
  const socket = await makeSocketFolder(folder, account);
  const orphansUntil = performance.now() + ORPHAN_PATIENCE_MS;
  for (let attempt = 1, preferred = remembered.port; ;) {
    const port = await choosePort(fixed ?? preferred);
    if (fixed !== undefined && port !== fixed) throw new Error(`port ${fixed} is taken by another program`);
    await folder.remember({ port, temporarySocketFolder: socket?.temporary ? socket.path : undefined });
    log(`Starting PostgreSQL ${binaries.version} on port ${port}`);
    try {
      await launchPostmaster({ folder, binaries, account, port, socketFolder: socket?.path, disposable, log });
      return;
    } catch (error) {
      const said = (pattern: RegExp): boolean => error instanceof LaunchError && error.said(pattern);
      const portTaken = said(/Address already in use/) && attempt < LAUNCH_ATTEMPTS;
      const orphans = said(/shared memory block .*still in use/) && performance.now() < orphansUntil;
      if (!portTaken && !orphans) throw error;
      attempt += 1;
      preferred = portTaken ? undefined : port;
      await sleep(100);
    }
  }
}

async function leaveServer(
  folder: ServerFolder,
  leave: () => Promise<void>,
  log: (line: string) => void,
): Promise<void> {
  await withLock(
    folder.lock,
    () => undefined,
    async () => {
      await leave();
      if ((await countUsers(folder.users)) === 0) await stopServer(folder, log);
    },
  );
}

async function stopServer(folder: ServerFolder, log: (line: string) => void): Promise<void> {
  const postmaster = await findPostmaster(folder);
  if (postmaster) {
    const serves = await identify(folder, postmaster).then(
      () => true,
      () => false,
    );
    await shutDown(folder, postmaster.pid, { serves, log });
  }
  const { temporarySocketFolder, ...rest } = await folder.recall();
  await removeTemporarySocketFolder(temporarySocketFolder);
  await folder.remember(rest);
}

/**
 * Stops the server in `dataDir` and deletes the folder, unless a live process uses it. For servers of test runs,
 * finished or dead.
 * @returns whether it was removed
 */
export async function discardEmbedded(dataDir: string, log: (line: string) => void): Promise<boolean> {
  const folder = await ServerFolder.open(dataDir);
  return withLock(
    folder.lock,
    () => undefined,
    async () => {
      if ((await countUsers(folder.users)) > 0) return false;
      await stopServer(folder, log);
      await rm(folder.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
      return true;
    },
  );
}
