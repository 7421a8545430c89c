import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../measures/measure.js';
import { ROOT } from '../world/folders.js';
import { type BenchDatabase, query } from '../world/server.js';
import { generateOrders } from './orders.js';

/**
 * A database with this many orders. It is made once and kept for later runs, as long as neither the schema nor the
 * generator changes.
 */
export async function databaseWithOrders({ server, say }: Bench, orders: number): Promise<BenchDatabase> {
  const name = `bench_orders_${orders}`;
  const wanted = fingerprint();
  const [known] = await query<{ made: string | null }>(
    server.superuserUrl,
    `SELECT shobj_description(oid, 'pg_database') AS made FROM pg_database WHERE datname = $1`,
    [name],
  );
  if (known?.made === wanted) return server.openDatabase(name);
  const database = await server.createDatabase(name);
  await generateOrders(database, { from: 1, to: orders, mixed: true }, say);
  await query(server.superuserUrl, `COMMENT ON DATABASE ${name} IS '${wanted}'`);
  return database;
}

function fingerprint(): string {
  const hash = createHash('sha256');
  const folders = ['migrations/released', 'bench/generate'];
  for (const folder of folders) {
    for (const file of readdirSync(join(ROOT, folder)).toSorted()) hash.update(readFileSync(join(ROOT, folder, file)));
  }
  return hash.digest('hex');
}
