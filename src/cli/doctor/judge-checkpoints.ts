import type { Client } from 'pg';
import { CheckpointDirectory, isSameCheckpoint, SealRefused } from '../../audit/tools.js';
import { type Finding, faultsOr, hint } from './finding.js';

interface StoredLog {
  tenantId: number;
  size: number;
  /** Its last checkpoint; null without one. */
  lastSize: number | null;
  /** Seconds since that was signed. */
  age: number | null;
}

/** Longest that a checkpoint may wait to be published, in seconds. */
const LONGEST_WAIT = 60;
const ADVICE =
  'Keep the folder and its copies as they are, run `waybill audit verify`, and read "Back up and restore" in docs/operating.md.';

/** Whether what is published and what the database holds are the same logs. As `waybill_sealer`. */
export async function judgeCheckpoints(
  client: Client,
  { path, isDefault }: { path: string; isDefault: boolean },
): Promise<Finding[]> {
  const directory = new CheckpointDirectory(path);
  const { rows: logs } = await client.query<StoredLog>(`
    SELECT l.tenant_id AS "tenantId", c.size AS "lastSize", extract(epoch FROM now() - c.created_at)::float AS age,
           coalesce((SELECT max(leaf_index) + 1 FROM audit.leaves f WHERE f.tenant_id = l.tenant_id), 0) AS size
    FROM audit.logs l
    LEFT JOIN LATERAL (SELECT size, created_at FROM audit.checkpoints c WHERE c.tenant_id = l.tenant_id ORDER BY size DESC LIMIT 1) c ON true
    ORDER BY l.tenant_id`);
  const faults: string[] = [];
  for (const log of logs) faults.push(...(await compare(client, directory, log)));
  for (const tenantId of await directory.tenants())
    if (!logs.some((log) => log.tenantId === tenantId) && (await hasLeaves(directory, tenantId)))
      faults.push(`checkpoints of tenant ${tenantId} are published, and the database has no log of it`);
  const findings = faultsOr('checkpoints', faults, ADVICE, `What is published in ${path} is what the database has.`);
  if (isDefault && logs.length > 0)
    findings.push(
      hint(
        'checkpoints',
        `They are published in ${path}, beside the service`,
        'Set AUDIT_CHECKPOINT_DIR, and copy what appears there to where nobody who runs the database can write.',
      ),
    );
  return findings;
}

async function compare(client: Client, directory: CheckpointDirectory, log: StoredLog): Promise<string[]> {
  const { tenantId, size, lastSize, age } = log;
  const found: string[] = [];
  if (size !== (lastSize ?? 0))
    found.push(`the log of tenant ${tenantId} has ${size} leaves, and its last checkpoint covers ${lastSize ?? 0}`);
  try {
    const published = await directory.last(tenantId);
    if (!published) return [...found, `nothing of the log of tenant ${tenantId} is published in ${directory.path}`];
    const where = directory.fileOf(tenantId, published);
    if (published.size > size)
      return [
        ...found,
        `the log of tenant ${tenantId} has ${size} leaves, fewer than the ${published.size} in ${where}`,
      ];
    const { rows } = await client.query<{ note: string }>(
      'SELECT note FROM audit.checkpoints WHERE tenant_id = $1 AND size = $2',
      [tenantId, published.size],
    );
    if (published.size > 0 && !(rows[0] && isSameCheckpoint(rows[0].note, published.note)))
      found.push(`the checkpoint of tenant ${tenantId} in ${where} is not one of the database's`);
    if (published.size < (lastSize ?? 0) && (age ?? 0) > LONGEST_WAIT)
      found.push(
        `the log of tenant ${tenantId} has ${lastSize} leaves, and for ${Math.floor(age ?? 0)} s only ${published.size} are published`,
      );
  } catch (error) {
    if (!(error instanceof SealRefused)) throw error;
    found.push(error.message);
  }
  return found;
}

/** That a log began is published before its first leaf is there. */
async function hasLeaves(directory: CheckpointDirectory, tenantId: number): Promise<boolean> {
  try {
    return ((await directory.last(tenantId))?.size ?? 0) > 0;
  } catch (error) {
    if (error instanceof SealRefused) return true;
    throw error;
  }
}
