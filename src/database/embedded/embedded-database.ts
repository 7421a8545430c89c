import { join } from 'node:path';
import { bootstrapCluster, type RoleUrls } from '../bootstrap.js';
import { embeddedBinaries } from './binaries.js';
import { type EmbeddedServer, startEmbedded } from './embedded-server.js';
import { rolePasswords } from './role-passwords.js';

/** Name of the service's database on its embedded server. */
export const EMBEDDED_DATABASE = 'waybill';

/**
 * The embedded server of a data folder with its roles and database. It loads nothing of the service, so a command starts
 * at once and has its memory for its work.
 *
 * @param dataDir the service's; the server has the folder `pg` in it
 */
export async function openEmbedded(
  dataDir: string,
  log: (line: string) => void,
): Promise<{ database: RoleUrls; embedded: EmbeddedServer }> {
  const folder = join(dataDir, 'pg');
  const embedded = await startEmbedded({ dataDir: folder, binaries: embeddedBinaries(), log });
  try {
    const database = await bootstrapCluster(embedded.superuserUrl, EMBEDDED_DATABASE, await rolePasswords(folder));
    return { database, embedded };
  } catch (error) {
    await embedded.stop();
    throw error;
  }
}
