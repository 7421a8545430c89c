import { spawn } from 'node:child_process';
import { open, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, giveTo } from './account.js';
import type { Binaries } from './binaries.js';
import { openData } from './cluster.js';
import { isPostmasterOf, processToken } from './process-identity.js';
import type { ServerFolder } from './server-folder.js';

const POLL_MS = 15;
const SLOW_START_MS = 5_000;
/** Enough for the last checkpoint of a small server. Nothing committed is lost when it is ended sooner. */
const SHUTDOWN_PATIENCE_MS = 20_000;
const LOG_LIMIT_BYTES = 10_000_000;

/** What PostgreSQL wrote into postmaster.pid. */
export interface Postmaster {
  pid: number;
  port: number;
  status: string;
}

/** The live postmaster of this cluster, if there is one: the pid file alone proves nothing after a crash or reboot. */
export async function findPostmaster(folder: ServerFolder): Promise<Postmaster | undefined> {
  const found = await readPidFile(folder);
  return found && isPostmasterOf(found.pid, folder.data) ? found : undefined;
}

async function readPidFile(folder: ServerFolder): Promise<Postmaster | undefined> {
  const text = await readFile(pidFile(folder), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  return { pid: Number(lines[0]), port: Number(lines[3] ?? 0), status: (lines[7] ?? '').trim() };
}

function pidFile(folder: ServerFolder): string {
  return join(folder.data, 'postmaster.pid');
}

/**
 * PostgreSQL itself clears up a pid file whose process is gone, after a check that no old backend still uses the shared
 * memory it names. It doesn't when the pid lives on as another process of the same user, or as a zombie. The file is
 * then told to name us, PostgreSQL's parent to be, which it knows cannot be another postmaster; the check stays.
 */
async function disownStalePidFile(folder: ServerFolder, account: Account | undefined): Promise<void> {
  const text = await readFile(pidFile(folder), 'utf8').catch(() => undefined);
  if (text === undefined) return;
  const file = join(folder.data, 'postmaster.pid.waybill');
  const restOfFile = text.includes('\n') ? text.slice(text.indexOf('\n')) : '\n';
  await writeFile(file, `${process.pid}${restOfFile}`, { mode: 0o600 });
  await giveTo(account, file);
  await rename(file, pidFile(folder));
}

export interface LaunchOptions {
  folder: ServerFolder;
  binaries: Binaries;
  account: Account | undefined;
  port: number;
  /** undefined: TCP only */
  socketFolder: string | undefined;
  disposable: boolean;
  log: (line: string) => void;
}

/** Why a postmaster ended before it was ready, with the lines that it logged. */
export class LaunchError extends Error {
  readonly #serverLog: string;

  constructor(reason: string, serverLog: string) {
    super(`PostgreSQL did not start (${reason}).${serverLog ? ` It said:\n${tail(serverLog, 15)}` : ''}`);
    this.name = 'LaunchError';
    this.#serverLog = serverLog;
  }

  /** Whether the server's log of this start matches. */
  said(pattern: RegExp): boolean {
    return pattern.test(this.#serverLog);
  }
}

function tail(text: string, lines: number): string {
  return text.trimEnd().split('\n').slice(-lines).join('\n');
}

/** Starts the postmaster and waits until it takes connections, through crash recovery too, however long that takes. */
export async function launchPostmaster(options: LaunchOptions): Promise<void> {
  const { folder, binaries, account } = options;
  await disownStalePidFile(folder, account);
  const logStart = await rotateLog(folder);
  const logFile = await open(folder.log, 'a', 0o600);
  await folder.keepOwner(folder.log);
  // Its own session: Ctrl-C goes to the terminal's whole process group, and would otherwise shut PostgreSQL down
  // under the requests that Node is still finishing. Nor does it die with Node; the next start adopts it.
  const { path, spawnOptions, close } = await openData(folder.data, account, logFile.fd, logFile.fd);
  const child = spawn(binaries.postgres, serverArguments(path, options), { ...spawnOptions, detached: true });
  let ended: string | undefined;
  child.once('error', (error) => (ended = error.message));
  child.once('exit', (code, signal) => (ended = signal ? `killed by ${signal}` : `exit code ${code}`));
  child.unref();
  await Promise.all([logFile.close(), close()]);

  await waitUntilReady(folder, options.log, async () => {
    if (ended === undefined) return;
    const text = await readFile(folder.log, 'utf8').catch(() => '');
    throw new LaunchError(ended, Buffer.from(text).subarray(logStart).toString());
  });
}

function serverArguments(data: string, { port, socketFolder, disposable }: LaunchOptions): string[] {
  // A list for PostgreSQL, so a folder with a comma needs the quotes.
  const sockets = socketFolder === undefined ? '' : `"${socketFolder.replaceAll('"', '""')}"`;
  const settings = ['listen_addresses=127.0.0.1', `unix_socket_directories=${sockets}`, 'logging_collector=off'];
  if (disposable) settings.push('fsync=off', 'synchronous_commit=off', 'full_page_writes=off');
  return ['-D', data, '-p', String(port), ...settings.flatMap((s) => ['-c', s])];
}

async function rotateLog(folder: ServerFolder): Promise<number> {
  const size = await stat(folder.log).then(
    (found) => found.size,
    () => 0,
  );
  if (size <= LOG_LIMIT_BYTES) return size;
  await rename(folder.log, `${folder.log}.1`);
  return 0;
}

/** What the pid file says of a server that takes connections. */
const ANSWERING: ReadonlySet<string> = new Set(['ready', 'standby']);

/** Waits until the pid file says that the server takes connections; `check` may throw to give up. */
export async function waitUntilReady(
  folder: ServerFolder,
  log: (line: string) => void,
  check: () => Promise<void>,
): Promise<void> {
  const started = performance.now();
  for (let told = false; ; await sleep(POLL_MS)) {
    await check();
    const found = await findPostmaster(folder);
    if (found && ANSWERING.has(found.status)) return;
    if (!told && performance.now() - started > SLOW_START_MS) {
      told = true;
      log('PostgreSQL is still starting; after a crash it first replays its log');
    }
  }
}

/**
 * Fast shutdown: open transactions are rolled back, everything committed is kept. Returns when the server is gone, also when it
 * was gone before.
 *
 * @param serves whether it takes connections. One that recovers from a crash doesn't, and PostgreSQL 18 waits for ever when it is
 *   told to stop then; so it is ended at once, and the next start recovers.
 */
export async function shutDown(
  folder: ServerFolder,
  pid: number,
  { serves, log }: { serves: boolean; log: (line: string) => void },
): Promise<void> {
  const token = processToken(pid);
  if (token === undefined) return;
  const isGone = (): boolean => processToken(pid) !== token;
  signal(pid, serves ? 'SIGINT' : 'SIGQUIT');
  const started = performance.now();
  for (let forced = false; !isGone(); await sleep(POLL_MS)) {
    if (!forced && performance.now() - started > SHUTDOWN_PATIENCE_MS) {
      forced = true;
      log('PostgreSQL does not finish its shutdown; ending it at once (the next start recovers from its log)');
      if (isPostmasterOf(pid, folder.data)) signal(pid, 'SIGQUIT');
    }
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
