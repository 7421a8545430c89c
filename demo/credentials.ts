import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Where the service is and who asks. */
export interface Credentials {
  baseUrl: string;
  apiKey: string;
}

/** What the command line said; each may be missing. */
export interface CredentialOptions {
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  dataDir: string;
}

interface DemoFile {
  baseUrl?: string;
  database?: { url?: string; superuserUrl?: string };
  tenants?: { id?: string; slug?: string; keys?: Record<string, string> }[];
  audit?: { verificationKey?: string | null };
}

/** There is nothing to log in with; the message says what to do. */
export class CredentialsMissing extends Error {}

/**
 * Takes address and key from the options, and what they leave open from `demo.json`, which the first `npm start` writes:
 * the demo tenant's operator, which may place and move orders.
 * @throws CredentialsMissing
 */
export async function findCredentials(options: CredentialOptions): Promise<Credentials> {
  const { baseUrl, apiKey } = options;
  if (baseUrl !== undefined && apiKey !== undefined) return { baseUrl: trimSlash(baseUrl), apiKey };
  const path = join(options.dataDir, 'demo.json');
  const demo = await readDemoFile(path);
  const tenant = demo.tenants?.find(({ slug }) => slug === 'demo') ?? demo.tenants?.[0];
  const foundUrl = baseUrl ?? demo.baseUrl;
  const foundKey = apiKey ?? tenant?.keys?.['operator'] ?? tenant?.keys?.['admin'];
  if (foundUrl === undefined || foundKey === undefined) {
    throw new CredentialsMissing(`${path} names no address or no operator key: pass --base-url and --api-key.`);
  }
  return { baseUrl: trimSlash(foundUrl), apiKey: foundKey };
}

/** What only those have who own the server of the demo: its database, and the key that verifies its history. */
export interface OwnServer {
  /** As the role of the service. */
  databaseUrl: string;
  superuserUrl: string;
  tenantId: number;
  /** The public half of the key that signs the tenant's history; null where none signs it. */
  verifierKey: string | null;
}

/** Null when an address or a key was given: then demo.json may tell of another service or tenant. */
export async function findOwnServer({ baseUrl, apiKey, dataDir }: CredentialOptions): Promise<OwnServer | null> {
  if (baseUrl !== undefined || apiKey !== undefined) return null;
  const { database, tenants, audit } = await readDemoFile(join(dataDir, 'demo.json'));
  const [tenant] = tenants ?? [];
  if (!database?.url || !database.superuserUrl || !tenant?.id) return null;
  return {
    databaseUrl: database.url,
    superuserUrl: database.superuserUrl,
    tenantId: Number(tenant.id),
    verifierKey: audit?.verificationKey ?? null,
  };
}

async function readDemoFile(path: string): Promise<DemoFile> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch {
    throw new CredentialsMissing(
      `There is no ${path}: start the service with "npm start" first, which writes it, or pass --base-url and --api-key.`,
    );
  }
  try {
    return JSON.parse(text) as DemoFile;
  } catch {
    throw new CredentialsMissing(`${path} is not JSON: delete it, and "npm start" writes it again.`);
  }
}

function trimSlash(url: string): string {
  return url.replace(/\/+$/, '');
}
