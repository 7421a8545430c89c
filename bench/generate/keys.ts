import { Client } from 'pg';
import type { GenerateTarget } from './orders.js';

const BATCH = 100_000;

/** Finished idempotency keys of the last days, with short answers: what matters is how many there are. */
export async function generateKeys(
  database: GenerateTarget,
  count: number,
  say: (text: string) => void,
): Promise<void> {
  const client = new Client({ connectionString: database.superuserUrl });
  await client.connect();
  try {
    await client.query(`SET session_replication_role = replica; SET synchronous_commit = off`);
    for (let first = 1; first <= count; first += BATCH) {
      const last = Math.min(count, first + BATCH - 1);
      await client.query(
        `INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, resource, response_status,
           response_headers, response_body, created_at, expires_at)
         SELECT 1, gen_random_uuid()::text, sha256('request'), 'completed', 'order/' || n, 201, '{"etag": "\\"1\\""}',
                sha256('answer'), clock_timestamp() - interval '1 hour', clock_timestamp() + interval '30 days'
         FROM generate_series($1::bigint, $2::bigint) n`,
        [first, last],
      );
      say(`generating keys: ${last.toLocaleString('en-US')} of ${count.toLocaleString('en-US')}`);
    }
    await client.query('VACUUM (FREEZE, ANALYZE) waybill.idempotency_keys');
  } finally {
    await client.end();
  }
}
