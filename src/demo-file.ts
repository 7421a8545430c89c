import { chown, readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isSystemError, writeAtomically } from './common/index.js';
import type { DemoTenant } from './identity/index.js';

/** What a script or a person needs to use the service on its embedded database: `demo.json` in the data folder. */
export interface DemoFile {
  baseUrl: string;
  tenants: DemoTenant[];
  database: { url: string; ownerUrl: string | null; superuserUrl: string };
  /** What verifies the first tenant's exports, and where checkpoints are published. */
  audit: { verificationKey: string | null; checkpointDir: string };
}

/**
 * The demo tenants whose keys the file holds; null where there is no file yet.
 *
 * @throws Error that names the file, and what to do, where it is damaged
 */
export async function readDemoTenants(file: string): Promise<DemoTenant[] | null> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (isSystemError(error, 'ENOENT')) return null;
    throw error;
  }
  const tenants = tenantsIn(text);
  if (tenants) return tenants;
  throw new Error(
    `${file} is damaged: it holds no demo keys. Move it away and start again; that makes new demo keys and revokes the old ones. Orders stay.`,
  );
}

/** Keys are shown once: the file is there whole, or as it was before. Its owner is the folder's, also where root starts. */
export async function writeDemoFile(file: string, content: DemoFile): Promise<void> {
  await writeAtomically(file, `${JSON.stringify(content, null, 2)}\n`, 0o600);
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dirname(file));
  await chown(file, uid, gid);
}

function tenantsIn(text: string): DemoTenant[] | undefined {
  try {
    const { tenants } = JSON.parse(text) as Partial<DemoFile>;
    return Array.isArray(tenants) && tenants.length > 0 && tenants.every(isWhole) ? tenants : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

function isWhole(tenant: Partial<DemoTenant> | null): boolean {
  return typeof tenant?.id === 'string' && typeof tenant.keys === 'object' && tenant.keys !== null;
}
