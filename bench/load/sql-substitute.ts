import { randomInt } from 'node:crypto';
import { Client } from 'pg';
import { cpuOf } from '../world/processes.js';
import type { Sample } from './sample.js';
import type { SqlLoad } from './sql-load.js';

const MOST_RANDOM = 2 ** 47;

/**
 * Stands in for pgbench where it isn't installed: the same statements, prepared, from this process. It costs more CPU than
 * pgbench, so PostgreSQL comes out slower and ratios to it better than they are; the report says which of the two it was.
 */
export async function driveSql({ url, script, clients, seconds, postgres }: SqlLoad): Promise<Sample> {
  const lines = script.split('\n').map((line) => line.trim());
  const statements = lines.filter((line) => line !== '' && !line.startsWith('\\set ')).map(withParameter);
  const connections = Array.from({ length: clients }, () => new Client({ connectionString: url }));
  await Promise.all(connections.map((client) => client.connect()));
  const before = { postgres: cpuOf([postgres]), load: cpuOf([process.pid]) };
  const started = performance.now();
  const until = started + seconds * 1000;
  let count = 0;
  await Promise.all(
    connections.map(async (client) => {
      while (performance.now() < until) {
        const key = String(randomInt(MOST_RANDOM));
        for (const [index, { text, takesKey }] of statements.entries())
          await client.query({ name: `statement_${index}`, text, values: takesKey ? [key] : [] });
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

/** The one variable that scripts have: `\set key random(…)`, then `:key`. */
function withParameter(statement: string): { text: string; takesKey: boolean } {
  const text = statement.replaceAll(/(?<!:):key\b/g, '$1');
  return { text, takesKey: text !== statement };
}
