import { constants } from 'node:fs';
import { access, chmod, chown, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** What the launcher remembers between starts. */
export interface RememberedServer {
  port?: number;
  /** where the unix socket was, when it could not be in the folder itself */
  temporarySocketFolder?: string;
}

/**
 * The names inside one data folder:
 *
 *     cluster/data          PostgreSQL's own data directory
 *     cluster/secrets.json  passwords, mode 0600
 *     run/                  the unix socket
 *     users/                one file for each process that uses the server
 *     lock, server.json, server.log
 */
export class ServerFolder {
  private constructor(
    readonly root: string,
    private readonly owner: { uid: number; gid: number },
  ) {}

  /** Makes the folder when it isn't there. Its real path, so that it can be compared with what the system reports. */
  static async open(dataDir: string): Promise<ServerFolder> {
    const made = await mkdir(resolve(dataDir), { recursive: true });
    const root = await realpath(resolve(dataDir));
    // Root's server runs under another account, which has to walk through. A folder that was there stays as it is.
    if (made !== undefined) await chmod(root, process.getuid?.() === 0 ? 0o711 : 0o700);
    await access(root, constants.W_OK | constants.X_OK).catch(async (error: Error) => {
      const { uid } = await stat(root);
      throw new Error(
        `${root} belongs to another user (uid ${uid}), probably because the first start was as root. ` +
          'Start as that user or as root, give the folder to yourself with chown, or choose another WAYBILL_DATA_DIR.',
        { cause: error },
      );
    });
    return new ServerFolder(root, await stat(root));
  }

  readonly path = (name: string): string => join(this.root, name);

  get cluster(): string {
    return this.path('cluster');
  }
  get data(): string {
    return join(this.cluster, 'data');
  }
  get secrets(): string {
    return join(this.cluster, 'secrets.json');
  }
  get users(): string {
    return this.path('users');
  }
  get lock(): string {
    return this.path('lock');
  }
  get log(): string {
    return this.path('server.log');
  }

  /** When root works in somebody's folder, what it makes there must stay usable for them. */
  async keepOwner(...paths: string[]): Promise<void> {
    if (process.getuid?.() !== 0) return;
    for (const path of paths) await chown(path, this.owner.uid, this.owner.gid);
  }

  async recall(): Promise<RememberedServer> {
    const text = await readFile(this.path('server.json'), 'utf8').catch(() => '{}');
    try {
      return JSON.parse(text) as RememberedServer;
    } catch {
      return {}; // only a convenience: without it another port is chosen
    }
  }

  async remember(server: RememberedServer): Promise<void> {
    const file = this.path('server.json');
    await writeFile(`${file}.new`, `${JSON.stringify(server)}\n`);
    await this.keepOwner(`${file}.new`);
    await rename(`${file}.new`, file);
  }
}
