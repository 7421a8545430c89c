import { spawn, type SpawnOptions } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { appendFile, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Account, canEnter, giveTo } from './account.js';
import type { Binaries } from './binaries.js';
import type { ServerFolder } from './server-folder.js';

/** Passwords of the embedded server, made when its cluster is. */
export interface ClusterSecrets {
  superuser: string;
  owner: string;
  app: string;
  sealer: string;
}

const CLUSTER_SETTINGS = `
# Waybill's embedded server. Port, address and socket are given at each start.
password_encryption = 'scram-sha-256'
max_connections = 200
# One time zone whatever the machine's: the service stores instants, people read them in zones of their own.
timezone = 'UTC'
log_timezone = 'UTC'
cluster_name = 'waybill'
`;

/**
 * Reads the passwords of the cluster in this folder.
 *
 * @throws Error that names the file, and what to do, where it is damaged
 */
export async function readSecrets(folder: ServerFolder): Promise<ClusterSecrets> {
  let reason = 'a password is missing';
  try {
    const secrets = JSON.parse(await readFile(folder.secrets, 'utf8')) as Partial<ClusterSecrets> | null;
    const { superuser, owner, app, sealer } = secrets ?? {};
    if ([superuser, owner, app, sealer].every((password) => typeof password === 'string' && password !== ''))
      return secrets as ClusterSecrets;
  } catch (error) {
    // What a JSON parser says repeats the text, which holds passwords.
    reason = error instanceof SyntaxError ? 'it is no JSON' : (error as Error).message;
  }
  throw new Error(
    `${folder.secrets}, the passwords of the embedded PostgreSQL, can't be used: ${reason}. Put it back from a copy. ` +
      'Without one choose another WAYBILL_DATA_DIR, which begins empty; the orders stay in the old folder.',
  );
}

/**
 * Makes the database cluster unless it is there. initdb works in a folder of its own, which gets its final name by one
 * rename when all is done: a kill -9 at any moment leaves either no cluster or a whole one, never half of one.
 * Only the holder of the folder's lock may call this.
 */
export async function ensureCluster(
  folder: ServerFolder,
  binaries: Binaries,
  account: Account | undefined,
  disposable: boolean,
  log: (line: string) => void,
): Promise<void> {
  if (await stat(folder.cluster).catch(() => undefined)) return checkVersion(folder, binaries);
  await removeHalfFinished(folder);
  log(`Making a new PostgreSQL ${binaries.version} database cluster in ${folder.root} (takes some seconds)`);

  const draft = join(folder.root, `${DRAFT_PREFIX}${randomBytes(6).toString('hex')}`);
  const data = join(draft, 'data');
  await mkdir(draft, { mode: 0o711 });
  await mkdir(data, { mode: 0o700 });
  const secrets = makeSecrets();
  const passwordFile = join(draft, 'password');
  await writeFile(passwordFile, secrets.superuser, { mode: 0o600 });
  await giveTo(account, data, passwordFile);
  await initdb(data, binaries, account, disposable);
  await rm(passwordFile);
  await appendFile(join(data, 'postgresql.conf'), CLUSTER_SETTINGS);
  await writeFile(join(draft, 'secrets.json'), `${JSON.stringify(secrets, undefined, 2)}\n`, { mode: 0o600 });
  await folder.keepOwner(draft, join(draft, 'secrets.json'));
  if (!disposable) await syncToDisk(join(draft, 'secrets.json'), join(data, 'postgresql.conf'), draft);
  await rename(draft, folder.cluster);
  if (!disposable) await syncToDisk(folder.root);
}

const DRAFT_PREFIX = 'unfinished-';

