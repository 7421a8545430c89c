import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { discardEmbedded } from '../../src/database/embedded/index.js';
import { processToken } from '../../src/database/embedded/process-identity.js';

/**
 * Makes a temporary folder for a server of this process's own, with data in `pg`. The name tells whose it is.
 *
 * @param kind first part of the name
 */
export async function makeOwnFolder(kind: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `${kind}-${process.pid}-`));
  // Root's server runs under another account, which has to walk through.
  await chmod(folder, 0o755);
  return folder;
}

/** Removes what killed runs left, servers included. A run that lives may have stopped its server for a moment: age says nothing. */
export async function removeLeftovers(kind: string): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(`${kind}-`) ? Number(name.slice(kind.length + 1).split('-')[0]) : Number.NaN;
    if (Number.isNaN(pid) || processToken(pid) !== undefined) continue;
    const folder = join(tmpdir(), name);
    // One that is in use, or another user's, stays.
    const isFree = await discardEmbedded(join(folder, 'pg'), () => undefined).catch(() => false);
    if (isFree) await rm(folder, { recursive: true, force: true });
  }
}
