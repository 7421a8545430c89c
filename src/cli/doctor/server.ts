import type { Client } from 'pg';
import { type Finding, fault, hint, ok } from './finding.js';

export interface ServerFacts {
  version: string;
  major: number;
  encoding: string;
  isStandby: boolean;
  isReadOnly: boolean;
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
  checksums: string;
  maxConnections: number;
}

const OLDEST = 15;

export async function readServer(client: Client): Promise<ServerFacts> {
  const { rows } = await client.query<ServerFacts>(`
    SELECT split_part(current_setting('server_version'), ' ', 1) AS version,
           current_setting('server_version_num')::int / 10000 AS major,
           current_setting('server_encoding') AS encoding,
           pg_is_in_recovery() AS "isStandby",
           current_setting('default_transaction_read_only')::boolean AS "isReadOnly",
           current_setting('fsync') AS fsync,
           current_setting('full_page_writes') AS "fullPageWrites",
           current_setting('synchronous_commit') AS "synchronousCommit",
           current_setting('data_checksums') AS checksums,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS "maxConnections"`);
  if (!rows[0]) throw new Error('the server told nothing of itself');
  return rows[0];
}

export function judgeServer(server: ServerFacts, poolSize: number): Finding[] {
  const findings: Finding[] = [];
  if (server.major < OLDEST) {
    findings.push(fault('server', `PostgreSQL ${server.version} is too old`, `Upgrade it to ${OLDEST} or later.`));
  }
  if (server.encoding !== 'UTF8') {
    findings.push(
      fault(
        'server',
        `The database is encoded in ${server.encoding}`,
        'Make it anew with ENCODING UTF8: hashes are over UTF-8.',
      ),
    );
  }
  if (server.isStandby || server.isReadOnly) {
    findings.push(
      fault(
        'server',
        'The server takes no writes (a standby, or read-only by setting)',
        'Point the addresses at the primary.',
      ),
    );
  }
  const lossy = [
    ...(server.fsync === 'off' ? ['fsync'] : []),
    ...(server.fullPageWrites === 'off' ? ['full_page_writes'] : []),
    ...(server.synchronousCommit === 'off' ? ['synchronous_commit'] : []),
  ];
  if (lossy.length > 0) {
    findings.push(
      fault(
        'durability',
        `Off: ${lossy.join(', ')}. A crash loses answered requests`,
        'Turn it on in postgresql.conf.',
      ),
    );
  }
  if (server.checksums === 'off') {
    findings.push(
      hint(
        'durability',
        'Data checksums are off: a rotten disk is not noticed',
        'pg_checksums --enable, with the server stopped.',
      ),
    );
  }
  if (poolSize > server.maxConnections) {
    findings.push(
      fault(
        'connections',
        `A pool of ${poolSize} is more than the ${server.maxConnections} the server has`,
        'Lower DATABASE_POOL_SIZE.',
      ),
    );
  }
  return findings.length > 0 ? findings : [ok('server', `PostgreSQL ${server.version}, durable, takes writes.`)];
}
