import { Client } from 'pg';
import type { Sample } from '../load/sample.js';
import { type BenchDatabase, query } from '../world/server.js';

interface FunctionTime {
  name: string;
  calls: number;
  total: number;
  self: number;
}

/** Time in each function while `work` runs, for each of what it counts, as a text table. Times are PostgreSQL's own. */
export async function functionTimes(database: BenchDatabase, work: () => Promise<Sample>): Promise<string> {
  const { name, superuserUrl } = database;
  await query(superuserUrl, `ALTER DATABASE ${name} SET track_functions = 'all'`);
  await query(superuserUrl, 'SELECT pg_stat_reset()');
  const { count } = await work();
  await query(superuserUrl, `ALTER DATABASE ${name} RESET track_functions`);
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  const { rows } = await client.query<FunctionTime>(
    `SELECT schemaname || '.' || funcname AS name, calls::float8 AS calls, total_time AS total, self_time AS self
     FROM pg_stat_user_functions ORDER BY self_time DESC`,
  );
  await client.end();
  const line = (label: string, calls: string, total: string, self: string): string =>
    `  ${label.padEnd(36)} ${calls.padStart(6)} ${total.padStart(8)} ${self.padStart(8)}`;
  const each = (milliseconds: number): string => ((milliseconds * 1000) / count).toFixed(0);
  return [
    line('function', 'calls', 'total', 'self'),
    ...rows.map((row) => line(row.name, (row.calls / count).toFixed(1), each(row.total), each(row.self))),
  ].join('\n');
}