async function removeHalfFinished(folder: ServerFolder): Promise<void> {
  for (const name of await readdir(folder.root)) {
    // An initdb whose Node was killed may still be writing: what it leaves behind now goes at the next start.
    const draft = join(folder.root, name);
    if (name.startsWith(DRAFT_PREFIX)) await rm(draft, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function checkVersion(folder: ServerFolder, binaries: Binaries): Promise<void> {
  const found = await readFile(join(folder.data, 'PG_VERSION'), 'utf8').catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EACCES') throw new Error(`${folder.data} is damaged: ${error.message}`, { cause: error });
    const { uid } = await stat(folder.data).catch(() => ({ uid: '?' }));
    throw new Error(
      `${folder.data} belongs to another user (uid ${uid}), probably because the first start was as root. ` +
        'Start as that user or as root, give the folder to yourself with chown, or choose another WAYBILL_DATA_DIR.',
      { cause: error },
    );
  });
  if (binaries.version.split('.')[0] !== found.trim()) {
    throw new Error(
      `${folder.data} was made by PostgreSQL ${found.trim()}, but the installed one is ${binaries.version}. ` +
        'Dump it with the old version and restore it, or choose another WAYBILL_DATA_DIR.',
    );
  }
}

function makeSecrets(): ClusterSecrets {
  return { superuser: randomPassword(), owner: randomPassword(), app: randomPassword(), sealer: randomPassword() };
}

function randomPassword(): string {
  return randomBytes(24).toString('hex');
}

async function initdb(
  data: string,
  binaries: Binaries,
  account: Account | undefined,
  disposable: boolean,
): Promise<void> {
  const { path, spawnOptions, close } = await openData(data, account, 'ignore', 'pipe');
  const options = ['--username=postgres', `--pwfile=${path}/../password`, '--auth=scram-sha-256', '--no-instructions'];
  // Locale C: the same order of text on every machine. Nothing in the schema relies on another one.
  const cluster = ['--encoding=UTF8', '--locale=C', '--data-checksums'];
  const sync = disposable ? ['--no-sync'] : [];
  let errors = '';
  const failure = await new Promise<string | undefined>((resolve) => {
    const child = spawn(binaries.initdb, ['-D', path, ...options, ...cluster, ...sync], spawnOptions);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (errors += text));
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(code === 0 ? undefined : (signal ?? `exit code ${code}`)));
  }).finally(close);
  if (failure === undefined) return;
  await rm(dirname(data), { recursive: true, force: true }).catch(() => undefined);
  throw new Error(`initdb failed (${failure}): ${errors.trim()}`);
}

/**
 * How to run a PostgreSQL program on `data`. Below a private home its account cannot walk to the folder by name; then
 * root opens the folder and the program inherits it as file 3, for which Linux has a name that needs no walking.
 * @param output where the program's stdout and stderr go
 */
export async function openData(
  data: string,
  account: Account | undefined,
  ...output: [stdout: 'ignore' | number, stderr: 'pipe' | number]
): Promise<{ path: string; spawnOptions: SpawnOptions; close: () => Promise<void> }> {
  // Own environment: variables such as PGDATA, PGPORT or LC_ALL of the caller must not reach the server.
  const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
  const base = { cwd: '/', env, uid: account?.uid, gid: account?.gid };
  if (await canEnter(data, account)) {
    return { path: data, spawnOptions: { ...base, stdio: ['ignore', ...output] }, close: async () => undefined };
  }
  if (process.platform !== 'linux') {
    throw new Error(
      `PostgreSQL runs as ${account?.name}, who cannot enter ${data}. ` +
        'Set WAYBILL_DATA_DIR to a folder that other users can walk into, or start as an ordinary user.',
    );
  }
  const handle = await open(data, constants.O_RDONLY | constants.O_DIRECTORY);
  const spawnOptions: SpawnOptions = { ...base, stdio: ['ignore', ...output, handle.fd] };
  return { path: '/proc/self/fd/3', spawnOptions, close: () => handle.close() };
}

async function syncToDisk(...paths: string[]): Promise<void> {
  for (const path of paths) {
    const handle = await open(path, 'r');
    await handle.sync().finally(() => handle.close());
  }
}
