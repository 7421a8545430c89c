import { Client } from 'pg';
import { cpuOf } from '../world/processes.js';
import type { SqlLoad } from './pgbench.js';
import type { Sample } from './sample.js';

/**
 * Stands in for pgbench where it isn't installed: the same statements, prepared, from this process. It costs more CPU than
 * pgbench, so PostgreSQL comes out slower and ratios to it better than they are; the report says which of the two it was.
 */
export async function driveSql({ url, script, clients, seconds, postgres }: SqlLoad): Promise<Sample> {
  const statements = script
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const connections = Array.from({ length: clients }, () => new Client({ connectionString: url }));
  await Promise.all(connections.map((client) => client.connect()));
  const before = { postgres: cpuOf([postgres]), load: cpuOf([process.pid]) };
  const started = performance.now();
  const until = started + seconds * 1000;
  let count = 0;
  await Promise.all(
    connections.map(async (client) => {
      while (performance.now() < until) {
        for (const [index, text] of statements.entries()) await client.query({ name: `statement_${index}`, text });
        count += 1;
      }
    }),
  );
  const perSecond = (count / (performance.now() - started)) * 1000;
  const cpu = {
    service: 0,
    postgres: (cpuOf([postgres]) - before.postgres) / count,
    load: (cpuOf([process.pid]) - before.load) / count,
  };
  await Promise.all(connections.map((client) => client.end()));
  return { count, perSecond, cpu };
}
