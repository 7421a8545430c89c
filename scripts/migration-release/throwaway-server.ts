import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { bootstrapCluster } from '../../src/database/bootstrap.js';
import { discardEmbedded, embeddedBinaries, rolePasswords, startEmbedded } from '../../src/database/embedded/index.js';
import { makeOwnFolder, removeLeftovers } from '../../test/support/own-folder.js';

const KIND = 'waybill-release';

/** Makes a database with Waybill's roles and nothing in it, and connects to it as the owner. */
export type OpenDatabase = <T>(name: string, work: (owner: Client, ownerUrl: string) => Promise<T>) => Promise<T>;

/** Starts an embedded PostgreSQL for as long as `work` takes, and removes it with all of its data. */
export async function withThrowawayServer<T>(work: (open: OpenDatabase) => Promise<T>): Promise<T> {
  await removeLeftovers(KIND);
  const folder = await makeOwnFolder(KIND);
  const dataDir = join(folder, 'pg');
  await mkdir(dataDir, { mode: 0o755 });
  const log = (): void => undefined;
  const server = await startEmbedded({ dataDir, binaries: embeddedBinaries('18'), log, disposable: true });
  try {
    const passwords = await rolePasswords(dataDir);
    return await work(async (name, withOwner) => {
      const { ownerUrl } = await bootstrapCluster(server.superuserUrl, name, passwords);
      const owner = new Client({ connectionString: ownerUrl });
      await owner.connect();
      try {
        return await withOwner(owner, ownerUrl);
      } finally {
        await owner.end();
      }
    });
  } finally {
    await server.stop();
    await discardEmbedded(dataDir, log);
    await rm(folder, { recursive: true, force: true });
  }
}
