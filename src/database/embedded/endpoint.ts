import { randomInt } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type Account, canEnter, giveTo } from './account.js';
import type { ServerFolder } from './server-folder.js';

/** The kernel's limit for the path of a unix socket is 107 bytes on Linux and 103 on macOS: keep to the lesser. */
const SOCKET_PATH_LIMIT = 103;
const TEMPORARY_PREFIX = 'waybill-pg-';
/** Below the range from which systems take ports for outgoing connections, so that ours is free next time too. */
const [FIRST_PORT, LAST_PORT] = [20_000, 29_999];

/** `preferred` when it is free on the loopback address, else another free port. */
export async function choosePort(preferred: number | undefined): Promise<number> {
  if (preferred !== undefined && (await isFree(preferred))) return preferred;
  for (let attempt = 0; attempt < 1_000; attempt += 1) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port between ${FIRST_PORT} and ${LAST_PORT} for the embedded PostgreSQL`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host: '127.0.0.1' }, () => probe.close(() => resolve(true)));
  });
}

/**
 * A folder for the unix socket: in the data folder, or a temporary one when the path would be too long or the server's
 * account cannot get there. `temporary` ones are to be removed at the end. Undefined: there is none, only TCP.
 * Only for a cluster whose postmaster is known to be dead: what an earlier one left in the folder is removed.
 */
export async function makeSocketFolder(
  folder: ServerFolder,
  account: Account | undefined,
): Promise<{ path: string; temporary: boolean } | undefined> {
  const own = folder.path('run');
  if (fitsSocket(own) && (await canEnter(folder.root, account))) {
    // What a killed postmaster left here must go: its lock would stop the next one for as long as anything has its pid.
    await rm(own, { recursive: true, force: true });
    await mkdir(own, { mode: 0o700 });
    await giveTo(account, own);
    return { path: own, temporary: false };
  }
  for (const base of [tmpdir(), '/tmp']) {
    const usable =
      fitsSocket(join(base, `${TEMPORARY_PREFIX}XXXXXX`)) && (await canEnter(base, account).catch(() => false));
    if (!usable) continue;
    const path = await mkdtemp(join(base, TEMPORARY_PREFIX));
    await giveTo(account, path);
    return { path, temporary: true };
  }
  return undefined;
}

function fitsSocket(path: string): boolean {
  return Buffer.byteLength(join(path, '.s.PGSQL.65535')) <= SOCKET_PATH_LIMIT;
}

/** Removes a socket folder that an earlier start made; the name is checked, since it was read from a file. */
export async function removeTemporarySocketFolder(path: string | undefined): Promise<void> {
  if (path && basename(path).startsWith(TEMPORARY_PREFIX)) await rm(path, { recursive: true, force: true });
}
