import { execFile } from 'node:child_process';
import { chown, readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The operating-system user that PostgreSQL runs as. */
export interface Account {
  name: string;
  uid: number;
  gid: number;
}

/**
 * PostgreSQL refuses to run as root. Undefined means "run it as ourselves" (we aren't root); otherwise the account to
 * run it as: whoever owns the existing cluster or the data folder, else `postgres`, else `nobody`.
 */
export async function serverAccount(dataDir: string, clusterData: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const folder of [clusterData, dataDir]) {
    const owner = await stat(folder).catch(() => undefined);
    if (owner && owner.uid !== 0) return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  }
  const account = (await passwdEntry('postgres')) ?? (await passwdEntry('nobody'));
  if (account) return account;
  throw new Error(
    'PostgreSQL does not run as root, and this system has neither a user "postgres" nor "nobody" to run it as. ' +
      'Add one, start as an ordinary user, or set DATABASE_URL to a server of your own.',
  );
}

async function passwdEntry(name: string): Promise<Account | undefined> {
  // getent also knows users of a directory service; systems without it (macOS, Alpine) have the file.
  const text = await run('getent', ['passwd', name]).then(
    ({ stdout }) => stdout,
    () => readFile('/etc/passwd', 'utf8').catch(() => ''),
  );
  const fields = text
    .split('\n')
    .map((line) => line.split(':'))
    .find((entry) => entry[0] === name);
  const [uid, gid] = [Number(fields?.[2]), Number(fields?.[3])];
  // macOS gives nobody the uid -2, which reads as a number but can't be spawned as; 32-bit unsigned is what it means.
  return fields && Number.isInteger(uid) && uid !== 0 ? { name, uid: uid >>> 0, gid: gid >>> 0 } : undefined;
}

/** Gives files that this process made as root to the account; does nothing when we run it as ourselves. */
export async function giveTo(account: Account | undefined, ...paths: string[]): Promise<void> {
  if (!account) return;
  for (const path of paths) await chown(path, account.uid, account.gid);
}

/**
 * Whether the account can walk into `folder`: a project below a private home such as root's cannot be entered by the
 * account that PostgreSQL runs as. Judged by the mode bits of every folder on the way, without access lists.
 */
export async function canEnter(folder: string, account: Account | undefined): Promise<boolean> {
  if (!account) return true;
  for (let path = folder; ; path = dirname(path)) {
    const { uid, gid, mode } = await stat(path);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (dirname(path) === path) return true;
  }
}
