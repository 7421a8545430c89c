import { readSecrets } from './cluster.js';
import { ServerFolder } from './server-folder.js';

/** Passwords of the three roles that log in. */
export interface RolePasswords {
  owner: string;
  app: string;
  sealer: string;
}

/**
 * The passwords for the roles on the embedded server in `dataDir`: random, made together with its cluster, and kept in
 * a file of mode 0600 beside it. The server must have been started once.
 */
export async function rolePasswords(dataDir: string): Promise<RolePasswords> {
  const { owner, app, sealer } = await readSecrets(await ServerFolder.open(dataDir));
  return { owner, app, sealer };
}
