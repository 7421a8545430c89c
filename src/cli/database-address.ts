import { type DatabaseAddresses, loadConfig } from '../config.js';

/** Runs a command's work with the addresses of the configured database; the embedded one is started for as long. */
export async function withDatabase<T>(work: (database: DatabaseAddresses) => Promise<T>): Promise<T> {
  const config = loadConfig();
  if (config.database) return work(config.database);
  // Loaded only here: a command on any other database needs none of it.
  const { openEmbedded } = await import('../database/embedded/index.js');
  const { database, embedded } = await openEmbedded(config.dataDir, (line) => console.error(line));
  try {
    return await work(database);
  } finally {
    await embedded.stop();
  }
}

/** The same for work that needs the owner of the schema. */
export function withOwnerUrl<T>(work: (ownerUrl: string) => Promise<T>): Promise<T> {
  return withDatabase(({ ownerUrl }) => {
    if (!ownerUrl) throw new Error('MIGRATION_DATABASE_URL is not set. Set it to the address of waybill_owner.');
    return work(ownerUrl);
  });
}
